"""Signals whose handlers raise, sent at random moments while a model is probed.

A preemption handler (SIGTERM, SIGUSR1) or a time limit (SIGALRM) raises, is caught, and a
checkpoint is saved: whatever the moment, the network must be as it was before the probe. Signals
come in bursts, so that a second one arrives while the first is on its way out of the probe.
"""

import os
import random
import signal
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from fuzz._trials import repeat
from rote.errors import RoteWarning

SIGNALS = (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGINT)
SHOTS, BURST = 50, 3
"""How many probes of one network a trial interrupts, and by how many signals each."""

_SENDER = """
import os, sys, time
for line in sys.stdin:
    for entry in line.split():
        number, delay = entry.split(":")
        time.sleep(float(delay))
        os.kill(os.getppid(), int(number))
    print(flush=True)
"""


class PreemptedError(BaseException):
    """Raised by a signal handler."""


def _raise(number: int, frame: FrameType | None) -> None:
    """Raise if a probe is running, whatever it is doing."""
    while frame is not None:
        if frame.f_code is rote.Tracker.probe.__code__:
            raise PreemptedError(number)
        frame = frame.f_back


class Sender:
    """A process that sends this one bursts of signals, by its own clock."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-S", "-c", _SENDER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def send(self, burst: list[tuple[int, float]]) -> None:
        """Send signals, each so many seconds after the one before."""
        assert self._process.stdin is not None
        entries = [f"{int(number)}:{delay}" for number, delay in burst]
        self._process.stdin.write(" ".join(entries) + "\n")
        self._process.stdin.flush()

    def wait(self) -> None:
        """Return when the burst has been sent."""
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


@contextmanager
def _handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, _raise)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class Net(nn.Module):
    """A small network with state of every kind: buffers, dropout, a counter, a history."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.2))
        self.head = nn.Linear(6, 3)
        self.calls, self.history = 0, {"shapes": [0]}

    def forward(self, x: Tensor) -> Tensor:
        """Logits; counts its calls."""
        self.calls += 1
        self.history["shapes"].append(len(x))
        out: Tensor = self.head(self.body(x))
        return out


class Training:
    """A network in the middle of its training, with half-accumulated gradients."""

    def __init__(self, draw: random.Random) -> None:
        torch.manual_seed(draw.randrange(2**32))
        self.model = Net()
        kinds: list[Any] = [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop]
        self.optimizer = draw.choice(kinds)(self.model.parameters(), lr=0.01)
        x, y = torch.randn(12, 4), torch.arange(12) % 3
        for _ in range(2):
            cross_entropy(self.model(x), y).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
        self.tracker = rote.track(
            self.model,
            self.optimizer,
            inputs=torch.randn(12, 4),
            num_classes=3,
            policy=rote.ProbePolicy(batch=6),
        )

    def state(self) -> tuple[object, ...]:
        """Return everything that must stay as it is, copied."""
        tensors = [_bytes(tensor) for tensor in self.model.state_dict().values()]
        grads = [None if p.grad is None else _bytes(p.grad) for p in self.model.parameters()]
        moments = [
            [(key, _bytes(v) if isinstance(v, Tensor) else v) for key, v in state.items()]
            for state in self.optimizer.state.values()
        ]
        modes = [module.training for module in self.model.modules()]
        attributes = [sorted(vars(module)) for module in self.model.modules()]
        kept = (self.model.calls, repr(self.model.history), list(vars(self.optimizer)))
        draws = (random.getstate(), _bytes(torch.get_rng_state()))
        return tensors, grads, moments, modes, attributes, kept, draws


def _bytes(tensor: Tensor) -> bytes:
    return tensor.detach().numpy().tobytes()


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Send signals for a while.

    Returns:
        How many signals were sent, and what was found.
    """
    if threading.current_thread() is not threading.main_thread() or os.name != "posix":
        return 1, []  # handlers run in the main thread alone
    sender = Sender()
    try:
        with _handlers(), warnings.catch_warnings():
            warnings.simplefilter("ignore", RoteWarning)
            trials, findings = repeat(lambda draw: _trial(draw, sender), seed, seconds)
    finally:
        sender.close()
    return trials * SHOTS * BURST, findings


def _trial(draw: random.Random, sender: Sender) -> list[str]:
    training = Training(draw)
    started = time.perf_counter()
    training.tracker.probe()
    duration = time.perf_counter() - started
    before, handlers = training.state(), [signal.getsignal(number) for number in SIGNALS]
    for shot in range(SHOTS):
        moments = sorted(draw.uniform(0, 1.2) * duration for _ in range(BURST))
        delays = [later - sooner for sooner, later in pairwise([0.0, *moments])]
        numbers = draw.sample(SIGNALS, BURST)
        sender.send(list(zip(numbers, delays, strict=True)))
        try:
            training.tracker.probe()
        except PreemptedError:
            after = training.state()  # while the traceback holds on to every frame of the probe
        else:
            after = training.state()
        sender.wait()
        if not after == training.state() == before:
            return [f"signals {numbers} of shot {shot} changed the training"]
        if [signal.getsignal(number) for number in SIGNALS] != handlers:
            return [f"signals {numbers} of shot {shot} left another handler behind"]
    return []
