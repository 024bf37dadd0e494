"""From a file to runs."""

import doctest
import math
from pathlib import Path
from typing import Any

import pytest

from rote.errors import InputError
from rote.sweeps import SearchSpace
from rote.sweeps.space import sample_axis
from rote.workloads import RunSpec
from rote.workloads.spec import FieldError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "sweeps"


def specs(**tables: Any) -> list[RunSpec]:
    return list(SearchSpace.from_dict(tables))


def space(tmp_path: Path, text: str) -> list[RunSpec]:
    (tmp_path / "sweep.toml").write_text(text)
    return list(SearchSpace.from_toml(tmp_path / "sweep.toml"))


def test_a_grid_is_every_combination_in_order() -> None:
    found = specs(
        base={"epochs": 2, "optimizer": "sgd"},
        grid={"optimizer": {"lr": [0.1, 0.2]}, "seed": [3, 4]},
    )
    assert [(spec.optimizer.lr, spec.seed) for spec in found] == [
        (0.1, 3),
        (0.1, 4),
        (0.2, 3),
        (0.2, 4),
    ]
    assert {spec.epochs for spec in found} == {2}
    assert found[1].name == "lr0.1-seed4"
    expected = {"epochs": 2, "seed": 4, "optimizer": {"name": "sgd", "lr": 0.2}}
    assert found[3].identity == RunSpec.from_dict(expected).identity


def test_zipped_values_vary_together_and_lists_have_names() -> None:
    found = specs(
        name="try",
        lists={"network": {"small": {"architecture": "mlp"}, "as-is": {}}},
        zip={
            "size": {"batch": [16, 32], "optimizer": {"name": ["sgd", "adam"], "lr": [0.1, 0.01]}}
        },
    )
    assert [(spec.architecture.name, spec.batch, spec.optimizer.lr) for spec in found] == [
        ("mlp", 16, 0.1),
        ("mlp", 32, 0.01),
        ("cnn", 16, 0.1),
        ("cnn", 32, 0.01),
    ]
    assert found[0].name == "try-small-batch16-sgd-lr0.1"
    assert found[3].name == "try-as-is-batch32-adam-lr0.01"


def test_whole_sections_replace_and_single_fields_change() -> None:
    found = specs(
        base={"optimizer": {"name": "sgd", "nesterov": True}, "schedule": "exponential"},
        grid={"optimizer": [{"name": "adam"}, {"weight_decay": 0.0}], "schedule": {"gamma": [0.5]}},
    )
    adam, sgd = (spec.to_dict() for spec in found)
    assert "nesterov" not in adam["optimizer"]
    assert sgd["optimizer"]["nesterov"]
    assert sgd["optimizer"]["weight_decay"] == 0.0
    assert adam["schedule"] == sgd["schedule"] == {"name": "exponential", "gamma": 0.5}


def test_single_fields_change_the_default_section_where_the_base_names_none() -> None:
    found = specs(
        grid={"optimizer": {"lr": [0.1, 0.01]}, "architecture": {"options": [{"depth": 1}]}}
    )
    default = RunSpec()
    assert [spec.optimizer.lr for spec in found] == [0.1, 0.01]
    assert {spec.optimizer.name for spec in found} == {default.optimizer.name}
    assert {spec.architecture.name for spec in found} == {default.architecture.name}
    whole = {"name": default.optimizer.name, "lr": 0.01}
    expected = {"optimizer": whole, "architecture": {"name": "cnn", "options": {"depth": 1}}}
    assert found[1].identity == RunSpec.from_dict(expected).identity


def test_a_run_described_twice_counts_once() -> None:
    found = specs(lists={"seed": {"a": {"seed": 1}, "b": {"seed": 1}, "c": {"seed": 0}, "d": {}}})
    assert [spec.name for spec in found] == ["a", "c"]


def test_draws_are_repeatable_and_in_range() -> None:
    draw = {
        "optimizer": {"lr": {"log_uniform": [1e-4, 1.0]}, "momentum": {"uniform": [0.5, 0.9]}},
        "batch": {"integers": [16, 19]},
        "objective": {"choices": ["mixup", "cdr"]},
    }
    found = specs(base={"optimizer": "sgd"}, sample={"count": 400, "seed": 5, "draw": draw})
    assert found == specs(base={"optimizer": "sgd"}, sample={"count": 400, "seed": 5, "draw": draw})
    rates = [spec.optimizer.lr for spec in found]
    assert min(rates) >= 1e-4
    assert max(rates) <= 1.0
    # A quarter of a log-uniform draw lies in every power of ten.
    assert sum(rate < 1e-3 for rate in rates) / len(rates) == pytest.approx(0.25, abs=0.08)
    assert all(0.5 <= spec.optimizer.momentum <= 0.9 for spec in found)
    assert {spec.batch for spec in found} == {16, 17, 18, 19}
    assert {spec.objective.name for spec in found} == {"mixup", "cdr"}
    assert all(rate == float(f"{rate:.6g}") for rate in rates)


def test_more_draws_and_more_fields_keep_the_earlier_ones() -> None:
    few = sample_axis({"count": 3, "draw": {"seed": {"integers": [0, 10**6]}}})
    many = sample_axis(
        {"count": 9, "draw": {"batch": {"choices": [8, 16]}, "seed": {"integers": [0, 10**6]}}}
    )
    assert [entry.changes["seed"] for entry in few] == [e.changes["seed"] for e in many[:3]]
    other = sample_axis({"count": 3, "seed": 1, "draw": {"seed": {"integers": [0, 10**6]}}})
    assert few != other


def test_exclusions_look_at_the_whole_spec() -> None:
    grid = {"architecture": {"name": ["mlp", "cnn"]}, "seed": [0, 1]}
    found = specs(grid=grid, exclude={"slow": {"architecture": {"name": "cnn"}, "seed": [1, 2]}})
    assert [spec.name for spec in found] == ["mlp-seed0", "mlp-seed1", "cnn-seed0"]
    found = specs(grid=grid, exclude={"default": {"epochs": 30, "seed": 0}})
    assert {spec.seed for spec in found} == {1}
    found = specs(grid=grid, exclude={"network": {"architecture": ["cnn", "lenet"], "seed": 1}})
    assert [spec.name for spec in found] == ["mlp-seed0", "mlp-seed1", "cnn-seed0"]
    with pytest.raises(FieldError, match="`exclude.typo` excludes no run"):
        specs(grid=grid, exclude={"typo": {"architecture": {"nam": "cnn"}}})


def test_incompatible_settings_can_be_excluded() -> None:
    tables: dict[str, Any] = {"grid": {"epochs": [4, 5], "probe": {"every": [1, 2]}}}
    with pytest.raises(FieldError, match=r"`grid.probe.every` to divide `epochs` \(5\)"):
        specs(**tables)
    found = specs(**tables, exclude={"odd": {"epochs": 5, "probe": {"every": 2}}})
    assert len(found) == 3


def test_names_follow_a_pattern() -> None:
    found = specs(
        name="{architecture.name}/{architecture.options[width]}/{seed}",
        base={"architecture": {"name": "mlp", "options": {"width": 8}}},
        grid={"seed": [0, 1]},
    )
    assert [spec.name for spec in found] == ["mlp/8/0", "mlp/8/1"]
    with pytest.raises(FieldError, match="`name` to be a pattern of fields that every run has"):
        specs(name="{architecture.depth}", grid={"seed": [0]})


def test_numbers_that_differ_have_names_that_differ() -> None:
    found = specs(grid={"seed": [1234567, 1234568], "optimizer.lr": [0.12345678, 0.12345679, 0.1]})
    assert found[0].name == "seed1234567-lr0.12345678"
    assert found[2].name == "seed1234567-lr0.1"
    assert len({spec.name for spec in found}) == 6


def test_the_base_may_be_a_spec_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "spec.toml").write_text('name = "one"\nepochs = 7\noptimizer = "adam"\n')
    found = space(tmp_path, 'base = "spec.toml"\n[grid]\noptimizer.lr = [0.1, 0.2]\n')
    assert [(spec.name, spec.epochs, spec.optimizer.lr) for spec in found] == [
        ("one-lr0.1", 7, 0.1),
        ("one-lr0.2", 7, 0.2),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[base]\nepochs = 0\n", r"line 2: Expected `base.epochs` to be an integer of at least 1"),
        ("[grid]\nseed = [0]\n\nbatch = 3\n", r"line 4: Expected `grid.batch` to be a list of"),
        ("[grid]\nseed = []\n", r"line 2: Expected `grid.seed` to be a list of values"),
        (
            "[base]\noptimizer = 'sgd'\n[grid]\nseed = [0]\noptimizer.lr = [0.1,\n -1]\n",
            r"line 5: Expected `grid.optimizer.lr` to be a number above 0, got -1",
        ),
        (
            "[grid]\nseed = [0]\noptimizer.lrr = [0.1]\n",
            r"line 3: `grid.optimizer.lrr` is not a field of 'sgd'.*mean 'lr'",
        ),
        (
            "[grid]\nseed = [0]\noptimzer.lr = [0.1]\n",
            r"line 3: `grid.optimzer` is not a field",
        ),
        (
            "[lists.recipe.good]\nseed = 1\n[lists.recipe.bad]\nepochs = 3\nbtch = 1\n",
            r"line 5: `lists.recipe.bad.btch` is not a field",
        ),
        (
            "[zip.pair]\nseed = [0, 1]\nbatch = [8]\n",
            r"line 3: Expected `zip.pair.batch` to have as many values as the others",
        ),
        (
            "[sample]\ncount = 2\n[sample.draw]\noptimizer.lr = { log_uniform = [0, 1] }\n",
            r"line 4: Expected `sample.draw.optimizer.lr.log_uniform` to be two numbers above 0",
        ),
        (
            "[sample]\ncount = 2\n[sample.draw]\nbatch = { integers = [9, 1] }\n",
            r"line 4: Expected `sample.draw.batch.integers` to be two numbers, the smaller",
        ),
        (
            "[sample]\ncount = 2\n[sample.draw]\nbatch = { normal = [9, 1] }\n",
            r"line 4: Expected `sample.draw.batch.*` to be one of { choices = \[…\] }",
        ),
        (
            "[sample]\n[sample.draw]\nbatch = { choices = [9] }\n",
            r"`sample.count` to be an integer",
        ),
        ("[gird]\nseed = [0]\n", r"line 1: `gird` is not known here\. Did you mean 'grid'"),
        (
            "[grid]\nseed = [0, 1]\n[zip.a]\nseed = [2, 3]\n",
            r"line 2: `grid.seed` sets the same field as zip.a.seed",
        ),
        ("[grid]\nseed = = 3\n", r"is not valid TOML: .*line 2"),
        ("[exclude.x]\nepochs = 3\n", r"line 1: `exclude.x` excludes no run"),
        ("base = 'nowhere.toml'\n", r"line 1: Expected `base` to be a table or the file"),
    ],
)
def test_a_mistake_is_answered_with_line_and_field(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message):
        space(tmp_path, text)


def test_ten_thousand_runs_are_made_one_by_one() -> None:
    endless = SearchSpace.from_dict({"grid": {"seed": list(range(10_000)), "batch": [8, 16]}})
    first = iter(endless)
    assert [next(first).seed for _ in range(3)] == [0, 0, 1]


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.toml")), ids=lambda file: file.stem)
def test_examples_are_sweeps(file: Path) -> None:
    found = list(SearchSpace.from_toml(file))
    assert len(found) == len({spec.identity for spec in found}) == len({s.name for s in found})
    assert len(found) >= 12
    assert math.prod([len(axis) for axis in SearchSpace.from_toml(file).axes]) >= len(found)


def test_the_page_says_what_happens() -> None:
    page = ROOT / "docs" / "sweeps.md"
    failures, tried = doctest.testfile(str(page), module_relative=False)
    assert (failures, tried) == (0, 3)
