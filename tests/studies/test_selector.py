"""What the leaderboard says of a selector, against plain loops."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings, strategies as st
from scipy import stats

from rote.selection import Draws, Estimate, make_candidates
from rote.store import RunTable, read_table
from rote.studies.selector import Selector, _pick_scored, estimate_mean, judge
from tests.selection.tables import write_voters
from tests.selection.test_posterior import CLASSES, holdout

pytestmark = pytest.mark.slow

DRAWS = Draws(resamples=20)


def table_of(score: np.ndarray, truth: np.ndarray) -> RunTable:
    """Runs × checkpoints."""
    runs, length = score.shape
    frame = pl.DataFrame(
        {
            "run": np.repeat([f"run-{number}" for number in range(runs)], length),
            "row": np.tile(np.arange(length), runs),
            "step": np.tile(np.arange(1, length + 1), runs),
            "susceptibility": np.tile(np.linspace(0.1, 0.2, length), runs),
            "train_accuracy": score.ravel(),
            "test_accuracy": truth.ravel(),
            "noisy_accuracy": 1 - truth.ravel(),
        }
    )
    return RunTable(frame, {f"run-{number}": {} for number in range(runs)})


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 5).flatmap(
        lambda runs: st.tuples(
            *[
                st.lists(st.integers(0, 1000), min_size=runs * 4, max_size=runs * 4, unique=True)
                for _ in range(2)
            ]
        )
    )
)
def test_regrets_are_those_of_a_plain_loop(drawn: tuple[list[int], list[int]]) -> None:
    score, truth = (np.array(values).reshape(-1, 4) / 1000 for values in drawn)
    found = judge(
        Selector("x", "max:train_accuracy"),
        make_candidates(table_of(score, truth), "susceptibility"),
        DRAWS,
    )
    assert found is not None
    lost = [max(ts) - ts[list(ss).index(max(ss))] for ss, ts in zip(score, truth, strict=True)]
    assert found.per_run == pytest.approx(lost)
    assert found.regret is not None
    assert found.regret.value == pytest.approx(np.mean(lost))
    assert found.pool is not None
    assert found.pool.value == pytest.approx(truth.max() - truth.ravel()[score.argmax()])


def test_a_rule_without_a_score_judges_each_run_alone() -> None:
    score = np.array([[0.1, 0.5, 0.9], [0.2, 0.6, 0.8]])
    truth = np.array([[0.5, 0.7, 0.6], [0.4, 0.8, 0.9]])
    found = judge(
        Selector("last", "last"), make_candidates(table_of(score, truth), "susceptibility"), DRAWS
    )
    assert found is not None
    assert found.per_run == pytest.approx([0.1, 0.0])
    assert found.kendall is None


def test_correlations_have_the_sign_of_the_score() -> None:
    truth = np.linspace(0.1, 0.9, 24).reshape(6, 4)
    candidates = make_candidates(table_of(truth, truth), "susceptibility")
    best = judge(Selector("x", "max:train_accuracy"), candidates, DRAWS)
    worst = judge(Selector("x", "min:train_accuracy"), candidates, DRAWS)
    assert best is not None
    assert worst is not None
    assert (best.kendall.value, worst.kendall.value) == (1, -1)  # type: ignore[union-attr]
    assert best.pearson.value == pytest.approx(-1)  # type: ignore[union-attr]


def test_selectors_without_records_are_not_judged() -> None:
    candidates = make_candidates(table_of(np.ones((2, 2)), np.ones((2, 2))), "susceptibility")
    assert judge(Selector("x", "max:gwa"), candidates, DRAWS) is None


def test_a_mean_has_an_interval_that_holds_it() -> None:
    found = estimate_mean(np.array([1.0, 2.0, 6.0]), DRAWS)
    assert found.value == 3
    assert found.low is not None
    assert found.high is not None
    assert found.low <= 3 <= found.high
    assert estimate_mean(np.array([4.0]), DRAWS) == Estimate(4.0)


def test_every_measure_is_resampled_as_in_a_plain_loop() -> None:
    rng = np.random.default_rng(0)
    score, truth = rng.random((6, 5)), rng.random((6, 5))
    score[2] = np.nan  # a run without the signal is drawn, too, and has no pick
    candidates = make_candidates(table_of(score, truth), "susceptibility")
    found = judge(Selector("x", "max:train_accuracy"), candidates, DRAWS)
    assert found is not None
    pools, taus = [], []
    for counts in DRAWS.counts(6).astype(int):
        drawn = np.repeat(np.arange(6), counts)
        s, t = score[drawn].ravel(), truth[drawn].ravel()
        pools.append(t.max() - t[np.nanargmax(s)])
    for counts in DRAWS.counts(5).astype(int):
        drawn = np.repeat([0, 1, 3, 4, 5], counts)
        taus.append(stats.kendalltau(score[drawn].ravel(), truth[drawn].ravel()).statistic)
    assert found.drawn["pool"] == pytest.approx(pools)
    assert found.drawn["kendall"] == pytest.approx(taus)
    lost = np.array(found.per_run)
    regrets = [np.repeat(lost, counts.astype(int)).mean() for counts in DRAWS.counts(5)]
    assert found.drawn["regret"] == pytest.approx(regrets)


def test_a_rule_without_a_score_selects_again_in_every_resample() -> None:
    rng = np.random.default_rng(1)
    score, truth = rng.random((6, 4)), rng.random((6, 4))
    candidates = make_candidates(table_of(score, truth), "susceptibility")
    found = judge(Selector("last", "last"), candidates, DRAWS)
    assert found is not None
    assert found.pool is not None
    last = score[:, -1].argmax()
    assert found.pool.value == pytest.approx(truth.max() - truth[last, -1])
    assert found.pool.low is not None
    assert len(found.drawn["pool"]) == DRAWS.resamples


def test_rules_that_skip_accuracy_drops_are_judged_that_way() -> None:
    """The run's highest score is on a dip: `rote select --rule auto` keeps the other."""
    train = np.array([[0.9, 0.2, 0.9]] * 2)
    truth = np.array([[0.5, 0.4, 0.3]] * 2)
    candidates = make_candidates(table_of(train, truth), "susceptibility")
    steady = candidates.steady
    assert steady.tolist() == [True, False, True] * 2
    score = np.array([0.1, 0.9, 0.2, np.nan, np.nan, np.nan])
    parts = list(candidates.by_run())
    assert _pick_scored(score, candidates, parts[0], None) == 1
    assert _pick_scored(score, candidates, parts[0], steady) == 2
    assert _pick_scored(score, candidates, parts[1], steady) is None


def test_a_rule_that_estimates_is_compared_with_the_truth(tmp_path: Path) -> None:
    _, given_labels, predicted = holdout("symmetric")
    write_voters(tmp_path, predicted, CLASSES, given=given_labels)
    candidates = make_candidates(read_table(tmp_path), "susceptibility")
    rules = ("dawid-skene", "consensus", "max:validation_accuracy")
    model, *others = (judge(Selector(rule, rule), candidates, DRAWS) for rule in rules)
    assert model is not None
    assert model.error is not None
    assert model.at_pick is not None
    estimated, true = model.at_pick
    assert true == 0.25  # the test accuracy of every checkpoint here
    assert estimated > 0.8
    assert 0 < model.error.value < estimated - true  # all others are estimated lower than the pick
    for other in others:
        assert other is not None
        assert other.error is None
        assert other.at_pick is None
