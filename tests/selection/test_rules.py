"""Every rule against its naive twin, and what must hold for all of them."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import assume, given, settings, strategies as st

from rote.errors import InputError
from rote.records import ZETAS
from rote.selection import RULES, describe_rule, select
from rote.store import read_table
from tests.selection import naive
from tests.selection.tables import Row, known_options, rows, shuffled, table_of, write_voters

# Rules by which runs vote need predictions on disk, and say that they cannot be resampled.
ON_TABLES = [name for name, rule in RULES.items() if describe_rule(rule).not_resampled is None]
VOTING = [name for name in RULES if name not in ON_TABLES]


@pytest.mark.parametrize("rule", naive.RULES)
@settings(deadline=None, max_examples=50)
@given(found=rows(gaps=True), column=st.sampled_from(ZETAS))
def test_the_pick_is_that_of_plain_loops(rule: str, found: list[Row], column: str) -> None:
    if not naive.can_judge(rule, found, column):
        with pytest.raises(InputError, match="Rule .* needs"):
            select(table_of(found), rule, column=column)
        return
    pick = select(table_of(found), rule, column=column).pick
    expected = naive.RULES[rule](found, column)
    assert (pick.run, pick.step) == (expected["run"], expected["step"])
    assert pick.susceptibility == (expected[column] if naive.has(expected, column) else None)


@settings(deadline=None, max_examples=50)
@given(found=rows(), t1=st.integers(0, 8), t2=st.integers(0, 8))
def test_percentiles_are_those_of_plain_loops(found: list[Row], t1: int, t2: int) -> None:
    low, high = t1 * 12.5, t2 * 12.5
    pick = select(table_of(found), "percentile", t1=low, t2=high).pick
    expected = naive.by_percentile(found, "susceptibility", low, high)
    assert (pick.run, pick.step) == (expected["run"], expected["step"])


@pytest.mark.parametrize("rule", ON_TABLES)
@settings(deadline=None, max_examples=20)
@given(found=rows(gaps=True), seed=st.integers(0, 1_000))
def test_the_order_of_rows_and_runs_does_not_matter(rule: str, found: list[Row], seed: int) -> None:
    assume(rule == "before-rise" or naive.can_judge(rule, found, "susceptibility"))
    assume(any(naive.has(row, "susceptibility") for row in found))
    table = table_of(found)
    options = known_options(rule)
    one, other = (select(given, rule, **options) for given in (table, shuffled(table, seed)))
    assert one.to_json() == other.to_json()
    assert (one.pick, one.reasons, one.warnings) == (other.pick, other.reasons, other.warnings)
    assert one.table.sort("run", "step").equals(other.table.sort("run", "step"))


@pytest.mark.parametrize("rule", ON_TABLES)
@settings(deadline=None, max_examples=30)
@given(found=rows(), power=st.integers(-20, 20))
def test_the_scale_of_zeta_does_not_matter(rule: str, found: list[Row], power: int) -> None:
    scaled = [row | {"susceptibility": row["susceptibility"] * 2.0**power} for row in found]
    options = known_options(rule)
    one, other = (select(table_of(given), rule, **options).pick for given in (found, scaled))
    assert (one.run, one.step, one.region) == (other.run, other.step, other.region)


@pytest.mark.parametrize("rule", VOTING)
@pytest.mark.parametrize("seed", range(3))
def test_neither_order_nor_scale_of_zeta_matters_where_runs_vote(
    rule: str, seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=40)
    is_right = rng.random((3, 12, 40)) < np.linspace(0.4, 0.9, 36).reshape(3, 12, 1)
    predictions = np.where(is_right, labels, rng.integers(3, size=(3, 12, 40))).astype(np.uint8)
    write_voters(tmp_path, predictions, 3, given=labels)
    table = read_table(tmp_path)
    scaled = replace(table, frame=table.frame.with_columns(pl.col("susceptibility") * 2.0**7))
    options = known_options(rule)
    one, other, third = (
        select(found, rule, **options) for found in (table, shuffled(table, seed), scaled)
    )
    assert one.to_json() == other.to_json()
    assert one.table.sort("run", "step").equals(other.table.sort("run", "step"))
    assert (one.pick.run, one.pick.step) == (third.pick.run, third.pick.step)


@pytest.mark.parametrize("rule", ON_TABLES)
@settings(deadline=None, max_examples=15)
@given(found=rows(gaps=True))
def test_regions_are_a_partition_with_true_means(rule: str, found: list[Row]) -> None:
    assume(rule == "before-rise" or naive.can_judge(rule, found, "susceptibility"))
    assume(any(naive.has(row, "susceptibility") for row in found))
    selection = select(table_of(found), rule, **known_options(rule))
    known = naive.both(found, "susceptibility")
    assert [entry.region for entry in selection.regions] == [1, 2, 3, 4]
    assert sum(entry.count for entry in selection.regions) == len(known)
    regions = selection.table.sort("run", "step")["region"].to_list()
    bars = [selection.thresholds.get(name) for name in ("susceptibility", "train_accuracy")]
    for row, region in zip(
        sorted(found, key=lambda r: (r["run"], r["step"])), regions, strict=True
    ):
        expected = None if None in bars else naive.region(row, "susceptibility", *bars)  # type: ignore[arg-type]
        assert region == expected
    for entry in selection.regions:
        inside = [
            row
            for row in known
            if naive.region(row, "susceptibility", *bars) == entry.region  # type: ignore[arg-type]
        ]
        assert entry.count == len(inside)
        for name in ("susceptibility", "train_accuracy", "test_accuracy"):
            values = [row[name] for row in inside if naive.has(row, name)]
            expected_mean = naive.mean(values) if values else None
            assert getattr(entry, name) == pytest.approx(expected_mean)


@settings(deadline=None, max_examples=100)
@given(rows())
def test_by_accuracy_alone_the_trainable_threshold_makes_no_difference(found: list[Row]) -> None:
    # The highest training accuracy among the resistant is trainable by either threshold, if any is.
    table = table_of(found)
    by_regions = select(table, "regions", prefer="accuracy").pick
    assert by_regions.step == select(table, "staged", prefer="accuracy").pick.step
    assert select(table, "staged").pick.region == 1


@settings(deadline=None, max_examples=100)
@given(found=rows(), prefer=st.sampled_from(["balance", "accuracy", "resistance"]))
def test_preferences_are_those_of_plain_loops(found: list[Row], prefer: str) -> None:
    pick = select(table_of(found), "staged", prefer=prefer).pick
    expected = naive.staged(found, "susceptibility", prefer)
    assert (pick.run, pick.step) == (expected["run"], expected["step"])


def test_an_unknown_preference_is_refused() -> None:
    found = [{"run": "a", "step": 1, "susceptibility": 0.5, "train_accuracy": 0.5}]
    with pytest.raises(
        InputError, match="Expected `prefer` to be one of balance, accuracy, .*'luck'"
    ):
        select(table_of(found), "regions", prefer="luck")


@settings(deadline=None, max_examples=100)
@given(rows())
def test_thresholds_are_means_within_the_values(found: list[Row]) -> None:
    thresholds = select(table_of(found), "regions").thresholds
    zeta, train = naive.paper_bars(found, "susceptibility")
    assert thresholds["susceptibility"] == pytest.approx(zeta, rel=1e-12, abs=1e-12)
    assert thresholds["train_accuracy"] == pytest.approx(train, rel=1e-12, abs=1e-12)


def test_checkpoints_that_are_all_alike_are_all_in_region_one() -> None:
    alike = {"susceptibility": 0.1, "train_accuracy": 0.7}
    found = [{"run": "a", "step": step} | alike for step in range(1, 12)]
    selection = select(table_of(found), "regions")
    assert selection.regions[0].count == 11
    assert (selection.pick.run, selection.pick.step) == ("a", 1)


def test_ties_go_to_lower_zeta_then_earlier_step_then_first_name() -> None:
    same = {"train_accuracy": 0.9, "test_accuracy": 0.5}
    found = [
        {"run": "b", "step": 1, "susceptibility": 0.5} | same,
        {"run": "b", "step": 2, "susceptibility": 0.2} | same,
        {"run": "c", "step": 1, "susceptibility": 0.2} | same,
        {"run": "d", "step": 1, "susceptibility": 0.2} | same,
    ]
    pick = select(table_of(found), "oracle").pick
    assert (pick.run, pick.step) == ("c", 1)


def test_the_knee_of_a_front_is_its_corner() -> None:
    curve = [(0.0, 0.1), (0.1, 0.6), (0.2, 0.8), (0.6, 0.85), (1.0, 0.9), (0.9, 0.2)]
    found = [
        {"run": "a", "step": step, "susceptibility": zeta, "train_accuracy": accuracy}
        for step, (zeta, accuracy) in enumerate(curve)
    ]
    selection = select(table_of(found), "pareto")
    assert selection.pick.step == 2
    assert selection.table["score"].null_count() == 1
    assert selection.pick.score == pytest.approx((0.875 - 0.2) / math.sqrt(2))


def test_a_pareto_front_of_two_keeps_the_lower_zeta() -> None:
    found = [
        {"run": "a", "step": 1, "susceptibility": 0.0, "train_accuracy": 0.1},
        {"run": "a", "step": 2, "susceptibility": 1.0, "train_accuracy": 0.9},
    ]
    assert select(table_of(found), "pareto").pick.step == 1


@pytest.mark.parametrize("name", ["t1", "t2"])
@pytest.mark.parametrize("value", [-1, 101, "half"])
def test_percentiles_are_from_0_to_100(name: str, value: object) -> None:
    with pytest.raises(InputError, match=f"`{name}` to be a number from 0 to 100, got {value!r}"):
        select("unread", "percentile", **{name: value})
