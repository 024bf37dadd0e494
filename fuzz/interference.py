"""Training with and without a tracker, of models and losses that hide state where they can.

Every trial builds the same training twice from one seed. One is probed at random moments; some of
the probes are broken off by an exception or Ctrl-C in the middle of a pass. All must be equal at
the end, bit for bit: weights, the optimizer, the hidden state and the random numbers.
"""

import random
import signal
import threading
import types
import warnings
from array import array
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial, update_wrapper
from queue import SimpleQueue
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from fuzz._trials import repeat
from rote.errors import RoteWarning, TrialError

Tick = Callable[[], float]
"""Changes something hidden, and returns a number that depends on it."""

CLASSES = 3


class InjectedError(Exception):
    """Raised in the middle of a pass."""


@dataclass
class Note:
    """A number and a list."""

    number: int = 0
    seen: list[int] = field(default_factory=list)


class Slotted:
    """Two slots, one of them empty until the first call."""

    __slots__ = ("late", "number")

    def __init__(self) -> None:
        self.number = 0

    def __call__(self) -> float:
        """Count."""
        self.number += 1
        self.late = getattr(self, "late", 0) + self.number
        return self.late


def _number(_: random.Random) -> Tick:
    count = 0

    def tick() -> float:
        nonlocal count
        count += 1
        return count

    return tick


def _in_containers(draw: random.Random) -> Tick:
    entry: Any = [0]
    wraps_of: list[Callable[[Any], Any]] = [lambda e: [e], lambda e: (e, 1), lambda e: deque([e])]
    for _ in range(draw.randrange(4)):
        entry = draw.choice(wraps_of)(entry)
    holder: Any = {"e": entry} if draw.random() < 0.5 else types.SimpleNamespace(e=entry)

    def tick() -> float:
        inner = holder["e"] if isinstance(holder, dict) else holder.e
        while not isinstance(inner[0], int):
            inner = inner[0]
        inner[0] += 1
        if isinstance(inner, list) and inner[0] % 3 == 0:
            inner.append(inner[0])
        return inner[0] + len(inner)

    return tick


def _tensor(_: random.Random) -> Tick:
    total, counts = torch.zeros(2), np.zeros(2)

    def tick() -> float:
        total.add_(1)
        counts[0] += 2
        return float(total[0]) + float(counts[0])

    return tick


def _generator(draw: random.Random) -> Tick:
    seed = draw.randrange(99)
    torch_draws = torch.Generator().manual_seed(seed)
    ticks: list[Tick] = [
        lambda: float(torch.rand((), generator=torch_draws)),
        partial(random.Random, seed)().random,
        np.random.default_rng(seed).random,
        np.random.RandomState(seed).rand,
    ]
    return draw.choice(ticks)


def _note(_: random.Random) -> Tick:
    note, counter = Note(), Counter[str]()

    def tick() -> float:
        note.number += 1
        note.seen.append(note.number)
        counter["calls"] += 1
        return len(note.seen) + counter["calls"]

    return tick


def _class_attribute(_: random.Random) -> Tick:
    class Local:
        count = 0

        @classmethod
        def tick(cls) -> float:
            cls.count += 1
            return cls.count

        def bound(self) -> float:
            return self.tick() + len(vars(type(self)))

    return Local().bound


def _function_attribute(_: random.Random) -> Tick:
    def tick() -> float:
        tick.count = getattr(tick, "count", 0) + 1  # type: ignore[attr-defined]
        return tick.count  # type: ignore[attr-defined, no-any-return]

    return tick


def _defaults(_: random.Random) -> Tick:
    def tick(some: list[int] = [0], *, more: bytearray = bytearray(1)) -> float:  # noqa: B006, B008
        some[0] += 1
        more[0] = (more[0] + 1) % 256
        return some[0] + more[0]

    tick.__defaults__, tick.__kwdefaults__ = ([0],), {"more": bytearray(1)}
    return tick


def _bytes(_: random.Random) -> Tick:
    raw, numbers = bytearray(2), array("d", [0.0])

    def tick() -> float:
        memoryview(raw)[0] = (raw[0] + 1) % 256
        numbers.append(numbers[-1] + 0.5)
        return raw[0] + numbers[-1]

    return tick


def _global(_: random.Random) -> Tick:
    space: dict[str, Any] = {"__name__": "a_users_module"}
    code = "count = 0\ndef tick():\n    global count, fresh\n    count += 1\n    fresh = count\n"
    exec(code + "    return count", space)
    tick: Tick = space["tick"]
    return tick


MAKERS: list[Callable[[random.Random], Tick]] = [
    *(_number, _in_containers, _tensor, _generator, _note, _class_attribute),
    *(_function_attribute, _defaults, _bytes, _global, lambda _: Slotted()),
]


def _wrap(tick: Tick, draw: random.Random) -> Tick:
    """Wrap a function in one more object that can be called."""

    def behind_decorator() -> float:
        return tick()

    behind_decorator = update_wrapper(behind_decorator, tick)
    held = {"all": [tick]}
    owner = types.SimpleNamespace(tick=tick)
    forms: list[Tick] = [
        tick,
        lambda: tick(),
        partial(lambda function: function(), tick),
        behind_decorator,
        lambda: held["all"][0](),
        lambda: owner.tick(),
        lambda function=tick: function(),  # type: ignore[misc]
    ]
    return draw.choice(forms)


class Net(nn.Module):
    """A small network that calls ticks, and a fuse that no probe puts back."""

    def __init__(self, ticks: list[Tick], fuse: "SimpleQueue[str]") -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Dropout(0.2))
        self.head = nn.Linear(6, CLASSES)
        self.ticks = ticks
        self.fuse = fuse

    def forward(self, x: Tensor) -> Tensor:
        """Logits that depend on all that is hidden."""
        burn(self.fuse)
        out: Tensor = self.head(self.body(x))
        return out * (1 + 1e-2 * sum(tick() for tick in self.ticks))


def burn(fuse: "SimpleQueue[str]") -> None:
    """Do what comes next in a fuse, if it was lit."""
    what = "" if fuse.empty() else fuse.get()
    if what == "raise":
        raise InjectedError
    if what == "interrupt":
        signal.raise_signal(signal.SIGINT)


class Training:
    """One training, built from a seed."""

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        torch.manual_seed(seed)
        self.fuse: SimpleQueue[str] = SimpleQueue()
        self.ticks = [self._tick(draw) for _ in range(draw.randrange(1, 5))]
        cut = draw.randrange(len(self.ticks) + 1)
        self.model = Net(self.ticks[:cut], self.fuse)
        self.loss_fn = self._loss(self.ticks[cut:], draw)
        kinds: list[Any] = [torch.optim.SGD, torch.optim.Adam, torch.optim.RMSprop]
        self.optimizer = draw.choice(kinds)(self.model.parameters(), lr=0.01)
        self.x, self.y = torch.randn(12, 4), torch.arange(12) % CLASSES

    @staticmethod
    def _tick(draw: random.Random) -> Tick:
        tick = draw.choice(MAKERS)(draw)
        for _ in range(draw.randrange(3)):
            tick = _wrap(tick, draw)
        return tick

    def _loss(self, ticks: list[Tick], draw: random.Random) -> Callable[..., Tensor]:
        fuse = self.fuse

        def loss(output: Tensor, labels: Tensor) -> Tensor:
            burn(fuse)
            return cross_entropy(output, labels) * (1 + 1e-2 * sum(tick() for tick in ticks))

        forms: list[Callable[..., Tensor]] = [loss, partial(loss), lambda o, t: loss(o, t)]
        return draw.choice(forms)

    def run(self, seed: int, *, probed: bool) -> str:
        """Train a few steps; everything that must be equal, as a text."""
        draw = random.Random(seed)
        for module in (torch.manual_seed, np.random.seed, random.seed):
            module(seed)
        start = draw.randrange(3)
        tracker = None
        for step in range(6):
            if probed and step == start:
                tracker = self._track(draw)
            self.optimizer.zero_grad()
            self.loss_fn(self.model(self.x), self.y).backward()  # type: ignore[no-untyped-call]
            if tracker is not None and draw.random() < 0.5:
                self._probe(tracker, draw)  # with gradients half way
            self.optimizer.step()
            if tracker is not None and draw.random() < 0.5:
                self._probe(tracker, draw)
        return self._state()

    def _track(self, draw: random.Random) -> "rote.Tracker | None":
        mode: Any = draw.choice(["train", "eval"])
        policy = rote.ProbePolicy(batch=6, mode=mode, verify=draw.random() < 0.3)
        self._light(draw)
        try:
            return rote.track(
                self.model,
                self.optimizer,
                inputs=torch.ones(12, 4),
                num_classes=CLASSES,
                loss_fn=self.loss_fn,
                policy=policy,
            )
        except (TrialError, InjectedError, KeyboardInterrupt):
            return None
        finally:
            self._put_out()

    def _probe(self, tracker: "rote.Tracker", draw: random.Random) -> None:
        self._light(draw)
        try:
            tracker.probe()
        except (InjectedError, KeyboardInterrupt):
            pass
        finally:
            self._put_out()

    def _light(self, draw: random.Random) -> None:
        if draw.random() < 0.3:
            for _ in range(draw.randrange(6)):
                self.fuse.put("")
            is_main = threading.current_thread() is threading.main_thread()
            self.fuse.put(draw.choice(["raise", "interrupt"] if is_main else ["raise"]))

    def _put_out(self) -> None:
        while not self.fuse.empty():
            self.fuse.get()

    def _state(self) -> str:
        hidden = [tick() for tick in self.ticks]
        tensors = [*self.model.state_dict().values()]
        grads = [None if p.grad is None else p.grad.tolist() for p in self.model.parameters()]
        states = [
            [v.tolist() if isinstance(v, Tensor) else v for v in state.values()]
            for state in self.optimizer.state.values()
        ]
        draws = (random.random(), float(np.random.rand()), float(torch.rand(())))
        return repr((hidden, [tensor.tolist() for tensor in tensors], grads, states, draws))


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Build trainings and compare them for a while.

    Returns:
        How many were compared, and what was found.
    """
    return repeat(_trial, seed, seconds)


def _trial(draw: random.Random) -> list[str]:
    seed = draw.randrange(2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoteWarning)
        bare, probed = (Training(seed).run(seed, probed=is_it) for is_it in (False, True))
    return [] if bare == probed else ["training with a tracker is not the one without"]
