"""Models, optimizers and losses that hide their state, each found by somebody trying to."""

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, Adam
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.checkpoint import checkpoint

import rote
from rote.errors import InterferenceError
from rote.probe import Probe
from rote.snapshot import verify_unchanged
from tests.cases import CLASSES, images

X = images(6, seed=9)
Y = torch.tensor([0, 1, 2, 3, 0, 1])


def linear() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))


def both_steps(model: nn.Module, optimizer: Any, **options: Any) -> tuple[float, float, float]:
    """Loss before, after the live step, and after the plain one; nothing may change."""
    probe = Probe(model, optimizer, CLASSES, **options)
    with verify_unchanged(model, optimizer):
        found = probe.measure(X, Y)
    live, plain = found.losses_after.values()
    return found.loss_before, live, plain


@pytest.fixture
def expected() -> tuple[float, float, float]:
    model = linear()
    return both_steps(model, SGD(model.parameters(), lr=0.1))


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_scripted_modules_are_restored() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.BatchNorm1d(8), nn.Linear(8, CLASSES))
    model = torch.jit.script(net)
    optimizer = SGD(model.parameters(), lr=0.1)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    Probe(model, optimizer, CLASSES).measure(X, Y, holdout=X)
    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_memory_that_cannot_be_written_is_only_read(tmp_path: Path) -> None:
    np.save(tmp_path / "table.npy", np.arange(4.0, dtype=np.float32))
    model = linear()
    with pytest.warns(UserWarning, match="not writable"):
        model.table = torch.from_numpy(np.load(tmp_path / "table.npy", mmap_mode="r"))
    both_steps(model, SGD(model.parameters(), lr=0.1))


def test_an_alias_of_a_parameter_does_not_undo_the_step(
    expected: tuple[float, float, float],
) -> None:
    model = linear()
    model.alias = model[1].weight.data
    assert both_steps(model, SGD(model.parameters(), lr=0.1)) == expected


def test_parameters_in_one_flat_storage(expected: tuple[float, float, float]) -> None:
    model = linear()
    flat = torch.cat([parameter.data.flatten() for parameter in model.parameters()])
    start = 0
    for parameter in model.parameters():
        parameter.data = flat[start : start + parameter.numel()].view_as(parameter)
        start += parameter.numel()
    model.register_buffer("flat", flat)
    assert both_steps(model, SGD(model.parameters(), lr=0.1)) == expected


def test_an_optimizer_may_keep_aliases_of_parameters(expected: tuple[float, float, float]) -> None:
    model = linear()
    optimizer = SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        optimizer.state[parameter]["previous"] = parameter.data
    assert both_steps(model, optimizer) == expected


def test_weights_projected_by_the_forward_pass_are_restored() -> None:
    class Projected(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            self.weight.data.clamp_(-0.01, 0.01)  # autograd does not notice
            return super().forward(x)

    model = nn.Sequential(nn.Flatten(), Projected(64, CLASSES))
    optimizer = SGD(model.parameters(), lr=0.1)
    only_live = rote.ProbePolicy(plain=None)
    alone = Probe(model, optimizer, CLASSES, policy=only_live).measure(X, Y).losses_after["live"]
    assert both_steps(model, optimizer)[1] == alone


@dataclass
class Notes:
    calls: int = 0
    seen: list[int] = field(default_factory=list)


class Hoarder(nn.Module):
    """State in everything but parameters and buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, CLASSES)
        self.torch_draws = torch.Generator().manual_seed(0)
        self.numpy_draws = np.random.default_rng(0)
        self.old_numpy_draws = np.random.RandomState(0)
        self.python_draws = random.Random(0)
        self.counts = np.zeros(3)
        self.notes = Notes()

    def forward(self, x: Tensor) -> Tensor:
        noise = torch.rand(1, generator=self.torch_draws).item() + self.numpy_draws.random()
        noise += self.old_numpy_draws.rand() + self.python_draws.random()
        self.counts += noise
        self.notes.calls += 1
        self.notes.seen.append(len(x))
        out: Tensor = self.linear(x.flatten(1)) * (1 + 0.01 * noise)
        return out

    def state(self) -> list[Any]:
        return [
            self.torch_draws.get_state().tolist(),
            self.numpy_draws.bit_generator.state,
            self.python_draws.getstate(),
            self.old_numpy_draws.get_state()[1].tolist(),
            self.counts.tolist(),
            self.notes,
        ]


def test_generators_arrays_and_dataclasses_are_restored() -> None:
    model = Hoarder()
    model(X)
    before = repr(model.state())
    both_steps(model, SGD(model.parameters(), lr=0.1))
    assert repr(model.state()) == before


def test_state_that_cannot_be_restored_is_named() -> None:
    class Secretive(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            next(self.ledger)  # type: ignore[call-overload]
            return super().forward(x.flatten(1))

    model = Secretive(64, CLASSES)
    model.ledger = itertools.count()  # type: ignore[assignment]
    probe = Probe(
        model, SGD(model.parameters(), lr=0.1), CLASSES, policy=rote.ProbePolicy(verify=True)
    )
    with pytest.raises(InterferenceError, match="attribute ledger of module"):
        probe.measure(X, Y)


@pytest.mark.parametrize("end", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_is_not_replaced_by_what_verify_finds(end: type[BaseException]) -> None:
    class Interrupted(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            next(self.ledger)  # type: ignore[call-overload]
            self.weight.data.add_(1)
            raise end

    model = Interrupted(64, CLASSES)
    model.ledger = itertools.count()  # type: ignore[assignment]
    weight = model.weight.detach().clone()
    probe = Probe(
        model, SGD(model.parameters(), lr=0.1), CLASSES, policy=rote.ProbePolicy(verify=True)
    )
    with pytest.raises(end):
        probe.measure(X, Y)
    assert torch.equal(model.weight, weight)


@dataclass
class Slot:
    momentum: Tensor
    steps: int = 0


class DataclassState(torch.optim.Optimizer):
    def __init__(self, params: Any) -> None:
        super().__init__(params, {"lr": 0.1})
        for group in self.param_groups:
            for parameter in group["params"]:
                self.state[parameter]["slot"] = Slot(torch.zeros_like(parameter))

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                slot = self.state[parameter]["slot"]
                slot.momentum.add_(parameter.grad)
                slot.steps += 1
                parameter.sub_(slot.momentum, alpha=group["lr"])


def test_dataclasses_in_the_state_of_an_optimizer_are_restored() -> None:
    model = linear()
    optimizer = DataclassState(model.parameters())
    both_steps(model, optimizer)
    slots = [state["slot"] for state in optimizer.state.values()]
    assert [slot.steps for slot in slots] == [0, 0]
    assert all(not slot.momentum.any() for slot in slots)


class RunningLoss(nn.Module):
    """A loss with a memory."""

    mean: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, output: Tensor, labels: Tensor) -> Tensor:
        loss = cross_entropy(output, labels)
        self.mean.mul_(0.9).add_(loss.detach())
        return loss * (1 + self.mean)


def loss_of_kind(kind: str, module: RunningLoss) -> Callable[..., Tensor]:
    class Holder:
        def __init__(self) -> None:
            self.module = module

        def __call__(self, output: Tensor, labels: Tensor) -> Tensor:
            return self.module(output, labels)

    forms: dict[str, Callable[..., Tensor]] = {
        "module": module,
        "method": module.forward,
        "partial": partial(RunningLoss.forward, module),
        "closure": lambda output, labels: module(output, labels),
        "object": Holder(),
    }
    return forms[kind]


@pytest.mark.parametrize("kind", ["module", "method", "partial", "closure", "object"])
def test_stateful_loss_is_restored_after_a_probe(kind: str) -> None:
    module = RunningLoss()
    model = linear()
    optimizer = SGD(model.parameters(), lr=0.1)
    before, live, _ = both_steps(model, optimizer, loss_fn=loss_of_kind(kind, module))
    assert module.mean.item() == 0.0
    raw = cross_entropy(model(X), Y).item()
    assert before == pytest.approx(raw * (1 + raw))
    assert live < before


@pytest.mark.filterwarnings("ignore:None of the inputs have requires_grad")  # torch, under no_grad
def test_hooks_inside_a_reentrant_checkpoint_stay_silent() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(64, 8), nn.Linear(8, CLASSES)

        def forward(self, x: Tensor) -> Tensor:
            x = x.flatten(1).requires_grad_(torch.is_grad_enabled())
            out: Tensor = self.second(checkpoint(self.first, x, use_reentrant=True))
            return out

    model = Checkpointed()
    fired: list[Tensor] = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(fired.append)
    both_steps(model, SGD(model.parameters(), lr=0.1))
    assert fired == []


class Outer(torch.optim.Optimizer):
    """A wrapper around another optimizer, as Lookahead is."""

    def __init__(self, inner: torch.optim.Optimizer) -> None:
        super().__init__(inner.param_groups, {"lr": 0.1})
        self.inner = inner

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.inner.step()


def test_an_inner_optimizer_is_restored_and_its_hooks_stay_silent(
    expected: tuple[float, float, float],
) -> None:
    model = linear()
    inner = SGD(model.parameters(), lr=0.1, momentum=0.5)
    fired: list[str] = []
    inner.register_step_post_hook(lambda *_: fired.append("inner"))
    handle = register_optimizer_step_post_hook(lambda *_: fired.append("global"))
    try:
        found = both_steps(model, Outer(inner))
    finally:
        handle.remove()
    assert fired == []
    assert len(inner.state) == 0
    assert found == expected  # the first step of momentum is a plain one


def test_a_buffer_that_gets_a_graph_by_accident_is_freed_of_it() -> None:
    class Careless(nn.Linear):
        usage: Tensor

        def __init__(self) -> None:
            super().__init__(64, CLASSES)
            self.register_buffer("usage", torch.zeros(CLASSES))

        def forward(self, x: Tensor) -> Tensor:
            out = super().forward(x.flatten(1))
            self.usage += out.softmax(1).sum(0)  # should be detached
            return out

    model = Careless()
    draws = torch.get_rng_state()
    both_steps(model, SGD(model.parameters(), lr=0.1))
    assert model.usage.is_leaf
    assert model.usage.tolist() == [0.0] * CLASSES
    assert torch.equal(torch.get_rng_state(), draws)


class Sharpness(torch.optim.SGD):
    """Asks for a closure, but not in its signature, as SAM does."""

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        assert closure is not None, "requires closure"
        with torch.enable_grad():
            closure()
        super().step()


def test_a_closure_can_be_passed(expected: tuple[float, float, float]) -> None:
    model = linear()
    optimizer = Sharpness(model.parameters(), lr=0.1)
    with pytest.raises(
        rote.InputError, match=r"requires closure[^`]*`policy=rote.ProbePolicy\(closure=True"
    ):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
    assert both_steps(model, optimizer, policy=rote.ProbePolicy(closure=True)) == expected
    policy = rote.ProbePolicy(closure=True)
    rote.track(model, optimizer, inputs=X, num_classes=CLASSES, policy=policy).probe()


class Proxy:
    """Passes everything on to an optimizer."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer

    def __getattr__(self, name: str) -> Any:
        return getattr(self.optimizer, name)


def test_wrapped_optimizer_is_found() -> None:
    model = linear()
    adam = Adam(model.parameters())
    found = both_steps(model, Proxy(adam))
    assert found == both_steps(model, adam)
    assert len(adam.state) == 0


def test_a_large_vocabulary_is_left_where_it_is() -> None:
    model = linear()
    vocabulary = {f"word{number}": number for number in range(1000)}
    model.vocabulary = vocabulary  # type: ignore[assignment]
    both_steps(model, SGD(model.parameters(), lr=0.1))
    assert vars(model)["vocabulary"] is vocabulary
    assert len(vocabulary) == 1000


def test_a_default_device_does_not_move_the_labels() -> None:
    model = linear()
    optimizer = SGD(model.parameters(), lr=0.1)
    with torch.device("meta"):
        tracker = rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
    assert tracker.batch.labels.device.type == "cpu"
