import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.optimize import minimize_scalar
from torch import Tensor
from torch.nn.functional import cross_entropy

from rote.errors import InputError
from rote.probe.temperature_scaling import (
    find_temperature_for_error,
    fit_temperature,
    measure_calibration_error,
)

pytestmark = pytest.mark.slow


def problem(
    seed: int, samples: int = 400, classes: int = 5, scale: float = 3.0
) -> tuple[Tensor, Tensor]:
    """Logits that are right more often than not, and too sure of it at a large scale."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (samples,), generator=generator)
    logits = torch.randn(samples, classes, generator=generator)
    logits[torch.arange(samples), labels] += 1.0
    return scale * logits, labels


def naive_error(probabilities: Tensor, labels: Tensor, bins: int) -> float:
    """Bin by bin, as in the code of Guo et al."""
    confidence, predicted = probabilities.max(1)
    ends = torch.linspace(0, 1, bins + 1, dtype=probabilities.dtype)
    total = 0.0
    for lower, upper in itertools.pairwise(ends):
        inside = (confidence > lower) & (confidence <= upper)
        if inside.any():
            accuracy = (predicted == labels)[inside].double().mean()
            gap = (confidence[inside].double().mean() - accuracy).abs()
            total += float(gap * inside.double().mean())
    return total


@given(
    seed=st.integers(0, 10_000),
    bins=st.integers(1, 40),
    scale=st.floats(0.01, 50),
    single=st.booleans(),
)
@settings(deadline=None, max_examples=60)
def test_calibration_error_equals_the_naive_one(
    seed: int, bins: int, scale: float, single: bool
) -> None:
    logits, labels = problem(seed, samples=60, scale=scale)
    probabilities = logits.double().softmax(1)
    expected = naive_error(probabilities, labels, bins)
    assert measure_calibration_error(logits, labels, bins) == pytest.approx(expected, abs=1e-12)
    given_ = probabilities.float() if single else probabilities
    found = measure_calibration_error(given_, labels, bins, of="probabilities")
    assert found == pytest.approx(naive_error(given_, labels, bins), abs=1e-9)
    assert 0 <= found <= 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_bins_are_closed_on_the_right(dtype: torch.dtype) -> None:
    # 0.6 ends the bin (0.4, 0.6]; 0.61 and 0.79 share the next. Were 0.6 in it, too, confidence
    # and accuracy would partly cancel: (0.6 - 1) + (0.61 + 0.79 - 0).
    probabilities = torch.tensor([[0.6, 0.4], [0.61, 0.39], [0.79, 0.21]], dtype=dtype)
    found = measure_calibration_error(probabilities, torch.tensor([0, 1, 1]), 5, of="probabilities")
    assert found == pytest.approx((0.4 + 1.4) / 3, abs=1e-6)


def test_calibration_error_in_closed_form() -> None:
    # Certain and right 3 times of 4: confidence 1 against accuracy 0.75.
    logits = torch.tensor([[50.0, 0.0]] * 4)
    labels = torch.tensor([0, 0, 0, 1])
    assert measure_calibration_error(logits, labels) == pytest.approx(0.25)
    calibrated = torch.tensor([[math.log(3), 0.0]] * 4)
    assert measure_calibration_error(calibrated, labels) == pytest.approx(0.0, abs=1e-7)


@pytest.mark.parametrize("scale", [1e-3, 0.3, 1.0, 20.0, 1e4])
@pytest.mark.parametrize("seed", range(4))
def test_fitted_temperature_is_the_optimum(seed: int, scale: float) -> None:
    logits, labels = problem(seed, scale=scale)
    found = fit_temperature(logits, labels)

    def likelihood(log_temperature: float) -> float:
        return float(cross_entropy(logits.double() / math.exp(log_temperature), labels))

    best = minimize_scalar(
        likelihood,
        bounds=(math.log(scale) - 5, math.log(scale) + 5),
        method="bounded",
        options={"xatol": 1e-12},
    )
    assert math.log(found) == pytest.approx(best.x, abs=1e-6)
    # Where it is smooth a minimum is found to half of the digits; its slope is known to all.
    factor = torch.tensor(1 / found, dtype=torch.float64, requires_grad=True)
    loss = cross_entropy(logits.double() * factor, labels)
    (slope,) = torch.autograd.grad(loss, factor)
    assert abs(float(slope)) / found < 1e-7


def test_fitted_temperature_in_closed_form() -> None:
    logits = torch.tensor([[4.0, 0.0]] * 4)
    found = fit_temperature(logits, torch.tensor([0, 0, 0, 1]))
    assert found == pytest.approx(4 / math.log(3), rel=1e-7)


@given(seed=st.integers(0, 10_000), factor=st.floats(0.01, 100))
@settings(deadline=None, max_examples=25)
def test_scaled_logits_have_a_scaled_temperature(seed: int, factor: float) -> None:
    logits, labels = problem(seed, samples=100)
    logits = logits.double()
    once, again = fit_temperature(logits, labels), fit_temperature(factor * logits, labels)
    assert again == pytest.approx(factor * once, rel=1e-6)
    shifted = logits + torch.arange(100)[:, None]
    assert fit_temperature(shifted, labels) == pytest.approx(once, rel=1e-6)


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_fitting_works_inside_evaluation_blocks_and_draws_nothing(context: Any) -> None:
    expected = fit_temperature(*problem(0))
    state = torch.get_rng_state()
    with context():
        assert fit_temperature(*problem(0)) == expected
    assert torch.equal(torch.get_rng_state(), state)


def test_temperatures_that_do_not_exist_are_refused() -> None:
    logits, _ = problem(0)
    with pytest.raises(InputError, match="got all 400 correct: the best temperature would be 0"):
        fit_temperature(logits, logits.argmax(1))
    with pytest.raises(InputError, match="the best temperature would be infinite"):
        fit_temperature(logits, logits.argmin(1))


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("side", ["surer", "less sure"])
def test_temperature_for_an_error_gives_that_error(seed: int, side: str) -> None:
    logits, labels = problem(seed, samples=1000, scale=1.0 if side == "surer" else 3.0)
    start = measure_calibration_error(logits, labels)
    best = measure_calibration_error(logits / fit_temperature(logits, labels), labels)
    for share in (0.1, 0.5, 0.9):
        target = best + share * (start - best)
        found = find_temperature_for_error(logits, labels, target)
        assert measure_calibration_error(logits / found, labels) == pytest.approx(target, abs=0.005)


def test_of_several_temperatures_the_nearest_to_one_is_found() -> None:
    logits, labels = problem(1, samples=2000, scale=3.0)
    target = 0.08
    found = find_temperature_for_error(logits, labels, target)
    ratios = np.exp(np.linspace(0, abs(math.log(found)) - 0.02, 300))
    nearer = [*ratios, *(1 / ratios)]
    gaps = [measure_calibration_error(logits / t, labels) - target for t in nearer]
    # ECE moves by steps, so there is a crossing only where the sign turns.
    assert len(set(np.sign(gaps[:300]))) == 1
    assert len(set(np.sign(gaps[300:]))) == 1


def test_reached_calibration_error_needs_no_temperature() -> None:
    logits, labels = problem(2)
    target = measure_calibration_error(logits, labels)
    assert find_temperature_for_error(logits, labels, target) == 1.0


def test_two_networks_at_equal_calibration() -> None:
    sure, labels = problem(3, samples=2000, scale=5.0)
    modest, others = problem(4, samples=2000, scale=1.2)
    target = measure_calibration_error(modest, others)
    found = find_temperature_for_error(sure, labels, target)
    assert measure_calibration_error(sure / found, labels) == pytest.approx(target, abs=0.005)


def test_unreachable_calibration_error_is_refused() -> None:
    logits, labels = problem(0)
    with pytest.raises(
        InputError, match=r"that a temperature gives, between 0\.\d+ and 0\.\d+, got 0.9\."
    ):
        find_temperature_for_error(logits, labels, 0.9)
    with pytest.raises(InputError, match=r"got 0\. Choose a target in between"):
        find_temperature_for_error(logits, labels, 0.0, tolerance=1e-9)
    with pytest.raises(InputError, match=r"`target` to be a number from 0 to 1, got 1.5"):
        find_temperature_for_error(logits, labels, 1.5)


X, Y = problem(0, samples=4, classes=3)
BAD: dict[str, tuple[Any, Any, str]] = {
    "numpy": (X.numpy(), Y, "to be tensors, got ndarray and Tensor"),
    "flat": (X.flatten(), Y, r"shape \(n, classes\).* got \(12,\) and \(4,\)"),
    "few labels": (X, Y[:3], r"got \(4, 3\) and \(3,\)"),
    "empty": (X[:0], Y[:0], r"got \(0, 3\) and \(0,\)"),
    "one class": (X[:, :1], Y * 0, r"got \(4, 1\) and \(4,\)"),
    "nan": (X * float("nan"), Y, "to be finite"),
    "soft labels": (X, Y.float(), "classes from 0 to 2, got torch.float32"),
    "strange labels": (X, Y + 3, r"classes from 0 to 2, got torch.int64 from \d to \d"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_predictions_and_labels_are_refused(case: str) -> None:
    predictions, labels, message = BAD[case]
    with pytest.raises(InputError, match=message):
        measure_calibration_error(predictions, labels)
    with pytest.raises(InputError, match=message):
        fit_temperature(predictions, labels)
    with pytest.raises(InputError, match=message):
        find_temperature_for_error(predictions, labels, 0.1)


def test_bad_options_are_refused() -> None:
    with pytest.raises(InputError, match="`bins` to be an integer of at least 1, got 0"):
        measure_calibration_error(X, Y, 0)
    with pytest.raises(InputError, match="to be one of logits, probabilities, got 'odds'"):
        measure_calibration_error(X, Y, of="odds")
    with pytest.raises(InputError, match="to be probabilities that sum to 1, got rows that sum"):
        measure_calibration_error(X, Y, of="probabilities")
