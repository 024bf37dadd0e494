"""Validation on noisy labels: its interval, and ζ as the judge of what it cannot tell apart."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest

from rote.errors import InputError
from rote.selection import candidates_of, select
from rote.selection.rules.noisy_validation import (
    compare_on_labels,
    compute_probability_better,
    compute_wilson_interval,
)
from rote.store import read_table
from tests.selection.tables import Row, table_of, write_voters


@given(st.integers(1, 2_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_interval_is_that_of_scipy(case: tuple[int, int]) -> None:
    samples, right = case
    expected = binomtest(right, samples).proportion_ci(method="wilson")
    found = compute_wilson_interval(right / samples, samples)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


def validated() -> list[Row]:
    # One standard error of 0.5 on 100 samples is 0.05.
    values = [(0.40, 0.01), (0.46, 0.02), (0.50, 0.30), (0.48, 0.10), (0.449, 0.001)]
    return [
        {"run": "a", "step": step, "validation_accuracy": accuracy, "susceptibility": zeta}
        for step, (accuracy, zeta) in enumerate(values, start=1)
    ]


def test_alone_it_takes_the_highest_and_gives_its_interval() -> None:
    selection = select(table_of(validated(), samples=100), "noisy-validation")
    assert selection.pick.step == 3
    assert selection.pick.interval == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert "50.00% (40.38% to 59.62% at 95%, 100 labels)" in selection.reasons[1].text


def test_zeta_decides_within_one_standard_error() -> None:
    table = table_of(validated(), samples=100)
    selection = select(table, "noisy-validation+susceptibility")
    assert selection.pick.step == 2
    assert selection.thresholds["validation_accuracy"] == pytest.approx(0.45)
    assert "standard error of 5.00% (100 labels); 3 of 5 checkpoints" in selection.reasons[1].text


def test_with_more_labels_zeta_decides_less() -> None:
    table = table_of(validated(), samples=100)
    selection = select(table, "noisy-validation+susceptibility", samples=10_000)
    assert selection.pick.step == 3


def test_a_holdout_of_unknown_size_has_no_interval() -> None:
    table = table_of(validated(), samples=None)
    selection = select(table, "noisy-validation")
    assert selection.pick.interval is None
    assert "The size of the holdout is not recorded" in " ".join(selection.warnings)
    with pytest.raises(InputError, match="number of labels .* is unknown.* Pass samples="):
        select(table, "noisy-validation+susceptibility")


def test_the_probability_to_be_better_is_that_of_a_simulation() -> None:
    rng = np.random.default_rng(0)
    # By the prior: how often wins the first one, over all samples that tell the two apart?
    share = rng.beta(0.5, 0.5, size=400_000)
    for told_apart, wins in ((5, 3), (16, 12), (40, 19), (7, 7)):
        alike = share[rng.binomial(told_apart, share) == wins]
        expected = (alike > 0.5).mean()
        assert len(alike) > 3_000
        assert compute_probability_better(wins, told_apart - wins) == pytest.approx(
            expected, abs=0.02
        )


def test_the_probability_is_calibrated_on_noisy_labels() -> None:
    """Two checkpoints with true accuracies of their own, judged on labels of which 40 % are wrong.

    Of the pairs with a probability of about p, the first one is truly better in about a share p.
    """
    rng = np.random.default_rng(1)
    pairs, samples, classes = 4_000, 200, 5
    truth = rng.integers(classes, size=(pairs, 1, samples))
    accuracy = rng.uniform(0.3, 0.9, size=(pairs, 2, 1))  # nothing is known of it before

    def mistaken(share: np.ndarray | float, size: tuple[int, ...]) -> np.ndarray:
        other = (truth + rng.integers(1, classes, size=size)) % classes
        return np.where(rng.random(size) < share, other, truth)

    given_labels = mistaken(0.4, (pairs, 1, samples))
    right = mistaken(1 - accuracy, (pairs, 2, samples)) == given_labels
    wins = (right[:, 0] & ~right[:, 1]).sum(axis=1)
    losses = (right[:, 1] & ~right[:, 0]).sum(axis=1)
    found = np.array([compute_probability_better(*pair) for pair in zip(wins, losses, strict=True)])
    is_better = accuracy[:, 0, 0] > accuracy[:, 1, 0]
    for low, high in ((0.0, 0.1), (0.1, 0.4), (0.4, 0.6), (0.6, 0.9), (0.9, 1.0)):
        inside = (found >= low) & (found <= high)
        error = 0.5 / np.sqrt(inside.sum())
        assert is_better[inside].mean() == pytest.approx(found[inside].mean(), abs=3 * error)


def test_the_probability_to_beat_the_last_checkpoint_is_shown(tmp_path: Path) -> None:
    labels = np.arange(100) % 4
    predictions = np.tile(labels, (1, 3, 1))
    predictions[0, 0, :60] += 1  # 40 right, all of them among those of the second
    predictions[0, 1, :20] += 1  # 80 right
    predictions[0, 2, 10:50] += 1  # 60 right: 30 lost, 10 won beside the second
    write_voters(tmp_path, predictions % 4, num_classes=4, given=labels)
    selection = select(tmp_path)
    assert (selection.rule, selection.pick.step) == ("noisy-validation", 2)
    assert selection.beats_last == pytest.approx(compute_probability_better(30, 10))
    assert "+20.0 points   better with more than 99% probability" in str(selection)
    assert "the most possible is the share of correct ones" in str(selection.explanation)
    known = select(tmp_path, noise_rate=0.1)
    assert known.warnings == selection.warnings
    assert "about 90% is the most possible" in str(known)
    assert (
        "80.0% of your given labels match; with about 10% of them wrong, about 90% is the most "
        "possible." in str(known.explanation)
    )
    last = select(tmp_path, "last")
    assert last.beats_last is None  # it is the last one


def test_labels_of_another_holdout_compare_nothing(tmp_path: Path) -> None:
    labels = np.arange(100) % 4
    same = np.tile(labels, (2, 1, 1))
    write_voters(tmp_path, same, num_classes=4, given=labels)
    write_voters(tmp_path, same, num_classes=4, given=labels[::-1].copy(), holdout="other")
    candidates = candidates_of(read_table(tmp_path), "susceptibility")
    assert compare_on_labels(candidates, 0, 1) is None
    alike = candidates_of(read_table([tmp_path / "h-0", tmp_path / "h-1"]), "susceptibility")
    assert compare_on_labels(alike, 0, 1) == pytest.approx(0.5)
