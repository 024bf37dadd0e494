"""GWA against the definition, sample by sample with autograd; the head; copies of the network."""

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st
from scipy.stats import kurtosis
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError, TrialError
from rote.rivals.gwa import Gwa, compute_alignment, find_head
from rote.tracking import Batch
from tests.rivals.signals import context_of

X = torch.randn(12, 5, generator=torch.Generator().manual_seed(1))
Y = torch.arange(12) % 3


def network(*, bias: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 3, bias=bias))


def naive(model: nn.Sequential, x: Tensor, y: Tensor) -> list[float]:
    """The cosine between minus the gradient of the head's weights and the weights, by autograd."""
    weights = model[-1].weight
    found = []
    for sample, label in zip(x, y, strict=True):
        loss = cross_entropy(model(sample[None]), label[None])
        (gradient,) = torch.autograd.grad(loss, [weights])
        cosine = -(gradient * weights).sum() / (gradient.norm() * weights.norm())
        found.append(cosine.item())
    return found


@pytest.mark.parametrize("bias", [True, False])
def test_equals_the_cosine_of_gradients_and_weights(bias: bool) -> None:
    model = network(bias=bias)
    alignments = np.array(naive(model, X, Y))
    signal = Gwa()
    signal.start(context_of(model, X, 3))
    for part in (slice(5), slice(5, 12)):
        labels, logits = Y[part].clone(), model(X[part]).detach()
        signal.observe(Batch(labels, logits))
        labels.zero_(), logits.zero_()  # a loop may use its tensors again
    expected = alignments.mean() / (kurtosis(alignments) + 1.2)
    assert signal.read(1)["gwa"] == pytest.approx(expected, rel=1e-4)
    assert signal.read(2) == {}  # nothing was seen since


def test_weights_are_those_of_the_forward_pass_not_of_the_step_after_it() -> None:
    found = []
    for steps in (False, True):
        model = network()
        signal = Gwa()
        signal.start(context_of(model, X, 3))
        logits = model(X)
        if steps:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.add_(torch.ones_like(parameter))
        signal.observe(Batch(Y, logits.detach()))
        found.append(signal.read(1)["gwa"])
    assert found[0] == found[1]


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=20))
def test_formula(values: list[float]) -> None:
    found = compute_alignment(torch.tensor(values, dtype=torch.float64))
    if np.var(values) < 1e-12:
        return
    below = kurtosis(values) + 1.2
    if abs(below) > 1e-3:
        assert found == pytest.approx(np.mean(values) / below, rel=1e-6, abs=1e-9)


def test_undefined_alignment_is_none() -> None:
    assert compute_alignment(torch.full((4,), 0.5).double()) is None
    assert compute_alignment(torch.tensor([0.0, 0.0, 1.0, 1.0]).double()) == 0.5 / (-2 + 1.2)


def test_ignored_labels_are_left_out_of_tokens() -> None:
    model = network()
    labels = torch.tensor([[0, 1, -100], [2, -100, -100]])
    tokens = X[:6].reshape(2, 3, 5)
    alignments = np.array(naive(model, X[[0, 1, 3]], torch.tensor([0, 1, 2])))
    signal = Gwa()
    signal.start(context_of(model, X, 3))
    signal.observe(Batch(labels, model(tokens).detach()))
    expected = alignments.mean() / (kurtosis(alignments) + 1.2)
    found = {"gwa": expected, "gwa_alignment": alignments.mean()}
    assert signal.read(1) == pytest.approx(found, rel=1e-3)


def test_finds_the_head_or_raises_without_one() -> None:
    model = network()  # both linear layers have as many outputs as there are classes
    assert find_head(context_of(model, X, 3)) is model[-1]
    assert model.training
    assert not any(module._forward_hooks for module in model.modules())
    with pytest.raises(InputError, match=r"`gwa` needs .*torch.nn.Linear, .* LogSoftmax"):
        Gwa().start(context_of(nn.Sequential(network(), nn.LogSoftmax(1)), X, 3))
    with pytest.raises(TrialError, match="`model` failed on `inputs` .* RuntimeError"):
        Gwa().start(context_of(network(), X[:, :2], 3))


def test_logits_of_another_pass_are_reported() -> None:
    model, signal = network(), Gwa()
    signal.start(context_of(model, X, 3))
    logits = model(X).detach()
    with pytest.raises(InputError, match="`gwa` needs the `logits` of the last"):
        signal.observe(Batch(Y, logits + 1))
    signal.observe(Batch(Y, [model(X), model(2 * X)][0].detach()))  # the network was called twice
    with pytest.raises(InputError, match=r"one class per row of logits for signal `gwa`"):
        signal.observe(Batch(torch.zeros(12, 3), logits))


def test_a_copy_of_the_network_does_not_call_the_hook_of_the_signal() -> None:
    model, signal = network(), Gwa()
    signal.start(context_of(model, X, 3))
    logits = model(X).detach()
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other(2 * X)
        other(3 * X)
    model.eval()(4 * X)
    signal.observe(Batch(Y, logits))
    assert "gwa" in signal.read(1)


def test_state() -> None:
    model = network()
    whole, first, second = Gwa(), Gwa(), Gwa()
    for signal in (whole, first, second):
        signal.start(context_of(model, X, 3))
    for number, part in enumerate((slice(5), slice(5, 12))):
        for signal in (whole, (first, second)[number]):
            logits = model(X[part])
            signal.observe(Batch(Y[part], logits.detach()))
        if number == 0:
            second.load_state_dict(first.state_dict())
    assert second.read(1) == whole.read(1)


def test_the_probe_is_proved_to_leave_no_trace_with_a_hook_on_the_head() -> None:
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    policy = rote.ProbePolicy(verify=True, batch=6)
    tracker = rote.track(model, optimizer, inputs=X, num_classes=3, signals=["gwa"], policy=policy)
    tracker.observe(labels=Y, logits=model(X))
    reading = tracker.probe()
    assert reading is not None
    assert "gwa" in reading.metrics
