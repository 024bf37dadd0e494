"""Signal handlers that raise while a model is probed: the network stays as it is."""

import signal
from collections.abc import Iterator
from queue import SimpleQueue
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.snapshot import hold_signals
from rote.snapshot.fingerprint import find_differences, take_fingerprint
from tests.cases import CLASSES, build_case, images

SIGNALS = [signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGINT]


class Preempted(BaseException):
    """Raised by a handler, as when a cluster takes a machine back."""


@pytest.fixture(autouse=True)
def _raising_handlers() -> Iterator[None]:
    def preempt(number: int, _: object) -> None:
        raise Preempted(number)

    before = {number: signal.signal(number, preempt) for number in SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.filterwarnings("ignore::rote.errors.UncopiedStateWarning")
@pytest.mark.parametrize("number", SIGNALS)
@pytest.mark.parametrize("call", [0, 1, 2])
def test_a_process_signal_in_any_pass_leaves_training_unchanged(
    number: signal.Signals, call: int
) -> None:
    model, optimizer = build_case("cnn_batch_norm", "adam")
    fuse: SimpleQueue[int] = SimpleQueue()  # which a probe does not restore

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        if not fuse.empty() and fuse.get() == 0:
            signal.raise_signal(number)
        return cross_entropy(output, labels)

    policy = rote.ProbePolicy(batch=6)
    tracker = rote.track(
        model, optimizer, inputs=images(6), num_classes=CLASSES, loss_fn=loss, policy=policy
    )
    before = take_fingerprint(model, optimizer)
    for calls_left in reversed(range(call + 1)):
        fuse.put(calls_left)
    with pytest.raises(Preempted, match=str(int(number))):
        tracker.probe()
    assert find_differences(before, take_fingerprint(model, optimizer)) == []
    assert tracker.readings == []
    assert tracker.probe() is not None


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_while_the_probe_restores_waits(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = build_case("mlp", "adam")
    tracker = rote.track(model, optimizer, inputs=images(6), num_classes=CLASSES)
    before = take_fingerprint(model, optimizer)
    restore = rote.snapshot.TensorValues.restore

    def interrupted(self: rote.snapshot.TensorValues) -> None:
        signal.raise_signal(number)
        restore(self)

    monkeypatch.setattr(rote.snapshot.TensorValues, "restore", interrupted)
    with pytest.raises(Preempted):
        tracker.probe()
    monkeypatch.undo()
    assert find_differences(before, take_fingerprint(model, optimizer)) == []


@pytest.mark.parametrize("strikes", [1, 2, 3, 4])
def test_signals_while_handlers_are_restored_leave_none_of_ours_behind(
    monkeypatch: pytest.MonkeyPatch, strikes: int
) -> None:
    own = [signal.getsignal(number) for number in SIGNALS]
    left, install = iter(range(strikes)), signal.signal

    def strike_first(number: int, handler: Any) -> object:
        if handler in own and next(left, None) is not None:
            signal.raise_signal(number)
        return install(number, handler)

    monkeypatch.setattr(signal, "signal", strike_first)
    with pytest.raises(Preempted), hold_signals():
        pass
    assert next(left, None) is None
    assert [signal.getsignal(number) for number in SIGNALS] == own


def test_resistance_stops_at_the_next_step() -> None:
    model = nn.Linear(4, 3)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-9)
    before = take_fingerprint(model, optimizer)
    calls: SimpleQueue[None] = SimpleQueue()

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        calls.put(None)
        if calls.qsize() == 3:
            signal.raise_signal(signal.SIGTERM)
        return cross_entropy(output, labels)

    label = int(1 - model(torch.ones(1, 4)).argmax().clamp(max=1))
    with pytest.raises(Preempted):
        rote.resistance(model, optimizer, torch.ones(4), label, loss_fn=loss, max_steps=50)
    assert calls.qsize() < 10
    assert find_differences(before, take_fingerprint(model, optimizer)) == []
