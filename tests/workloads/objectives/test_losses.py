"""Every loss against a naive one, sample by sample and class by class."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, strategies as st
from torch import Tensor

from rote.workloads.objectives import (
    A,
    CrossEntropy,
    NceRce,
    NflRce,
    reverse_cross_entropy,
    suggest_weights,
)


def softmax(row: list[float]) -> list[float]:
    largest = max(row)
    powers = [math.exp(value - largest) for value in row]
    return [power / sum(powers) for power in powers]


def naive_cross_entropy(p: list[float], y: int) -> float:
    return -math.log(p[y])


def naive_nce(p: list[float], y: int) -> float:
    return math.log(p[y]) / sum(math.log(p_k) for p_k in p)


def naive_rce(p: list[float], y: int) -> float:
    total = 0.0
    for k, p_k in enumerate(p):
        q_k = min(max(1.0 if k == y else 0.0, 1e-4), 1.0)
        total -= min(max(p_k, 1e-7), 1.0) * math.log(q_k)
    return total


def naive_nfl(p: list[float], y: int) -> float:
    focal = [-((1 - p_k) ** 0.5) * math.log(p_k) for p_k in p]
    return focal[y] / sum(focal)


LOSSES: dict[
    str, tuple[Callable[[Tensor, Tensor], Tensor], Callable[[list[float], int], float]]
] = {
    "cross entropy": (CrossEntropy().loss, naive_cross_entropy),
    "NCE": (NceRce(1, 0).loss, naive_nce),
    "RCE": (NceRce(0, 1).loss, naive_rce),
    "NCE+RCE": (NceRce(2, 3).loss, lambda p, y: 2 * naive_nce(p, y) + 3 * naive_rce(p, y)),
    "NFL": (NflRce(1, 0).loss, naive_nfl),
    "NFL+RCE": (NflRce(2, 3).loss, lambda p, y: 2 * naive_nfl(p, y) + 3 * naive_rce(p, y)),
}
LOGITS = st.lists(st.lists(st.floats(-8, 8), min_size=3, max_size=3), min_size=1, max_size=4)


@pytest.mark.parametrize("name", LOSSES)
@given(rows=LOGITS, shift=st.integers(0, 2))
def test_losses_agree_with_naive_ones(name: str, rows: list[list[float]], shift: int) -> None:
    loss, naive = LOSSES[name]
    labels = [(place + shift) % 3 for place in range(len(rows))]
    found = loss(torch.tensor(rows, dtype=torch.float64), torch.tensor(labels))
    expected = sum(naive(softmax(row), y) for row, y in zip(rows, labels, strict=True)) / len(rows)
    assert found.item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_constant_is_the_natural_logarithm() -> None:
    assert pytest.approx(-9.2103, abs=1e-4) == A
    log_probabilities = torch.tensor([[0.7, 0.2, 0.1]]).log()
    found = reverse_cross_entropy(log_probabilities, torch.tensor([0]))
    assert found.item() == pytest.approx(9.2103 * (1 - 0.7), abs=1e-4)


def test_no_gradient_flows_through_the_factors_of_the_focal_loss() -> None:
    logits = torch.tensor([[1.0, -0.5, 0.3]], dtype=torch.float64, requires_grad=True)
    NflRce(1, 0).loss(logits, torch.tensor([1])).backward()  # type: ignore[no-untyped-call]
    p = softmax(logits[0].tolist())
    factors = [(1 - p_k) ** 0.5 for p_k in p]
    # With constant factors f: value N/D, N = f_y log p_y, D = Σ f_k log p_k,
    # ∂N/∂z_j = f_y (δ_yj − p_j), ∂D/∂z_j = f_j − p_j Σ f.
    n = factors[1] * math.log(p[1])
    d = sum(f * math.log(p_k) for f, p_k in zip(factors, p, strict=True))
    expected = []
    for j in range(3):
        dn = factors[1] * ((j == 1) - p[j])
        dd = factors[j] - p[j] * sum(factors)
        expected.append((dn * d - n * dd) / d**2)
    assert logits.grad is not None
    assert logits.grad[0].tolist() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("objective", [NceRce(1, 1), NflRce(1, 1)])
def test_robust_losses_are_finite_when_a_prediction_is_certain(objective: NceRce | NflRce) -> None:
    logits = torch.tensor([[200.0, -200.0], [200.0, -200.0]], requires_grad=True)
    loss = objective.loss(logits, torch.tensor([0, 1]))
    loss.backward()  # type: ignore[no-untyped-call]
    assert logits.grad is not None
    assert loss.isfinite()
    assert logits.grad.isfinite().all()
    assert objective.is_robust


def test_weights_are_suggested_by_the_number_of_classes() -> None:
    assert [suggest_weights(c) for c in (2, 10, 11, 100)] == [
        (1, 1),
        (1, 1),
        (10, 0.1),
        (10, 0.1),
    ]
