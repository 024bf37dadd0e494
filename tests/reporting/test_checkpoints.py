from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rote.reporting.checkpoints import collect_checkpoints
from rote.selection import Candidates, make_candidates
from rote.store import RunTable, read_table
from tests.reporting.stores import EVIL_METRIC, write_store

pytestmark = pytest.mark.xdist_group("figures")


def candidates(root: Path, **options: object) -> Candidates:
    return make_candidates(read_table(write_store(root, **options)), "susceptibility")


def test_all_checkpoints_are_drawn_if_there_are_few(tmp_path: Path) -> None:
    found = collect_checkpoints(candidates(tmp_path))
    assert not found.is_thinned
    assert len(found.rows()) == found.total == 6 * 12
    assert found.rows()[13]["run"] == "run-1"
    assert found.rows()[13]["step"] == 2


def test_only_requested_metrics_are_drawn(tmp_path: Path) -> None:
    found = collect_checkpoints(candidates(tmp_path), np.array([0, 13, 71]))
    assert found.is_thinned
    assert [(row["run"], row["step"]) for row in found.rows()] == [
        ("run-0", 1),
        ("run-1", 2),
        ("run-5", 12),
    ]


def test_number_of_metrics_is_limited_to_keep_the_page_small() -> None:
    frame = {"run": ["a"] * 20_000, "row": range(20_000), "step": range(20_000)}
    metrics = {f"m/{i}": np.zeros(20_000) for i in range(50)}
    described = {"m/49": {"kind": "signal"}}
    table = RunTable(pl.DataFrame(frame | metrics), {"a": {"columns": described}})
    found = collect_checkpoints(make_candidates(table, "susceptibility"))
    assert len(found.metrics) == 40
    assert found.left_out == 10
    assert found.metrics[0].name == "m/49"  # it has a chart of its own
    few = collect_checkpoints(make_candidates(table, "susceptibility"), np.arange(100))
    assert len(few.metrics) == 50
    assert few.left_out == 0


@pytest.mark.parametrize("gaps", [0.0, 0.5, 0.9])
def test_isolated_value_is_drawn_as_a_point(tmp_path: Path, gaps: float) -> None:
    rows = collect_checkpoints(candidates(tmp_path, gaps=gaps)).rows()
    for index, row in enumerate(rows):
        beside = [rows[i] for i in (index - 1, index + 1) if 0 <= i < len(rows)]
        joined = [r for r in beside if r["run"] == row["run"] and r["zeta"] is not None]
        assert row["zeta_alone"] == (row["zeta"] is not None and not joined)
    assert sum(row["zeta_alone"] for row in rows) == 0 if gaps == 0 else 1


def test_field_names_of_metrics_are_safe_in_vega_expressions(tmp_path: Path) -> None:
    names = ["train_accuracy", EVIL_METRIC, "step.loss"]
    found = collect_checkpoints(candidates(tmp_path, metrics=names))
    assert {EVIL_METRIC, "step.loss"} <= {metric.name for metric in found.metrics}
    assert all(metric.field.isalnum() for metric in found.metrics)
    assert [metric.name for metric in found.metrics][:2] == ["susceptibility", "train_accuracy"]


def test_unknown_values_are_none_and_not_zero(tmp_path: Path) -> None:
    everything = candidates(tmp_path, gaps=0.4, metrics=["train_accuracy"])
    columns = collect_checkpoints(everything).columns
    unknown = ~np.isfinite(everything.zeta)
    assert unknown.any()
    assert [value is None for value in columns["zeta"]] == unknown.tolist()
    assert columns["test"] == columns["noisy"] == [None] * len(everything)
