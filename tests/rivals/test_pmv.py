"""PMV against a second training written out, and what the twin must not touch."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError
from rote.rivals.pmv import Pmv
from rote.tracking import Batch
from tests.rivals.signals import context_of

X = torch.randn(40, 5, generator=torch.Generator().manual_seed(4))
Y = torch.arange(40) % 3
EPOCHS = 4


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))


def trained(labels: torch.Tensor, **options: Any) -> tuple[list[float], nn.Module, rote.Tracker]:
    """A training with momentum and a schedule: accuracies of its own forward passes."""
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.7)
    tracker = rote.track(
        model, optimizer, inputs=X, num_classes=3, policy=rote.ProbePolicy(batch=8), **options
    )
    found = []
    for epoch in range(EPOCHS):
        hits = 0
        order = torch.randperm(40, generator=torch.Generator().manual_seed(epoch))
        for chosen in order.split(10):
            optimizer.zero_grad()
            logits = model(X[chosen])
            cross_entropy(logits, labels[chosen]).backward()
            optimizer.step()
            hits += int((logits.argmax(1) == labels[chosen]).sum())
            tracker.observe(labels=labels[chosen], logits=logits, inputs=X[chosen], indices=chosen)
        tracker.probe()
        schedule.step()
        found.append(hits / 40)
    return found, model, tracker


def perturbed(share: float) -> torch.Tensor:
    signal = Pmv(share)
    signal.start(context_of(network(), X, 3))
    return signal._perturb(torch.arange(40), Y)


@pytest.mark.filterwarnings("ignore::rote.errors.DominatedMeanWarning")
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_equals_a_second_training(share: float) -> None:
    before, bare, _ = trained(Y)
    after, _, _ = trained(perturbed(share))
    _, model, tracker = trained(Y, signals=[Pmv(share)])
    expected = [(one - other) / share for one, other in zip(before, after, strict=True)]
    assert [reading.pmv for reading in tracker.readings] == pytest.approx(expected)
    for name, tensor in bare.state_dict().items():
        assert torch.equal(tensor, model.state_dict()[name])


class Pair(nn.Module):
    """A network that returns more than its logits."""

    def __init__(self) -> None:
        super().__init__()
        self.network = network()

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x, self.network(x)


class Counting(nn.Module):
    """An objective that remembers how often it was called."""

    calls: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return cross_entropy(logits, labels)


def of_model(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(inputs), labels)


def of_pair(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return cross_entropy(model(inputs)[1], labels)


BATCHES = [Batch(Y[p], torch.eye(3)[Y[p]], X[p], p) for p in torch.arange(40).split(10)]


def read(signal: Pmv, model: nn.Module, loss_fn: Any = None) -> float:
    signal.start(context_of(model, X, 3, loss_fn=loss_fn))
    for batch in BATCHES:
        signal.observe(batch)
    return signal.read(1)["pmv"]


def test_the_objective_is_called_as_the_probe_calls_it() -> None:
    plain = read(Pmv(), network())
    counting = Counting()
    assert read(Pmv(), network(), of_model) == plain
    assert read(Pmv(), Pair(), rote.LogitsAt(1)) == plain
    assert read(Pmv(), Pair(), rote.LogitsAt(1, counting)) == plain
    twin = Pmv()
    assert read(twin, network(), counting) == plain
    assert float(counting.calls) == 0  # the twin has its own
    other = Pmv()
    other.start(context_of(network(), X, 3, loss_fn=counting))
    other.load_state_dict(twin.state_dict())
    assert float(other._loss_fn.calls) == len(BATCHES)
    with pytest.raises(InputError, match="return logits .* got tuple. Pass loss_fn=rote.LogitsAt"):
        read(Pmv(), Pair(), of_pair)
    bypassing = network()
    with pytest.raises(InputError, match="`loss_fn` does not call the model"):
        read(Pmv(), network(), lambda model, x, y: cross_entropy(bypassing(x), y))


def test_one_logit_for_two_classes() -> None:
    torch.manual_seed(0)
    model, labels = nn.Linear(5, 1), (X[:, 0] > 0).long()
    signal = Pmv(1.0)
    signal.start(context_of(model, X, 2))
    logits = torch.where(labels == 1, 1.0, -1.0)[:, None]  # the network itself makes no mistake
    signal.observe(Batch(labels, logits, X, torch.arange(40)))
    drawn = signal._perturb(torch.arange(40), labels)
    said = [float(model(x).detach()) > 0 for x in X]
    hits = sum(one == bool(label) for one, label in zip(said, drawn, strict=True))
    assert signal.read(1)["pmv"] == pytest.approx(1 - hits / 40)


def test_random_labels_are_fixed_per_sample_and_counted_correctly() -> None:
    signal = Pmv(0.25)
    signal.start(context_of(network(), X, 3))
    zeros = torch.zeros(20_000, dtype=torch.int64)
    labels = signal._perturb(torch.arange(20_000), zeros)
    assert float((labels != 0).double().mean()) == pytest.approx(0.25 * 2 / 3, abs=0.01)
    again = Pmv(0.25)
    again.start(context_of(network(), X, 3))
    order = torch.randperm(20_000, generator=torch.Generator().manual_seed(0))
    found = torch.cat([again._perturb(part, zeros[part]) for part in order.split(1000)])
    assert torch.equal(found, labels[order])


def test_state() -> None:
    whole, half, rest = (Pmv() for _ in range(3))
    for signal in (whole, half, rest):
        signal.start(context_of(network(), X, 3))
    batches = [Batch(Y[p], torch.eye(3)[Y[p]], X[p], p) for p in torch.arange(40).split(10)]
    for batch in batches:
        whole.observe(batch)
    for batch in batches[:2]:
        half.observe(batch)
    rest.load_state_dict(half.state_dict())
    for batch in batches[2:]:
        rest.observe(batch)
    assert rest.read(1) == whole.read(1)
    assert rest.read(2) == {}


def test_missing_arguments_are_named() -> None:
    signal = Pmv()
    signal.start(context_of(network(), X, 3))
    with pytest.raises(InputError, match="`pmv` .* Pass `inputs` to tracker.observe"):
        signal.observe(Batch(Y, torch.zeros(40, 3), indices=torch.arange(40)))
    with pytest.raises(InputError, match="`share` to be a number that is above 0 .* 1, got 2"):
        Pmv(2.0)
