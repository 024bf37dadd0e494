import itertools
import math
import random
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import rote
from rote.errors import InputError, InterferenceError
from rote.snapshot import ObjectState, RandomState, Snapshot, TensorValues, restore_after
from rote.snapshot.fingerprint import _is_own, find_differences, take_fingerprint
from rote.snapshot.objects import ContainerCopies, is_user_module
from rote.snapshot.preservation import hold_signals
from tests.cases import CLASSES, MODELS, OPTIMIZERS, build_case, images


def wreck(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Change all that can be changed."""
    model.train(not model.training)
    loss = model(images(6)).square().sum()
    loss.backward()
    optimizer.step(lambda: loss)  # type: ignore[arg-type,return-value]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
            parameter.requires_grad_(not parameter.requires_grad)
        for buffer in model.buffers():
            buffer.zero_()
    optimizer.param_groups[0]["lr"] = 7.0
    optimizer.param_groups.append({"params": [nn.Parameter(torch.ones(2))], "lr": 1.0})
    optimizer.state[nn.Parameter(torch.ones(1))] = {"junk": torch.ones(1)}
    vars(model)["junk"] = 1
    random.random()
    np.random.rand()
    torch.rand(1)


@pytest.mark.parametrize("optimizer_name", OPTIMIZERS)
@pytest.mark.parametrize("model_name", MODELS)
def test_everything_is_restored_in_place(model_name: str, optimizer_name: str) -> None:
    model, optimizer = build_case(model_name, optimizer_name)
    model(images(6)).sum().backward()
    before = take_fingerprint(model, optimizer)
    with rote.preserved(model, optimizer):
        wreck(model, optimizer)
        assert len(find_differences(before, take_fingerprint(model, optimizer))) > 5
    assert find_differences(before, take_fingerprint(model, optimizer)) == []


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_everything_is_restored_after_an_exception(error: type[BaseException]) -> None:
    model, optimizer = build_case("cnn_batch_norm", "adam")
    before = take_fingerprint(model, optimizer)
    with pytest.raises(error, match="stop"), rote.preserved(model, optimizer, verify=True):
        wreck(model, optimizer)
        raise error("stop")
    assert find_differences(before, take_fingerprint(model, optimizer)) == []


def test_gradients_are_detached_and_restored_as_the_same_tensors() -> None:
    model = nn.Linear(3, 2)
    model(torch.ones(1, 3)).sum().backward()
    gradient = model.weight.grad
    assert gradient is not None
    values = gradient.clone()
    with rote.preserved(model):
        assert model.weight.grad is None
        model(torch.ones(5, 3)).sum().backward()
    assert model.weight.grad is gradient
    assert torch.equal(gradient, values)


def test_a_graph_built_before_a_probe_can_be_differentiated_after_it() -> None:
    model, optimizer = build_case("mlp", "adam")
    twin, _ = build_case("mlp", "adam")
    loss = model(images(6)).square().sum()
    with rote.preserved(model, optimizer):
        wreck(model, optimizer)
    loss.backward()
    twin(images(6)).square().sum().backward()
    for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        assert torch.equal(mine.grad, theirs.grad)  # type: ignore[arg-type]


def test_a_grad_scaler_is_restored() -> None:
    model, optimizer = build_case("mlp", "sgd")
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1)
    scaler.scale(model(images(6)).sum())
    before = take_fingerprint(model, optimizer, scaler)
    with rote.preserved(model, optimizer, scaler=scaler, verify=True):
        scaler.scale(model(images(6)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == 16.0
    assert scaler.get_scale() == 8.0
    assert find_differences(before, take_fingerprint(model, optimizer, scaler)) == []


def test_verify_names_state_that_cannot_be_restored() -> None:
    model = nn.Linear(2, 2)
    model.clock = itertools.count()  # type: ignore[assignment]
    with (
        pytest.raises(InterferenceError, match=r"attribute clock of module \(root\)"),
        rote.preserved(model, verify=True),
    ):
        next(model.clock)  # type: ignore[call-overload]


def test_user_defined_object_is_restored() -> None:
    class Clock:
        ticks = 0

    model = nn.Linear(2, 2)
    model.clock = Clock()  # type: ignore[assignment]
    with rote.preserved(model, verify=True):
        model.clock.ticks += 1  # type: ignore[operator,assignment]
        Clock.ticks += 1
    assert model.clock.ticks == Clock.ticks == 0


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda m, o: m[1].weight.data.add_(1), "parameter 1.weight"),
        (lambda m, o: m[2].running_mean.add_(1), "buffer 2.running_mean"),
        (lambda m, o: m[2].eval(), "attribute training of module 2"),
        (lambda m, o: setattr(m[1].weight, "grad", None), "gradient of 1.weight"),
        (lambda m, o: m[1].weight.requires_grad_(False), "parameter 1.weight"),
        (
            lambda m, o: o.state[m[1].weight]["exp_avg"].add_(1),
            "optimizer.state[1.weight][exp_avg]",
        ),
        (lambda m, o: o.param_groups[0].update(lr=2.0), "optimizer.param_groups[0][lr]"),
        (lambda m, o: torch.rand(1), "random state of torch"),
        (lambda m, o: np.random.rand(), "random state of NumPy"),
        (lambda m, o: random.random(), "random state of Python"),
    ],
)
def test_the_fingerprint_sees_every_kind_of_change(
    change: Callable[[nn.Module, torch.optim.Optimizer], object], name: str
) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.BatchNorm1d(4))
    optimizer = torch.optim.Adam(model.parameters())
    model(images(6)).square().sum().backward()
    optimizer.step()
    before = take_fingerprint(model, optimizer)
    assert find_differences(before, take_fingerprint(model, optimizer)) == []
    change(model, optimizer)
    assert any(
        name in found for found in find_differences(before, take_fingerprint(model, optimizer))
    )


def test_containers_are_refilled_in_place() -> None:
    class Holder:
        def __init__(self) -> None:
            self.mapping = {"a": [1, 2], "b": {"c": torch.ones(2)}}
            self.queue = deque([1, 2], maxlen=2)
            self.names = {"x", "y"}
            self.pair = (torch.zeros(1), [3])

    holder = Holder()
    mapping, queue, names = holder.mapping, holder.queue, holder.names
    state = ObjectState(holder)
    holder.mapping["b"]["c"].add_(5)  # type: ignore[call-overload,index]
    holder.mapping["a"].append(3)  # type: ignore[attr-defined]
    holder.mapping["new"] = [0]
    holder.queue.append(9)
    holder.names.clear()
    holder.pair[1].append(4)  # type: ignore[union-attr]
    holder.pair[0].fill_(8)  # type: ignore[union-attr]
    holder.mapping, holder.extra = {}, 1  # type: ignore[attr-defined]
    state.restore()
    assert holder.mapping is mapping
    assert holder.queue is queue
    assert holder.names is names
    assert list(mapping) == ["a", "b"]
    assert mapping["a"] == [1, 2]
    assert mapping["b"]["c"].tolist() == [1.0, 1.0]  # type: ignore[call-overload,index]
    assert list(queue) == [1, 2]
    assert names == {"x", "y"}
    assert holder.pair[1] == [3]
    assert holder.pair[0].tolist() == [0.0]  # type: ignore[union-attr]
    assert not hasattr(holder, "extra")


def test_an_expanded_buffer_is_left_alone() -> None:
    model = nn.Linear(2, 2)
    model.register_buffer("row", torch.arange(3).expand(4, 3))
    with rote.preserved(model, verify=True):
        pass
    assert model.get_buffer("row").shape == (4, 3)


def test_random_state_is_restored() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.rand()), float(torch.rand(()))

    state = RandomState()
    first = draw()
    state.restore()
    assert draw() == first


class Preempted(BaseException):
    """Raised by a handler, as when a cluster takes a machine back."""


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """The signals whose handlers have run; each of them raises."""
    numbers: list[int] = []

    def preempt(number: int, _: object) -> None:
        numbers.append(number)
        raise Preempted(number)

    before = {number: signal.signal(number, preempt) for number in SIGNALS}
    yield numbers
    for number, handler in before.items():
        assert signal.getsignal(number) is preempt
        signal.signal(number, handler)


SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM)


@pytest.mark.usefixtures("handled")
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_waits_until_everything_is_restored(number: signal.Signals) -> None:
    class Slow:
        finished = 0

        def restore(self) -> None:
            signal.raise_signal(number)
            self.finished += 1

    state = Slow()
    with pytest.raises(Preempted, match=str(int(number))), restore_after(state):
        pass
    assert state.finished == 1


@pytest.mark.usefixtures("handled")
def test_interrupted_restore_is_repeated() -> None:
    class Unlucky:
        calls = 0

        def restore(self) -> None:
            self.calls += 1
            if self.calls == 1:
                raise Preempted("just before signals were held")

    state = Unlucky()
    with pytest.raises(Preempted, match="just before"), restore_after(state):
        pass
    assert state.calls == 2


def test_every_signal_that_waited_is_handled_after_the_outermost_block(handled: list[int]) -> None:
    with pytest.raises(Preempted), hold_signals() as held:
        with hold_signals() as inner:
            signal.raise_signal(signal.SIGTERM)
            signal.raise_signal(signal.SIGUSR1)
            inner.run_handlers()
        assert signal.getsignal(signal.SIGTERM) == held.receive
        assert handled == []
    assert handled == [signal.SIGTERM, signal.SIGUSR1]


@pytest.mark.usefixtures("handled")
def test_a_handler_that_the_block_installs_stays() -> None:
    with hold_signals():
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGUSR1) == signal.SIG_IGN
    signal.signal(signal.SIGUSR1, signal.getsignal(signal.SIGTERM))


@pytest.mark.parametrize(
    ("container", "change"),
    [
        ({"a": 1, "b": 2}, lambda c: c.update(b=3, c=4)),
        ({"a": 1, "b": 2}, lambda c: c.update(a=c.pop("a"))),
        ([1, 2, 3], lambda c: c.append(4)),
        ({1, 2}, lambda c: c.symmetric_difference_update({2, 3})),
        (deque([1, 2, 3]), lambda c: c.rotate(1)),
        (deque([1, 2], maxlen=2), lambda c: c.append(7)),
    ],
)
def test_a_container_is_never_empty_while_it_is_refilled(
    container: Any, change: Callable[[Any], object]
) -> None:
    before, sizes = list(container), []
    contents = ContainerCopies()
    contents.note(container)
    change(container)

    def watch(*_: object) -> Any:
        sizes.append(len(container))
        return watch

    sys.settrace(watch)
    try:
        contents.restore()
    finally:
        sys.settrace(None)
    assert list(container) == before
    assert min(sizes) >= len(before) - 1  # an entry may be moved, one at a time


def test_other_threads_may_restore_too() -> None:
    done: list[bool] = []

    def work() -> None:
        with hold_signals():
            done.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert done == [True]


def test_no_gradient_is_lost_for_tensors_outside_the_model() -> None:
    stray = nn.Parameter(torch.ones(CLASSES))
    stray.grad = torch.full((CLASSES,), 0.25)
    gradient = stray.grad
    optimizer = torch.optim.SGD([stray], lr=1.0)
    with rote.preserved(nn.Linear(2, 2), optimizer, verify=True):
        (stray * 3).sum().backward()
        optimizer.step()
    assert stray.grad is gradient
    assert stray.tolist() == [1.0] * CLASSES


def test_a_cached_tensor_may_carry_its_graph() -> None:
    model = nn.Linear(3, 3)
    model.last = model(torch.ones(1, 3))  # type: ignore[assignment]
    last = model.last
    with rote.preserved(model, verify=True):
        model.last = model(torch.zeros(1, 3))  # type: ignore[assignment]
        last.data.zero_()  # type: ignore[union-attr]
    assert model.last is last
    last.sum().backward()  # type: ignore[operator,union-attr]
    assert model.weight.grad is not None


def test_only_modules_can_be_preserved() -> None:
    with pytest.raises(InputError, match="Expected `model` to be a torch.nn.Module, got NoneType"):
        rote.preserved(None).__enter__()  # type: ignore[arg-type]


def test_if_one_part_cannot_be_restored_the_others_are() -> None:
    snapshot = Snapshot(nn.Linear(2, 2))
    draws = torch.get_rng_state()
    torch.rand(3)
    snapshot.gradients.restore = lambda: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(ZeroDivisionError):
        snapshot.restore()
    assert torch.equal(torch.get_rng_state(), draws)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64, torch.complex128])
def test_unchanged_means_bit_identical(dtype: torch.dtype) -> None:
    tensor = torch.tensor([-0.0, math.nan, 1.0], dtype=dtype)
    values = TensorValues([tensor], spares_unchanged=True)
    assert values.is_untouched()
    tensor[0] = 0.0
    assert not values.is_untouched()
    values.restore()
    assert values.is_untouched()
    assert str(tensor[0].real.item()) == "-0.0"


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "src"])
def test_packages_outside_of_this_environment_are_not_the_users_own(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"a_package_in_{folder.replace('-', '_')}"
    module = ModuleType(name)
    module.__file__ = str(tmp_path / folder / name / "__init__.py")
    monkeypatch.setitem(sys.modules, name, module)
    assert _is_own(name) == is_user_module(name) == (folder == "src")
