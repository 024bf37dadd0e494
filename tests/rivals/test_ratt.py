"""RATT's bound: by hand, against a simulation, and against the run's own accuracies."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rote.errors import InputError
from rote.rivals.ratt import compute_bound
from rote.workloads import train
from tests.workloads.small_runs import small_spec


def test_matches_a_hand_computed_example() -> None:
    # Two classes: err(S) + 1 − 2 err(S̃).
    assert compute_bound(0.1, 0.3, 2) == pytest.approx(0.1 + 1 - 0.6)
    # Chance on random labels, (k − 1)/k, leaves the clean error; a perfect fit leaves nothing.
    assert compute_bound(0.2, 0.9, 10) == pytest.approx(0.2)
    assert compute_bound(0.0, 0.0, 10) == pytest.approx(9)


@given(st.floats(0, 1), st.floats(0, 1), st.integers(2, 100))
def test_the_error_on_right_labels_cancels(right: float, wrong: float, k: int) -> None:
    random = (k - 1) / k * wrong + right / k
    assert compute_bound(right, random, k) == pytest.approx((k - 1) * (1 - wrong), abs=1e-9)


def test_the_error_on_random_labels_combines_right_and_wrong_labels() -> None:
    rng = np.random.default_rng(0)
    truth = rng.integers(5, size=200_000)
    resampled = rng.random(len(truth)) < 0.4
    given = np.where(resampled, rng.integers(5, size=len(truth)), truth)
    wrong = given != truth
    # A network that has learned nine tenths of the right labels and a third of the wrong ones.
    fits = rng.random(len(truth)) < np.where(wrong, 1 / 3, 0.9)
    right_error, wrong_error = 1 - fits[~wrong].mean(), 1 - fits[wrong].mean()
    assert 4 / 5 * wrong_error + right_error / 5 == pytest.approx(
        1 - fits[resampled].mean(), abs=0.01
    )


def test_a_run_of_a_spec_measures_it_in_eval_mode() -> None:
    run = train(small_spec(signals=["ratt"]))
    for reading in run.readings:
        assert reading.ratt == pytest.approx(9 * reading.noisy_accuracy)


@pytest.mark.parametrize("noise", ["none", {"model": "pair", "rate": 0.4}])
def test_says_when_wrong_labels_are_not_uniform(noise: object) -> None:
    with pytest.raises(InputError, match="`ratt` needs .* uniformly random wrong labels"):
        train(small_spec(noise=noise, signals=["ratt"]))
