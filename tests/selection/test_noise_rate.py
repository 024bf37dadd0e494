"""The first checkpoint that fits as many labels as are right."""

import math

import pytest
from hypothesis import given, settings

from rote.errors import InputError
from rote.selection import select
from tests.selection.naive import first, has
from tests.selection.tables import Row, grid, rows, shuffled, table_of


def naive(rows: list[Row], rate: float) -> Row:
    known = [row for row in rows if has(row, "train_accuracy")]
    there = []
    for run in {row["run"] for row in known}:
        fits = [row for row in known if row["run"] == run and row["train_accuracy"] >= 1 - rate]
        there += sorted(fits, key=lambda row: row["step"])[:1]
    zeta = "susceptibility"
    if not there:
        return first(known, zeta, lambda row: -row["train_accuracy"])
    return first(there, zeta, lambda row: row[zeta] if has(row, zeta) else math.inf)


@settings(deadline=None, max_examples=50)
@given(found=rows(gaps=True), rate=grid)
def test_estimate_equals_naive_implementation_in_any_order(found: list[Row], rate: float) -> None:
    table = table_of(found)
    if not any(has(row, "train_accuracy") for row in found):
        with pytest.raises(InputError, match="needs `train_accuracy`"):
            select(table, rule="noise-rate", noise_rate=rate)
        return
    expected = naive(found, rate)
    for chosen in (table, shuffled(table, 1)):
        pick = select(chosen, rule="noise-rate", noise_rate=rate).pick
        assert (pick.run, pick.step) == (expected["run"], expected["step"])


def test_rule_names_its_columns_and_pitfalls() -> None:
    table = table_of(
        [{"run": "a", "step": s, "train_accuracy": s / 10, "susceptibility": 1} for s in range(9)]
    )
    found = select(table, rule="noise-rate", noise_rate=0.45)
    assert found.pick.step == 6
    assert "the first of its run that fits 55.0% of the labels" in found.reasons[1].text
    assert any("pair noise" in warning for warning in found.warnings)
    assert found.thresholds["right_labels"] == pytest.approx(0.55)
    never = select(table, rule="noise-rate", noise_rate=0.1)
    assert never.pick.step == 8
    assert "No checkpoint fits 90.0%" in never.reasons[1].text
    with pytest.raises(InputError, match="needs the share of wrong labels. Pass noise_rate="):
        select(table, rule="noise-rate")
    with pytest.raises(InputError, match="`noise_rate` to be a number from 0 to 1, got -1"):
        select(table, rule="noise-rate", noise_rate=-1)
