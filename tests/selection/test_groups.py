"""Runs that must not be compared: found, listed, chosen among."""

import json
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.selection import find_comparable_groups, select, select_groups
from rote.store import RunTable, read_table
from tests.selection.tables import table_of, write_voters

FACTS = ("num_classes", "holdout", "given_labels")


def described(descriptions: list[dict[str, Any]]) -> RunTable:
    """One run per description, two checkpoints each."""
    names = [f"run{at:02d}" for at in range(len(descriptions))]
    rows = [
        {"run": name, "step": step, "susceptibility": 0.1 * step, "train_accuracy": 0.5}
        for name in names
        for step in (1, 2)
    ]
    return replace(table_of(rows), descriptions=dict(zip(names, descriptions, strict=True)))


def description(classes: int | None, holdout: str | None, given: str | None) -> dict[str, Any]:
    told = {"num_classes": classes, "given_labels": given, "holdout": holdout and {"hash": holdout}}
    return {name: value for name, value in told.items() if value is not None}


facts = st.builds(
    description,
    st.sampled_from([None, 2, 10]),
    st.sampled_from([None, "h1", "h2"]),
    st.sampled_from([None, "0 1", "1 0"]),
)


def contradict(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """The definition, taken literally."""
    return any(name in one and name in other and one[name] != other[name] for name in FACTS)


@given(st.lists(facts, min_size=1, max_size=8))
def test_groups_are_a_partition_and_single_without_contradictions(
    descriptions: list[dict[str, Any]],
) -> None:
    table = described(descriptions)
    groups = find_comparable_groups(table)
    members = [run for group in groups for run in group.runs]
    assert sorted(members) == sorted(table.descriptions)  # everybody, once
    for group in groups:
        for one, other in combinations(group.runs, 2):
            assert not contradict(dict(table.descriptions[one]), dict(table.descriptions[other]))
    clash = any(contradict(one, other) for one, other in combinations(descriptions, 2))
    assert (len(groups) > 1) == clash


@given(st.lists(facts, min_size=2, max_size=6), st.randoms())
def test_the_order_of_runs_never_matters(descriptions: list[dict[str, Any]], random: Any) -> None:
    table = described(descriptions)
    order = list(table.descriptions)
    random.shuffle(order)
    shuffled = replace(table, descriptions={run: table.descriptions[run] for run in order})
    shuffled = replace(shuffled, frame=shuffled.frame.sample(fraction=1, shuffle=True, seed=1))
    assert set(find_comparable_groups(shuffled)[0].runs) <= set(order)
    assert {group.runs for group in find_comparable_groups(shuffled)} == {
        group.runs for group in find_comparable_groups(table)
    }


def test_runs_without_data_description_can_be_compared() -> None:
    assert len(find_comparable_groups(described([{}, {}, description(10, "h1", None)]))) == 1
    assert select(described([{}, {"name": "other", "seed": 3}]), "last").pick.step == 2


@pytest.mark.parametrize(
    ("one", "other", "key"),
    [
        (description(10, "h", None), description(5, "h", None), "num_classes"),
        (description(10, "h", None), description(10, "i", None), "holdout.hash"),
        (description(10, "h", "0 1"), description(10, "h", "1 1"), "given_labels"),
    ],
)
def test_other_classes_pools_and_labels_are_refused_with_the_way_to_choose(
    one: dict[str, Any], other: dict[str, Any], key: str
) -> None:
    table = described([one, one, other])
    with pytest.raises(InputError, match="runs cannot be compared") as said:
        select(table, "last")
    text = str(said.value)
    assert f"2 runs ({key}=" in text
    assert f"1 run ({key}=" in text
    assert f"--group-by {key}" in text
    told, _, value = text.split("--where '")[1].split("'")[0].partition("=")
    assert select(table, "last", where={told: value}).pick.run in ("run00", "run01")
    groups = select_groups(table, key, "last")
    assert sorted(len(found.table) for found in groups.values()) == [2, 4]


def write_specs(root: Path, names: list[str], rate: float = 0.5, **section: Any) -> None:
    """Runs on disk that say nothing but what their spec and data are."""
    write_voters(root, np.zeros((len(names), 2, 3), dtype=np.int64), 4)
    for folder, name in zip(sorted(root.iterdir()), names, strict=True):
        file = folder / "run.json"
        told = json.loads(file.read_text()) | {"name": f"{name}-{folder.name}", "holdout": None}
        file.write_text(json.dumps(told))
        (folder / "predictions.bin").unlink()
        data = {"name": name, "train": 10, "noise": {"rate": rate}}
        spec = {"data": {"name": name}, "noise": {"rate": rate}, "seed": 0} | section
        (folder / "workload.json").write_text(json.dumps({"data": data, "spec": spec}))


def test_folds_are_refused_with_what_to_do_with_them(tmp_path: Path) -> None:
    write_specs(tmp_path, ["table", "table", "table"])
    for fold, folder in enumerate(sorted(tmp_path.iterdir())):
        workload = json.loads((folder / "workload.json").read_text())
        workload["spec"]["probe"] = {"folds": 3, "fold": fold}
        (folder / "workload.json").write_text(json.dumps(workload))
        told = json.loads((folder / "run.json").read_text())
        held_out = {"holdout": {"size": 3, "hash": str(fold), "predictions": None}}
        (folder / "run.json").write_text(json.dumps(told | held_out | {"created": f"2026-{fold}"}))
    with pytest.raises(InputError, match="The 3 runs are folds of one training") as said:
        select(tmp_path, "staged")
    assert "rote suspects" in str(said.value)
    assert list(select_groups(tmp_path, "probe.fold", "staged")) == ["0", "1", "2"]


def test_other_data_of_specs_are_refused_and_chosen_by_name(tmp_path: Path) -> None:
    write_specs(tmp_path, ["digits", "digits", "<b>mnist"])
    with pytest.raises(InputError, match=r"2 runs \(data.name=digits\), 1 run \(data.name=<b>mn"):
        select(tmp_path, "staged")
    picked = select(tmp_path, "staged", where={"data.name": "digits"})
    assert len(picked.table) == 4
    groups = select_groups(tmp_path, "data.name", "staged")
    assert list(groups) == ["<b>mnist", "digits"]
    assert groups["digits"].to_json() == picked.to_json()


def test_files_are_distinguished_by_path_not_kind(tmp_path: Path) -> None:
    write_specs(tmp_path, ["table", "folder"])
    for folder, path in zip(sorted(tmp_path.iterdir()), ("my.csv", "photos"), strict=True):
        file = folder / "workload.json"
        told = json.loads(file.read_text())
        told["spec"]["data"]["path"] = path
        file.write_text(json.dumps(told))
    with pytest.raises(InputError) as said:
        select(tmp_path, "staged")
    assert "1 run (data.path=photos), 1 run (data.path=my.csv)" in str(said.value)
    assert "--where 'data.path=photos'" in str(said.value)
    assert "--group-by data.path" in str(said.value)


def test_runs_are_chosen_by_numbers_answers_and_several_conditions(tmp_path: Path) -> None:
    write_specs(tmp_path, ["a", "b"], rate=0.25, bf16=False)
    chosen = select(tmp_path, "last", where={"noise.rate": "0.250", "data.name": "b", "bf16": "no"})
    assert chosen.pick.run.startswith("b-")
    assert select(tmp_path, "last", where={"data.name": "b", "bf16": False}).pick == chosen.pick
    assert select(tmp_path, "last", where={"data.name": "b", "bf16": "false"}).pick == chosen.pick


def test_unknown_where_key_is_named(tmp_path: Path) -> None:
    write_specs(tmp_path, ["a", "a"])
    with pytest.raises(InputError, match=r"got 'data.nam'\. Did you mean 'data.name'"):
        select(tmp_path, "last", where={"data.nam": "a"})
    with pytest.raises(InputError, match=r"No run has data.name=c. The runs have 'a'"):
        select(tmp_path, "last", where={"data.name": "c"})
    with pytest.raises(InputError, match=r"a property that the runs record .*, got 'kind'"):
        select_groups(tmp_path, "kind", "last")


def test_a_damaged_description_of_data_is_ignored(tmp_path: Path) -> None:
    write_specs(tmp_path, ["a", "b"])
    for folder in tmp_path.iterdir():
        (folder / "workload.json").write_text("{")
    assert len(find_comparable_groups(read_table(tmp_path))) == 1
