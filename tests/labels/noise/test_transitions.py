"""Symmetric, pair and tridiagonal noise: exact counts, and moves as the transition matrix says."""

import numpy as np
import pytest

from rote.labels.noise import NoisyLabels, add_noise

CLASSES = 10
CLEAN = np.arange(CLASSES).repeat(2000)


def noisy(model: str, rate: float, *, seed: int = 0) -> NoisyLabels:
    return add_noise(
        CLEAN,
        model=model,
        rate=rate,
        num_classes=CLASSES,
        generator=np.random.default_rng(seed),
    )


def transitions(labels: np.ndarray) -> np.ndarray:
    """How many samples of each class (row) got each label (column)."""
    counts = np.zeros((CLASSES, CLASSES))
    np.add.at(counts, (CLEAN, labels), 1)
    return counts


def chi_square(observed: np.ndarray, matrix: np.ndarray) -> float:
    expected = matrix * observed.sum(axis=1, keepdims=True)
    return float(((observed - expected) ** 2 / expected).sum())


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
def test_transitions_follow_the_matrix(rate: float) -> None:
    off = np.full((CLASSES, CLASSES), 1.0) - np.eye(CLASSES)
    matrices = {
        "symmetric-inclusive": (1 - rate) * np.eye(CLASSES) + rate / CLASSES,
        "symmetric-exclusive": (1 - rate) * np.eye(CLASSES) + rate / (CLASSES - 1) * off,
    }
    for model, matrix in matrices.items():
        # 90 degrees of freedom: mean 90, deviation 13.4; four deviations.
        assert chi_square(transitions(noisy(model, rate).labels), matrix) < 144


def test_the_statistic_distinguishes_the_two_models() -> None:
    wrong = 0.5 * np.eye(CLASSES) + 0.05
    observed = transitions(noisy("symmetric-exclusive", 0.5).labels)
    assert chi_square(observed, wrong) > 144


@pytest.mark.parametrize("rate", [0.0, 0.1, 0.33333, 0.5, 1.0])
def test_exclusive_changes_exactly_the_rounded_share(rate: float) -> None:
    result = noisy("symmetric-exclusive", rate)
    assert result.mask.sum() == round(rate * len(CLEAN))
    assert result.realized_rate == round(rate * len(CLEAN)) / len(CLEAN)


@pytest.mark.parametrize("rate", [0.1, 0.5, 1.0])
def test_inclusive_errs_at_the_rate_times_nine_tenths(rate: float) -> None:
    result = noisy("symmetric-inclusive", rate)
    resampled = round(rate * len(CLEAN))
    deviation = np.sqrt(resampled * 0.1 * 0.9)
    assert abs(result.mask.sum() - 0.9 * resampled) < 4 * deviation


def test_inclusive_resamples_exactly_the_rounded_share() -> None:
    """With so many classes that a resampled label is almost never right, all are wrong."""
    classes = 10**9
    result = add_noise(
        np.zeros(1001, dtype=np.int64),
        model="symmetric-inclusive",
        rate=0.25,
        num_classes=classes,
        generator=np.random.default_rng(0),
    )
    assert result.mask.sum() == round(0.25 * 1001)


def test_chosen_samples_differ_between_seeds_and_cover_all_classes() -> None:
    first, second = (noisy("symmetric-exclusive", 0.5, seed=seed).mask for seed in (0, 1))
    assert not np.array_equal(first, second)
    per_class = np.bincount(CLEAN[first], minlength=CLASSES) / 2000
    assert np.abs(per_class - 0.5).max() < 4 * np.sqrt(0.25 / 2000)


def moved(model: str, rate: float, classes: int, per_class: int = 4000) -> NoisyLabels:
    return add_noise(
        np.arange(classes).repeat(per_class),
        model=model,
        rate=rate,
        num_classes=classes,
        generator=np.random.default_rng(0),
    )


@pytest.mark.parametrize("classes", [2, 3, 10])
@pytest.mark.parametrize("rate", [0.2, 0.45])
def test_shares_of_each_move_follow_the_matrix(classes: int, rate: float) -> None:
    clean = np.arange(classes).repeat(4000)
    identity = np.eye(classes)
    up, down = np.roll(identity, 1, axis=1), np.roll(identity, -1, axis=1)
    matrices = {
        "pair": (1 - rate) * identity + rate * up,
        "trid": (1 - rate) * identity + rate / 2 * up + rate / 2 * down,
    }
    for model, matrix in matrices.items():
        counts = np.zeros((classes, classes))
        np.add.at(counts, (clean, moved(model, rate, classes).labels), 1)
        deviation = np.sqrt(matrix * (1 - matrix) / 4000)
        assert (np.abs(counts / 4000 - matrix) <= 4.5 * deviation).all()


def test_rate_one_moves_every_label() -> None:
    labels = moved("pair", 1.0, 5, per_class=2).labels
    assert labels.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 0, 0]
    assert moved("trid", 1.0, 5).realized_rate == 1


def test_realized_rate_is_near_the_requested_one() -> None:
    for model in ("pair", "trid"):
        result = moved(model, 0.4, 10)
        assert result.realized_rate == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / 40_000))
        assert result.requested_rate == 0.4
