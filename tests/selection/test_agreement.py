"""Agreement with the truth, against scipy, and intervals against draws that are written out."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from rote.errors import InputError
from rote.selection import Draws, Estimate, agreement, bootstrap as boot, regret, select
from rote.selection.agreement import correlate
from rote.selection.bootstrap import kendall, pearson, resample, spearman
from tests.selection import naive
from tests.selection.tables import Row, rows, shuffled, table_of

MEASURES = {
    pearson: stats.pearsonr,
    spearman: stats.spearmanr,
    kendall: stats.kendalltau,
}
FEW = Draws(resamples=40)


def holdout(runs: int = 12, length: int = 10, seed: int = 0) -> list[Row]:
    """Runs that memorize at their own pace: test accuracy falls as ζ and training rise."""
    rng = np.random.default_rng(seed)
    found: list[Row] = []
    for run, pace in enumerate(rng.random(runs)):
        for step in range(1, length + 1):
            memorized = pace * step / length + 0.02 * rng.standard_normal()
            found.append(
                {
                    "run": f"run{run:02d}",
                    "step": step,
                    "susceptibility": memorized + 0.05 * rng.standard_normal(),
                    "train_accuracy": 0.5 * min(1, step / 4) + memorized / 2,
                    "test_accuracy": 0.9 * min(1, step / 4) - memorized / 2,
                    "noisy_accuracy": memorized,
                }
            )
    return found


def column(found: list[Row], name: str) -> np.ndarray:
    return np.array([row[name] for row in found])


def test_values_are_those_of_scipy() -> None:
    found = holdout()
    result = agreement(table_of(found), draws=FEW)
    zeta, noisy = column(found, "susceptibility"), column(found, "noisy_accuracy")
    train, test = column(found, "train_accuracy"), column(found, "test_accuracy")
    low = zeta <= np.median(zeta)
    expected = {
        "memorization_pearson": stats.pearsonr(zeta, noisy),
        "memorization_spearman": stats.spearmanr(zeta, noisy),
        "train_test_pearson": stats.pearsonr(train, test),
        "train_test_kendall": stats.kendalltau(train, test),
        "filtered_pearson": stats.pearsonr(train[low], test[low]),
        "filtered_kendall": stats.kendalltau(train[low], test[low]),
    }
    for name, value in expected.items():
        estimate = getattr(result, name)
        assert estimate.value == pytest.approx(value.statistic, abs=1e-12)
        assert estimate.low < estimate.high
        assert estimate.reason is None
    assert (result.runs, result.checkpoints, result.rule) == (12, 120, "regions")
    pick = select(table_of(found), "regions").pick
    assert result.regret.value == pytest.approx(test.max() - (pick.test_accuracy or 0))


@pytest.mark.parametrize("measure", MEASURES)
@settings(deadline=None, max_examples=60)
@given(st.data())
def test_weighting_a_row_equals_repeating_it(measure: boot.Measure, data: st.DataObject) -> None:
    length = data.draw(st.integers(3, 12))
    values = st.lists(st.integers(-3, 3), min_size=length, max_size=length)
    x, y = (np.array(data.draw(values), dtype=float) for _ in range(2))
    times = np.array(data.draw(st.lists(st.integers(0, 3), min_size=length, max_size=length)))
    is_by_run = data.draw(st.booleans())
    unit = np.sort(np.arange(length) % 3) if is_by_run else np.arange(length)
    weights = times[: unit.max() + 1].astype(float)
    times = times[unit] if is_by_run else times
    repeated_x, repeated_y = np.repeat(x, times), np.repeat(y, times)
    found = measure(x, y, unit, weights[:, None])[0]
    if len(repeated_x) < 2 or np.ptp(repeated_x) == 0 or np.ptp(repeated_y) == 0:
        assert np.isnan(found)
        return
    expected = MEASURES[measure](repeated_x, repeated_y).statistic
    assert found == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("filters", [False, True])
def test_intervals_are_those_of_draws_written_out(measure: boot.Measure, filters: bool) -> None:
    found = holdout(runs=7, length=6)
    x, y = column(found, "train_accuracy"), column(found, "test_accuracy")
    zeta = column(found, "susceptibility")
    run = np.array([int(row["run"][3:]) for row in found])
    values = []
    for counts in FEW.counts(7):
        times = counts[run].astype(int)
        keep = np.ones(times.sum(), dtype=bool)
        if filters:
            keep = np.repeat(zeta, times) <= np.median(np.repeat(zeta, times))
        again = MEASURES[measure](np.repeat(x, times)[keep], np.repeat(y, times)[keep])
        values.append(again.statistic)
    found_again = resample(measure, x, y, run, FEW, zeta if filters else None)
    assert found_again == pytest.approx(np.array(values))
    assert not isinstance(found_again, str)
    assert FEW.interval(found_again) == pytest.approx(np.quantile(values, [0.025, 0.975]))


def test_runs_are_drawn_not_checkpoints() -> None:
    # Every run repeats one checkpoint: more of the same must not narrow the interval.
    once = holdout(runs=30, length=1)
    often = [row | {"step": step} for row in once for step in range(1, 21)]
    narrow, wide = (
        agreement(table_of(found), draws=FEW).memorization_pearson for found in (often, once)
    )
    assert narrow == Estimate(
        pytest.approx(wide.value), pytest.approx(wide.low), pytest.approx(wide.high)
    )


def test_the_same_seed_gives_the_same_and_order_does_not_matter() -> None:
    table = table_of(holdout())
    first = agreement(table, draws=FEW)
    assert agreement(table, draws=FEW) == first
    assert agreement(shuffled(table, 3), draws=FEW) == first
    assert agreement(table, draws=Draws(resamples=40, seed=1)) != first


def test_many_checkpoints_are_thinned_within_their_runs() -> None:
    x = np.random.default_rng(0).standard_normal(12_000)
    run = np.repeat(np.arange(12), 1_000)
    y = x + np.random.default_rng(1).standard_normal(12_000) + run / 4
    drawn = resample(kendall, x, y, run, FEW)
    assert not isinstance(drawn, str)
    low, high = FEW.interval(drawn) or (1, -1)
    assert low < stats.kendalltau(x, y).statistic < high


@settings(deadline=None, max_examples=40)
@given(rows(max_runs=7, gaps=True))
def test_rows_with_missing_values_are_excluded_from_the_measures_they_affect(
    found: list[Row],
) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = agreement(table_of(found), draws=Draws(resamples=5))
    known = [row for row in found if naive.has(row, "susceptibility", "noisy_accuracy")]
    zeta, noisy = column(known, "susceptibility"), column(known, "noisy_accuracy")
    estimate = result.memorization_pearson
    if len(known) < 2:
        assert estimate.reason == "Fewer than 2 checkpoints have both values."
    elif np.ptp(zeta) == 0 or np.ptp(noisy) == 0:
        assert estimate.reason == "One of the two values is the same everywhere."
    else:
        assert estimate.value == pytest.approx(stats.pearsonr(zeta, noisy).statistic, abs=1e-9)
        if len({row["run"] for row in known}) < 5:
            assert (estimate.low, estimate.high) == (None, None)
            assert "too few for an interval; it takes 5" in (estimate.reason or "")


def test_unrecorded_columns_have_no_value() -> None:
    found = [{"run": "a", "step": s, "susceptibility": s / 9} for s in range(1, 12)]
    result = agreement(table_of(found))
    assert result.train_test_kendall.value is None
    assert result.memorization_spearman.value is None
    assert "needs `train_accuracy`" in (result.regret.reason or "")


@pytest.mark.parametrize("rule", ["regions", "before-rise", "last", "oracle", "pareto"])
def test_regret_is_the_gap_from_the_pick_to_the_best(rule: str) -> None:
    found = holdout()
    estimate = regret(table_of(found), rule, draws=FEW)
    best = column(found, "test_accuracy").max()
    assert estimate.value == pytest.approx(
        best - (select(table_of(found), rule).pick.test_accuracy or 0)
    )
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low <= estimate.high
    if rule == "oracle":
        assert (estimate.value, estimate.high) == (0, 0)


def test_regret_takes_options_and_refuses_what_select_refuses() -> None:
    table = table_of(holdout())
    assert regret(table, "percentile", t1=0, t2=0, draws=FEW) != regret(
        table, "percentile", t1=100, draws=FEW
    )
    with pytest.raises(InputError, match="Expected `rule` to be one of"):
        regret(table, "best")


def test_a_run_resampled_twice_counts_as_two_runs() -> None:
    # With steps of both copies in one sequence there would be no bend to find.
    found = [
        {
            "run": f"run{run}",
            "step": step,
            "susceptibility": 0.1 + 0.05 * max(0, step - 6 - run % 3),
            "train_accuracy": 0.6,
            "test_accuracy": 1.0 if step == 6 + run % 3 else 0.5,
        }
        for run in range(6)
        for step in range(1, 21)
    ]
    estimate = regret(table_of(found), "before-rise", draws=FEW)
    assert (estimate.value, estimate.low, estimate.high) == (0, 0, 0)


def test_regret_without_truth_or_without_runs_says_why() -> None:
    found = [{k: v for k, v in row.items() if k != "test_accuracy"} for row in holdout()]
    assert (
        regret(table_of(found)).reason
        == "The test accuracy of the selected checkpoint is not known."
    )
    few = regret(table_of(holdout(runs=2)))
    assert few.value is not None
    assert few.reason == "2 runs are too few for an interval; it takes 5."


def test_draws_that_have_no_value_are_not_counted() -> None:
    assert Draws(resamples=4).interval(np.array([np.nan, np.nan, np.nan, 1.0])) is None
    assert Draws(resamples=4).interval(np.array([np.nan, 1.0, 1.0, 1.0])) == (1.0, 1.0)


def test_values_whose_squares_overflow_have_a_correlation() -> None:
    x = np.array([1.0, 2.0, 4.0, 3.0, 6.0, 5.0])
    y, run = np.array([2.0, 1.0, 3.0, 5.0, 4.0, 6.0]), np.array([0, 0, 1, 1, 2, 2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        huge = correlate(x * 1e300, y, run, "pearson", Draws())
    assert huge.value == pytest.approx(stats.pearsonr(x, y).statistic)
