"""Pair and tridiagonal noise against their transition matrices."""

import numpy as np
import pytest

from rote.labels.noise import NoisyLabels, add_noise


def noisy(model: str, rate: float, classes: int, per_class: int = 4000) -> NoisyLabels:
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
        np.add.at(counts, (clean, noisy(model, rate, classes).labels), 1)
        deviation = np.sqrt(matrix * (1 - matrix) / 4000)
        assert (np.abs(counts / 4000 - matrix) <= 4.5 * deviation).all()


def test_rate_one_moves_every_label() -> None:
    labels = noisy("pair", 1.0, 5, per_class=2).labels
    assert labels.tolist() == [1, 1, 2, 2, 3, 3, 4, 4, 0, 0]
    assert noisy("trid", 1.0, 5).realised_rate == 1


def test_realised_rate_is_near_the_requested_one() -> None:
    for model in ("pair", "trid"):
        result = noisy(model, 0.4, 10)
        assert result.realised_rate == pytest.approx(0.4, abs=4 * np.sqrt(0.24 / 40_000))
        assert result.requested_rate == 0.4
