"""The two-step ranking: its gradient, and that it finds label errors that were made."""

import numpy as np
import pytest

from rote.errors import InputError
from rote.selection import rank_label_errors
from rote.selection.label_errors import compute_penalized_loss

CLASSES, SAMPLES = 4, 1_000


def make(noise: str, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Truth, given labels, and the probabilities of three networks, one of which is bad."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(CLASSES, size=SAMPLES)
    jump = 1 if noise == "pair" else rng.integers(1, CLASSES, size=SAMPLES)
    given = np.where(rng.random(SAMPLES) < 0.3, (truth + jump) % CLASSES, truth)
    logits = rng.normal(size=(3, SAMPLES, CLASSES))
    for network, skill in enumerate((3.0, 2.5, 0.5)):
        logits[network, np.arange(SAMPLES), truth] += skill
    powers = np.exp(logits)
    return truth, given, powers / powers.sum(axis=2, keepdims=True)


def test_the_gradient_is_that_of_the_loss() -> None:
    rng = np.random.default_rng(0)
    channels = tuple(np.log(rng.dirichlet(np.ones(3), 12) + 0.01) for _ in range(2))
    columns = rng.random((12, 3))
    at = rng.normal(size=5) / 2
    value, gradient = compute_penalized_loss(at, channels, columns)
    plain = 0.0
    for i in range(12):
        powers = [
            np.exp(sum(np.exp(at[c]) * channels[c][i, k] for c in range(2)) + at[2 + k])
            for k in range(3)
        ]
        plain -= np.log(sum(p / sum(powers) * columns[i, k] for k, p in enumerate(powers)))
    assert value == pytest.approx(plain + sum(at**2) / 2)
    steps = np.eye(5) * 1e-6
    ends = [
        [compute_penalized_loss(at + sign * h, channels, columns)[0] for sign in (1, -1)]
        for h in steps
    ]
    numeric = [(after - before) / 2e-6 for after, before in ends]
    assert gradient == pytest.approx(numeric, abs=1e-4)


def auroc(score: np.ndarray, is_wrong: np.ndarray) -> float:
    wrong, right = score[is_wrong], score[~is_wrong]
    return float((wrong[:, None] > right).mean() + (wrong[:, None] == right).mean() / 2)


@pytest.mark.parametrize("noise", ["symmetric", "pair"])
def test_label_errors_come_first(noise: str) -> None:
    truth, given, predicted = make(noise)
    found = rank_label_errors(given, predicted)
    is_wrong = given != truth
    own = predicted.mean(axis=0)[np.arange(SAMPLES), given]
    assert auroc(found.probability, is_wrong) > max(0.9, auroc(-own, is_wrong))
    assert found.noise_rate == pytest.approx(is_wrong.mean(), abs=0.06)
    assert (found.proposed[is_wrong] == truth[is_wrong]).mean() > 0.75
    assert len(found.flagged()) == round(found.noise_rate * SAMPLES)
    assert found.truth.sum(axis=1) == pytest.approx(np.ones(SAMPLES))


def test_networks_are_ignored_on_samples_they_trained_on() -> None:
    truth, given, predicted = make("symmetric")
    part = predicted.copy()
    for network in range(3):
        part[network, np.arange(SAMPLES) % 3 == network] = np.nan
    found = rank_label_errors(np.where(np.arange(SAMPLES) < 5, -1, given), part)
    assert (found.probability[:5] == 0).all()
    assert auroc(found.probability[5:], (given != truth)[5:]) > 0.85
    near = np.eye(CLASSES)[truth] * 0.5 + 0.125
    helped = rank_label_errors(given, part, neighbors=near)
    assert auroc(helped.probability, given != truth) > 0.97


def test_mismatches_are_explained() -> None:
    _, given, predicted = make("pair")
    with pytest.raises(InputError, match="networks × samples × classes"):
        rank_label_errors(given, predicted[0])
    with pytest.raises(InputError, match="from 0 to 3, got 9"):
        rank_label_errors(np.where(given == 0, 9, given), predicted)
    with pytest.raises(InputError, match="`predicted` is NaN"):
        rank_label_errors(given, np.full_like(predicted, np.nan))
