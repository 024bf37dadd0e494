"""A loop that builds another optimizer or unfreezes layers is never measured with the old one."""

import copy
import gc
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.optim.optimizer import _global_optimizer_post_hooks

import rote
from rote.errors import InputError, OptimizerWarning
from tests.cases import CLASSES, images
from tests.oracle import oracle_losses

X, Y = images(12, seed=8), torch.arange(12) % CLASSES

Make = Callable[[Any], Any]
MAKERS: dict[str, Make] = {
    "adam": lambda ps: Adam(ps, lr=0.01),
    "momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9),
    "plain sgd": lambda ps: SGD(ps, lr=0.1),
}


def network() -> nn.Sequential:
    torch.manual_seed(4)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.ReLU(), nn.Linear(8, CLASSES))


def step(model: nn.Module, *optimizers: Any) -> None:
    model.zero_grad()
    cross_entropy(model(X), Y).backward()
    for optimizer in optimizers:
        optimizer.step()


def tracked(model: nn.Module, optimizer: Any) -> rote.Tracker:
    policy = rote.ProbePolicy(plain=None)
    return rote.track(model, optimizer, inputs=X, num_classes=CLASSES, labels=Y, policy=policy)


def losses(tracker: rote.Tracker) -> tuple[float, float]:
    reading = tracker.probe()
    assert reading is not None
    return reading.loss_before, reading.loss_after


@pytest.mark.parametrize("probes", [0, 2])
@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.parametrize("name", MAKERS)
def test_a_rebuilt_optimizer_is_found(name: str, probes: int, *, scheduled: bool) -> None:
    model, make = network(), MAKERS[name]
    optimizer = make(model.parameters())
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1) if scheduled else None
    tracker = tracked(model, optimizer)
    for _ in range(probes):
        step(model, optimizer)
        assert losses(tracker) == oracle_losses(model, optimizer, X, Y)
    optimizer = SGD(model.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1) if scheduled else None
    step(model, optimizer)
    with pytest.warns(OptimizerWarning, match="optimizer .SGD. has taken over") as caught:
        found = losses(tracker)
    assert caught[0].filename == __file__
    assert found == oracle_losses(model, optimizer, X, Y)
    step(model, optimizer)
    assert losses(tracker) == oracle_losses(model, optimizer, X, Y)
    assert scheduled == (schedule is not None)


@pytest.mark.parametrize("name", MAKERS)
def test_announced_optimizer_change_gives_no_warning(name: str) -> None:
    model = network()
    optimizer = MAKERS[name](model.parameters())
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    new = Adam(model.parameters(), lr=0.3)
    tracker.follow_optimizer(new)
    step(model, new)
    assert losses(tracker) == oracle_losses(model, new, X, Y)
    assert len(tracker.readings) == 2
    assert tracker.signals.context.optimizer is new


@pytest.mark.parametrize("name", MAKERS)
def test_a_second_optimizer_for_unfrozen_layers_steps_along(name: str) -> None:
    model = network()
    model[1].requires_grad_(requires_grad=False)
    head = MAKERS[name](model[3].parameters())
    tracker = tracked(model, head)
    step(model, head)
    tracker.probe()
    model[1].requires_grad_()
    body = Adam(model[1].parameters(), lr=0.1)
    step(model, head, body)
    twin, twins = copy.deepcopy((model, [head, body]))
    with pytest.warns(OptimizerWarning, match="optimizer .Adam. trains weights"):
        before, after = losses(tracker)
    step(twin, *twins)
    with torch.no_grad():
        assert after == cross_entropy(twin(X), Y).item() != before


def test_unfrozen_layers_without_an_optimizer_are_named_once() -> None:
    model = network()
    model[1].requires_grad_(requires_grad=False)
    optimizer = Adam(model[3].parameters(), lr=0.1)
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    model[1].requires_grad_()
    with pytest.warns(OptimizerWarning, match="2 parameters require gradients .*unfrozen"):
        tracker.probe()
    tracker.probe()
    optimizer.add_param_group({"params": list(model[1].parameters())})
    step(model, optimizer)
    assert losses(tracker) == oracle_losses(model, optimizer, X, Y)


@pytest.mark.parametrize("name", MAKERS)
def test_stepping_optimizer_is_followed_while_the_old_one_exists(name: str) -> None:
    """Phases that take turns, by optimizers that all exist from the start."""
    model = network()
    first, second = MAKERS[name](model.parameters()), SGD(model.parameters(), lr=0.5)
    tracker = tracked(model, first)
    step(model, first)
    tracker.probe()
    for current in (second, first):
        step(model, current)
        step(model, current)
        with pytest.warns(OptimizerWarning, match="has taken over .* follows it"):
            found = losses(tracker)
        assert found == oracle_losses(model, current, X, Y)


@pytest.mark.parametrize("name", MAKERS)
def test_a_rebuilt_optimizer_is_found_before_its_first_step(name: str) -> None:
    model = network()
    optimizer = MAKERS[name](model.parameters())
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    optimizer = SGD(model.parameters(), lr=0.5)
    with pytest.warns(OptimizerWarning, match="optimizer .SGD. has taken over"):
        assert losses(tracker) == oracle_losses(model, optimizer, X, Y)


@pytest.mark.parametrize("name", MAKERS)
def test_one_of_several_optimizers_is_rebuilt(name: str) -> None:
    model = network()
    body, head = (MAKERS[name](model[layer].parameters()) for layer in (1, 3))
    tracker = tracked(model, [body, head])
    step(model, body, head)
    tracker.probe()
    head = Adam(model[3].parameters(), lr=0.2)
    step(model, body, head)
    twin, twins = copy.deepcopy((model, [body, head]))
    with pytest.warns(OptimizerWarning, match="optimizer .Adam. has taken over"):
        _, after = losses(tracker)
    step(twin, *twins)
    with torch.no_grad():
        assert after == cross_entropy(twin(X), Y).item()


def test_two_optimizers_that_share_the_weights_of_one_are_followed_together() -> None:
    model = network()
    optimizer = Adam(model.parameters(), lr=0.1)
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    others = [Adam(model[1].parameters(), lr=0.1), SGD(model[3].parameters(), lr=0.1)]
    step(model, *others)
    twin, twins = copy.deepcopy((model, others))
    with pytest.warns(OptimizerWarning, match="optimizer .Adam and SGD. has taken over"):
        _, after = losses(tracker)
    step(twin, *twins)
    with torch.no_grad():
        assert after == cross_entropy(twin(X), Y).item()


def test_other_stepping_optimizer_is_named_once() -> None:
    model = network()
    optimizer, other = Adam(model.parameters(), lr=0.1), SGD(model[3].parameters(), lr=0.1)
    tracker = tracked(model, optimizer)
    for _ in range(2):
        step(model, optimizer, other)
    with pytest.warns(OptimizerWarning, match="Another optimizer .SGD. steps the weights"):
        assert losses(tracker) == oracle_losses(model, optimizer, X, Y)
    step(model, optimizer, other)
    assert losses(tracker) == oracle_losses(model, optimizer, X, Y)


def test_user_decides_between_several_new_optimizers() -> None:
    model = network()
    optimizer = Adam(model.parameters(), lr=0.1)
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    others = [Adam(model.parameters(), lr=0.1), SGD(model[3].parameters(), lr=0.1)]
    for _ in range(2):
        step(model, *others)
    for _ in range(2):  # nor is the second attempt silent
        with pytest.raises(InputError, match=r"same weights: Adam, SGD\. Say"):
            tracker.probe()
    tracker.follow_optimizer(others)
    assert len(tracker.readings) == 1
    tracker.probe()
    assert len(tracker.readings) == 2


class OwnOptimizer:
    """One that torch does not know of."""

    def __init__(self, model: nn.Module) -> None:
        self.param_groups = [{"params": list(model.parameters())}]
        self.state: dict[Any, Any] = {}

    def zero_grad(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        for parameter in self.param_groups[0]["params"]:
            parameter.sub_(0.3 * parameter.grad)


@pytest.mark.parametrize("name", MAKERS)
def test_an_optimizer_of_the_users_own_kind_is_found(name: str) -> None:
    model = network()
    optimizer = MAKERS[name](model.parameters())
    tracker = tracked(model, optimizer)
    step(model, optimizer)
    tracker.probe()
    optimizer = OwnOptimizer(model)
    step(model, optimizer)
    twin, copied = copy.deepcopy((model, optimizer))
    with pytest.warns(OptimizerWarning, match="optimizer .OwnOptimizer. has taken over"):
        _, after = losses(tracker)
    step(twin, copied)
    with torch.no_grad():
        assert after == cross_entropy(twin(X), Y).item()


def test_a_deleted_tracker_leaves_no_hook() -> None:
    def hooks() -> int:
        return len(_global_optimizer_post_hooks)

    before = hooks()
    model = network()
    tracker = tracked(model, Adam(model.parameters()))
    copied = copy.deepcopy(tracker._trainer)
    assert hooks() == before + 2
    del tracker, copied
    gc.collect()
    assert hooks() == before


@pytest.mark.parametrize("name", MAKERS)
def test_no_warning_without_another_optimizer(name: str) -> None:
    """Loaded weights, a probe without a step, optimizers of other networks."""
    model, other = network(), network()
    optimizer, bystander = MAKERS[name](model.parameters()), Adam(other.parameters())
    tracker = tracked(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OptimizerWarning)
        warnings.simplefilter("ignore", rote.errors.DominatedMeanWarning)
        tracker.probe()
        step(model, optimizer)
        step(other, bystander)
        tracker.probe()
        model.load_state_dict(copy.deepcopy(other.state_dict()))
        tracker.probe()
        tracker.probe()
        step(model, optimizer)
        tracker.probe()
    assert len(tracker.readings) == 5


@pytest.mark.parametrize("joint", [False, True])
def test_the_process_is_not_searched_while_the_optimizer_steps(
    monkeypatch: pytest.MonkeyPatch, *, joint: bool
) -> None:
    model = network()
    several = [SGD(model[1].parameters(), lr=0.1), SGD(model[3].parameters(), lr=0.1)]
    optimizer = several if joint else [SGD(model.parameters(), lr=0.1)]
    tracker = tracked(model, optimizer)
    monkeypatch.setattr(rote.probe.OptimizerWatch, "_search", lambda _: pytest.fail("searched"))
    for _ in range(3):
        step(model, *optimizer)
        tracker.probe()
    assert len(tracker.readings) == 3


def test_a_new_optimizer_of_another_network_is_refused() -> None:
    model = network()
    tracker = tracked(model, Adam(model.parameters()))
    with pytest.raises(InputError, match="holds no parameter of `model`"):
        tracker.follow_optimizer(Adam(network().parameters()))
