import pytest
import torch
from torch import Tensor, nn

from rote.workloads.objectives import Cdr


def make(noise_rate: float, *, epochs: int = 1, schedule: str = "constant", l1: float = 0.0) -> Cdr:
    return Cdr(noise_rate, schedule=schedule, gradual_epochs=epochs, l1=l1)  # type: ignore[arg-type]


def parameter(values: list[float], gradient: list[float], *shape: int) -> Tensor:
    tensor = nn.Parameter(torch.tensor(values).reshape(shape))
    tensor.grad = torch.tensor(gradient).reshape(shape)
    return tensor


def test_matches_a_hand_computed_example() -> None:
    # |w · g| over both ranked tensors: 4, 0.5, 1, 6 and 2, 3; τ = 0.5 keeps 6, 4 and 3.
    linear = parameter([2.0, 0.5, -1.0, 3.0], [2.0, 1.0, 1.0, -2.0], 2, 2)
    convolution = parameter([1.0, -3.0], [2.0, 1.0], 1, 2, 1, 1)
    bias = parameter([1.0], [5.0], 1)
    untouched = nn.Parameter(torch.ones(2, 2))
    make(0.5).shape_gradients([linear, convolution, bias, untouched])
    assert linear.grad is not None
    assert convolution.grad is not None
    assert bias.grad is not None
    assert linear.grad.flatten().tolist() == [1.0, 0.0, 0.0, -1.0]
    assert convolution.grad.flatten().tolist() == [0.0, 0.5]
    assert bias.grad.tolist() == [5.0]
    assert untouched.grad is None


def test_decay_reaches_critical_and_other_weights() -> None:
    weights = parameter([2.0, -0.5], [2.0, 1.0], 1, 2)
    make(0.5, l1=0.25).shape_gradients([weights])
    assert weights.grad is not None
    assert weights.grad.flatten().tolist() == [2.0 * 0.5 + 0.25, 0.0 - 0.25]


def test_it_agrees_with_topk_as_in_public_code() -> None:
    torch.manual_seed(0)
    tensors = [
        parameter(torch.randn(12).tolist(), torch.randn(12).tolist(), 3, 4) for _ in range(3)
    ]
    everything = torch.cat([(t * t.grad).detach().abs().flatten() for t in tensors])
    threshold = everything.topk(int(0.7 * 36)).values[-1]
    expected = [t.grad * ((t * t.grad).detach().abs() >= threshold) * 0.7 for t in tensors]
    make(0.3).shape_gradients(tensors)
    for tensor, gradient in zip(tensors, expected, strict=True):
        assert tensor.grad is not None
        torch.testing.assert_close(tensor.grad, gradient)


@pytest.mark.parametrize(
    ("schedule", "shares"),
    [
        ("constant", [0.6, 0.6, 0.6, 0.6, 0.6]),
        ("gradual", [1.0, 0.8, 0.6, 0.6, 0.6]),
    ],
)
def test_the_share_of_critical_weights(schedule: str, shares: list[float]) -> None:
    objective = make(0.4, epochs=3, schedule=schedule)
    found = []
    for epoch in range(1, 6):
        objective.start_epoch(epoch)
        found.append(objective.share)
    assert found == pytest.approx(shares)


def test_without_noise_nothing_changes() -> None:
    weights = parameter([2.0, -0.5], [2.0, 1.0], 1, 2)
    make(0.0).shape_gradients([weights])
    assert weights.grad is not None
    assert weights.grad.flatten().tolist() == [2.0, 1.0]


def test_a_network_without_ranked_weights_is_left_alone() -> None:
    bias = parameter([1.0], [5.0], 1)
    make(0.5).shape_gradients([bias])
    assert bias.grad is not None
    assert bias.grad.tolist() == [5.0]
