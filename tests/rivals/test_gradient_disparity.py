"""Gradient disparity against distances computed one by one, and what it must not touch."""

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError
from rote.rivals.gradient_disparity import GradientDisparity, compute_disparity
from rote.tracking import Batch
from tests.rivals.signals import context_of

X = torch.randn(30, 4, generator=torch.Generator().manual_seed(3))
Y = torch.arange(30) % 3


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 3))


def naive(model: nn.Module, batches: list[Tensor]) -> float:
    """As the authors' script does it, with NumPy."""
    gradients = []
    for chosen in batches:
        model.zero_grad()
        losses = cross_entropy(model(X[chosen]), Y[chosen], reduction="none")
        torch.mean(losses / torch.std(losses)).backward()
        gradients.append(np.concatenate([p.grad.numpy().ravel() for p in model.parameters()]))
    pairs = [(a, b) for a in range(len(batches)) for b in range(a)]
    return float(np.mean([np.linalg.norm(gradients[a] - gradients[b]) for a, b in pairs]))


def test_equals_the_mean_distance_of_the_first_batches() -> None:
    model, signal = network(), GradientDisparity()
    signal.start(context_of(model, X, 3))
    batches = list(torch.arange(30).split(5))
    for chosen in batches:
        signal.observe(Batch(Y[chosen], torch.zeros(5, 3), X[chosen]))
    again = GradientDisparity()
    again.start(context_of(model, X, 3))
    again.load_state_dict(signal.state_dict())
    found = signal.read(1)["gradient_disparity"]
    assert found == pytest.approx(naive(network(), batches[:5]), rel=1e-5)
    assert again.read(1)["gradient_disparity"] == found
    assert signal.read(2) == {}


class Pair(nn.Module):
    """A network that returns more than its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x, self.network(x)


def test_logits_are_where_the_objective_looks_for_them() -> None:
    batches = list(torch.arange(30).split(15))
    for loss_fn in (rote.LogitsAt(1), None):
        signal = GradientDisparity(s=2)
        signal.start(context_of(Pair(), X, 3, loss_fn=loss_fn))
        for chosen in batches:
            signal.observe(Batch(Y[chosen], torch.zeros(15, 3), X[chosen]))
        if loss_fn is None:
            with pytest.raises(InputError, match="got tuple. Pass loss_fn=rote.LogitsAt"):
                signal.read(1)
        else:
            expected = naive(network(), batches)
            assert signal.read(1)["gradient_disparity"] == pytest.approx(expected, rel=1e-5)


def test_hand_made_distances() -> None:
    gradients = [torch.tensor([0.0, 0.0]), torch.tensor([3.0, 4.0]), torch.tensor([0.0, 8.0])]
    assert compute_disparity(gradients) == {"gradient_disparity": pytest.approx((5 + 8 + 5) / 3)}
    assert compute_disparity(gradients[:1]) == {}
    assert compute_disparity([torch.tensor([float("nan")]), torch.zeros(1)]) == {}


def test_leaves_no_trace_and_draws_the_same_masks_every_time() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.Linear(6, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        tracker = rote.track(
            model,
            optimizer,
            inputs=X,
            num_classes=3,
            signals=["gradient_disparity"],
            policy=rote.ProbePolicy(verify=True, batch=6),
        )
        for chosen in torch.arange(30).split(10):
            tracker.observe(labels=Y[chosen], logits=torch.zeros(10, 3), inputs=X[chosen])
        reading = tracker.probe()
        assert reading is not None
        found.append(reading.gradient_disparity)
    assert found[0] == found[1]


def test_missing_arguments_are_named() -> None:
    with pytest.raises(InputError, match="Pass `inputs` to tracker.observe"):
        GradientDisparity().observe(Batch(Y, torch.zeros(30, 3)))
    with pytest.raises(InputError, match="`s` to be an integer of at least 2, got 1"):
        GradientDisparity(1)
