import json
import math
import re
import shlex
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from scipy import stats
from typer.testing import CliRunner

import rote
from rote.cli.main import app
from rote.errors import InputError
from rote.records import Reading
from rote.reporting.charts import CHARTS, find_drawable
from rote.reporting.charts.sensitivity import PERCENTILES
from rote.reporting.contents import Contents, read_contents
from rote.reporting.provenance import collect_provenance, select_arguments, select_command
from rote.reporting.write_report import save_figures
from rote.selection import DEFAULT_RULE, RULES, select
from rote.store import RunDirectory, RunTable
from tests.reporting.stores import describe, write_store

pytestmark = pytest.mark.xdist_group("figures")


@pytest.fixture(scope="module")
def contents(tmp_path_factory: pytest.TempPathFactory) -> Contents:
    store = write_store(tmp_path_factory.mktemp("runs"), with_specs=True)
    return read_contents(store, rule="staged")


def frame(contents: Contents) -> pl.DataFrame:
    return contents.candidates.table.frame


def test_every_rule_of_the_page_agrees_with_select(contents: Contents) -> None:
    spoken = {} if DEFAULT_RULE not in RULES else {select(contents.candidates.table).rule}
    assert set(RULES) - {DEFAULT_RULE} <= contents.outcomes.keys() <= set(RULES) | spoken
    assert next(iter(contents.outcomes)) == "staged"  # which leads
    for rule, outcome in contents.outcomes.items():
        if outcome.reason is None:
            assert outcome.pick == select(contents.candidates.table, rule).pick
    without_a_holdout = contents.outcomes["consensus"]
    assert without_a_holdout.pick is None
    with pytest.raises(InputError, match=re.escape(without_a_holdout.reason or "-")):
        select(contents.candidates.table, "consensus")


def test_verdict_names_rules_that_do_better(contents: Contents) -> None:
    verdict = contents.verdict
    assert verdict.selection.rule == "staged"
    assert [other.rule for other in verdict.others] == ["regions"]
    assert verdict.best == frame(contents)["test_accuracy"].max()
    mine = verdict.selection.pick.test_accuracy
    better = {
        rule: float(outcome.test_accuracy)
        for rule, outcome in contents.outcomes.items()
        if rule != "oracle" and outcome.pick and outcome.test_accuracy > mine
    }
    assert better  # otherwise this test shows nothing
    found = [(outcome.rule, outcome.test_accuracy) for outcome in verdict.better]
    assert dict(found) == better
    assert [value for _, value in found] == sorted(better.values(), reverse=True)


@pytest.mark.parametrize("runs", [1, 6])
def test_the_verdict_is_that_of_select_everywhere(tmp_path: Path, runs: int) -> None:
    store = write_store(tmp_path, runs=runs)
    found, selection = read_contents(store), select(store)
    assert found.verdict.selection.to_json() == selection.to_json()
    assert found.same_pick == f"rote select {store}"
    assert found.shows_regions == selection.has_regions


@pytest.mark.parametrize("rule", ["before-rise", "filter", "noisy-validation", "last"])
def test_regions_are_drawn_only_for_rules_that_have_some(tmp_path: Path, rule: str) -> None:
    store = write_store(tmp_path / "runs")
    found = read_contents(store, rule=rule)
    assert not found.shows_regions
    assert found.verdict.others == ()
    assert not {"regions", "sensitivity"} & find_drawable(CHARTS, found).keys()
    saved = save_figures(found, tmp_path / "figures")
    assert saved.missing["regions"].startswith(f"Rule `{rule}` has no regions.")
    drawn = find_drawable(CHARTS, read_contents(store, rule="staged"))
    assert CHARTS.keys() - drawn.keys() == {"signals"}  # of which there is only ζ
    assert rote.plot.regions(store, rule=rule) is not None  # who asks for them gets them


def test_without_training_accuracy_another_rule_leads(tmp_path: Path) -> None:
    found = read_contents(write_store(tmp_path, metrics=[]))
    assert found.verdict.selection.rule not in ("staged", "regions", "oracle")
    assert not found.has_regions
    assert found.filter is None
    assert "train_accuracy" in (found.outcomes["staged"].reason or "")


def test_a_rule_can_be_asked_for(contents: Contents) -> None:
    table = contents.candidates.table
    assert read_contents(table, rule="filter").verdict.selection.rule == "filter"
    with pytest.raises(InputError, match="Expected `rule` to be one of .* Did you mean 'filter'"):
        read_contents(table, rule="filtre")
    with pytest.raises(InputError, match="2 runs with predictions on the same holdout"):
        read_contents(table, rule="consensus")


def test_a_weak_page_compares_by_the_reference_step_and_says_how_to_get_better(
    tmp_path: Path,
) -> None:
    """Live ζ prefers the small learning rate, the reference step the large one."""
    store = tmp_path / "runs"
    for run, (name, live, plain, accuracy) in enumerate(
        (("small", 0.01, 0.5, 0.7), ("large", 0.9, 0.1, 0.8))
    ):
        told = describe(name, run) | {"run_directory": str(tmp_path / "secret" / name)}
        directory = RunDirectory.create(store / name, told)
        for step in range(1, 7):
            values = Reading(
                step, 2.3, 2.2, 0.1, live, live / 2.3, metrics={"train_accuracy": accuracy}
            )
            directory.append(replace(values, susceptibility_plain_relative=plain), step - 1)
        directory.close()
    contents = read_contents(store)
    assert contents.verdict.selection.pick.run == "large"
    # What is drawn is what was compared.
    assert set(contents.candidates.zeta) == {0.5, 0.1}
    assert contents.label == "ζ of the reference step"
    assert set(read_contents(store, rule="filter").candidates.zeta) == {0.01, 0.9}
    rote.report(store, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.index("<h2>Better evidence</h2>") < page.index("Why this checkpoint")
    assert "secret" not in page  # paths of checkpoints are not settings
    assert "optimizer.<wbr>settings.<wbr>lr" in page


def test_no_checkpoint_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="runs have no checkpoints"):
        read_contents(write_store(tmp_path, steps=0))


def test_the_map_is_what_a_loop_finds(contents: Contents) -> None:
    rows = frame(contents).select("susceptibility", "train_accuracy", "test_accuracy").rows()
    zeta, train, _ = (np.array(column) for column in zip(*rows, strict=True))
    cells = CHARTS["sensitivity"].record(contents).cells
    assert len(cells) == len(PERCENTILES) ** 2
    for cell in cells:
        low = np.percentile(zeta, cell.zeta_percentile)
        high = np.percentile(train, cell.train_percentile)
        inside = [test for z, a, test in rows if z <= low and a >= high]
        assert cell.count == len(inside)
        assert cell.share == len(inside) / len(rows)
        expected = math.fsum(inside) / len(inside) if inside else None
        assert cell.test_accuracy == pytest.approx(expected)


def test_the_map_agrees_with_the_rule_by_percentiles(contents: Contents) -> None:
    cells = CHARTS["sensitivity"].record(contents).cells
    cell = next(c for c in cells if (c.zeta_percentile, c.train_percentile) == (55, 35))
    region = select(contents.candidates.table, "percentile", t1=55, t2=35).regions[0]
    assert cell.count == region.count
    assert cell.test_accuracy == pytest.approx(region.test_accuracy)


def test_the_filter_keeps_half_and_the_correlations_are_scipys(contents: Contents) -> None:
    zeta, train, test = (
        frame(contents)[name].to_numpy()
        for name in ("susceptibility", "train_accuracy", "test_accuracy")
    )
    assert contents.filter is not None
    record, kept = CHARTS["filter"].record(contents), contents.filter.kept
    assert kept.tolist() == (zeta <= np.median(zeta)).tolist()
    assert contents.checkpoints.columns["kept"] == kept.tolist()
    after = stats.pearsonr(train[kept], test[kept]).statistic
    assert record.filtered_pearson.value == pytest.approx(after)
    before = stats.kendalltau(train, test).statistic
    assert record.kendall.value == pytest.approx(before)


def test_runs_end_as_recorded_and_differ_in_what_differs(contents: Contents) -> None:
    assert [row.name for row in contents.runs.rows] == [f"run-{i}" for i in range(6)]
    last = frame(contents).filter(run="run-2").row(-1, named=True)
    row = contents.runs.rows[2]
    assert row.susceptibility == last["susceptibility"]
    names = [column.name for column in contents.runs.columns]
    values = dict(zip(names, row.values, strict=True))
    assert values["noisy_accuracy"] == last["noisy_accuracy"]
    best = frame(contents).filter(run="run-2")["test_accuracy"].max()
    assert values["best_test_accuracy"] == best
    assert [column.heading for column in contents.runs.columns][:2] == ["ζ", "Noisy validation"]
    assert contents.runs.varying == ("optimizer.lr",)
    assert row.settings == (f"{0.1 / 3:g}",)
    assert contents.runs.shared == {"epochs": "12", "optimizer.name": "sgd"}


def test_a_run_without_a_spec_shows_what_run_json_describes(tmp_path: Path) -> None:
    found = read_contents(write_store(tmp_path)).runs
    assert found.varying == ("seed", "optimizer.settings.lr")
    assert found.shared == {"num_classes": "10", "optimizer.class": "torch.optim.sgd.SGD"}


def test_report_is_written_despite_a_damaged_spec(tmp_path: Path) -> None:
    write_store(tmp_path, with_specs=True)
    (tmp_path / "0" / "workload.json").write_text("{half")
    (tmp_path / "1" / "workload.json").write_text("[]")
    assert len(read_contents(tmp_path).runs.rows) == 6


def test_provenance_tells_versions_seeds_noise_dates_and_commands(contents: Contents) -> None:
    facts = {fact.name: fact.values for fact in contents.provenance}
    assert facts["Versions"] == ("rote 0.1.0 · torch 2.13.0",)
    assert facts["Seed of the random labels"] == ("0 (3 runs)", "1 (3 runs)")
    assert facts["Label noise"] == ("symmetric-inclusive, rate 0.5, 44.7% of the labels are wrong",)
    assert facts["Runs started"] == ("2026-02-03T04:05:00+00:00 to 2026-02-03T04:05:05+00:00",)
    assert facts["Runs started by"] == ("python 'train it.py' --run 7",)
    assert facts["Unfinished runs"] == ("run-1",)
    assert facts["Page made by"] == ("rote.report, from Python",)
    assert facts["Same pick by"] == (contents.same_pick,)


@pytest.mark.parametrize("runs", [1, 3])
def test_the_command_that_is_named_gives_the_same_pick(tmp_path: Path, runs: int) -> None:
    found = read_contents(write_store(tmp_path / "my runs", runs=runs))
    command = shlex.split(found.same_pick)
    assert command[:2] == ["rote", "select"]
    result = CliRunner().invoke(app, [*command[1:], "--json"], catch_exceptions=False)
    pick = json.loads(result.stdout)["pick"]
    assert (pick["run"], pick["step"]) == (
        found.verdict.selection.pick.run,
        found.verdict.selection.pick.step,
    )


def test_the_command_names_column_metrics_and_every_source() -> None:
    words = select_arguments(
        ["a b", "mlflow:x@http://me:secret@host/db"],
        "staged",
        column="susceptibility_relative",
        mapping={"train_accuracy": "acc"},
        where={"data.name": "a b"},
        percent=True,
        options={"noise_rate": 0.5, "clean_labels": [1]},
    )
    assert words is not None
    assert shlex.split(select_command(words)) == [
        *("rote", "select", "a b", "mlflow:x@http://…@host/db", "--rule", "staged"),
        *("--column", "susceptibility_relative", "--map", "train_accuracy=acc"),
        *("--where", "data.name=a b", "--noise-rate", "0.5", "--clean-labels", "FILE"),
        "--percent",
    ]
    assert select_arguments(["a"], RULES["staged"]()) is None  # nothing that could be typed


def test_a_table_has_no_command(contents: Contents) -> None:
    found = read_contents(contents.candidates.table, rule="staged")
    assert found.same_pick == "rote.select(table, 'staged', column='susceptibility')"


def test_counts_of_one_run_are_singular(tmp_path: Path) -> None:
    facts = {
        fact.name: fact.values for fact in read_contents(write_store(tmp_path, runs=3)).provenance
    }
    assert facts["Seed of the random labels"] == ("0 (2 runs)", "1 (1 run)")


def test_a_run_without_readings_is_named(tmp_path: Path) -> None:
    write_store(tmp_path)
    (tmp_path / "empty").mkdir()
    description = {"schema": 1, **describe("never-probed", 1)}
    (tmp_path / "empty" / "run.json").write_text(json.dumps(description))
    assert read_contents(tmp_path).runs.empty == ("never-probed",)


def test_report_works_from_a_table_without_files() -> None:
    rows = {
        "run": ["a"] * 3,
        "step": [1, 2, 3],
        "row": [0, 1, 2],
        "susceptibility": [0.1, 0.2, 0.3],
    }
    found = read_contents(RunTable(pl.DataFrame(rows), descriptions={}))
    assert found.verdict.selection.pick.run == "a"
    assert [row.name for row in found.runs.rows] == ["a"]


@pytest.mark.parametrize(
    ("name", "model", "expected"),
    [
        ("wrench_youtube.npz", "as given", "as given, 20.9% of the labels are wrong"),
        ("cifar10n", "human", "human, 20.9% of the labels are wrong"),
    ],
)
def test_the_noise_model_is_named_as_it_was_recorded(name: str, model: str, expected: str) -> None:
    noise = {"model": model, "rate": None, "realized_rate": 0.209}
    workload = {"data": {"name": name, "noise": noise}}
    found = collect_provenance({"a": {}}, {"a": workload}, datetime.now(UTC), None, "")
    facts = {fact.name: fact.values for fact in found}
    assert facts["Label noise"] == (expected,)
    assert facts["Data"] == (name,)
