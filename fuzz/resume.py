"""States and journals: any state continues any later journal, and odd names never spoil a run."""

import copy
import random
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

import rote
from fuzz._trials import new_folder, repeat
from rote.errors import InputError, RoteWarning
from rote.store import read_run, read_table

_CLASSES, _SAMPLES, _EPOCHS = 3, 12, 5
_NAMES = (
    *("loss", "é", "a b", "a,b", "=1", "__proto__", "step"),
    *("\u202ex", "\0", "\ud800", "", "x" * 300),
)


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Interrupt runs at any reading, resume them from any state, and compare with whole runs."""
    return repeat(_trial, seed, seconds)


def _trial(rng: random.Random) -> list[str]:
    torch.manual_seed(rng.randrange(2**31))
    policy = rote.ProbePolicy(
        batch=rng.choice([4, _SAMPLES]),
        resample=rng.random() < 0.6,
        every=rng.choice([1, 1, 2]),
    )
    inputs = torch.randn(_SAMPLES, 4)
    source: Any = inputs if rng.random() < 0.6 else torch.utils.data.TensorDataset(inputs)
    names = rng.sample(_NAMES, 2)
    make: Callable[..., _Run] = lambda **where: _Run(source, policy, names, **where)  # noqa: E731
    with new_folder() as place, warnings.catch_warnings():
        warnings.simplefilter("ignore", RoteWarning)
        whole = make()
        whole.train(_EPOCHS)
        length = rng.randint(0, _EPOCHS)
        saved = rng.randint(0, length)
        return _resume(make, place / "run", whole, saved=saved, length=length)


def _resume(
    make: "Callable[..., _Run]", path: Path, whole: "_Run", *, saved: int, length: int
) -> list[str]:
    first = make(save_to=path)
    first.train(saved)
    state = first.state()
    first.train(length - saved)
    first.tracker.close()
    second = make(save_to=path, resume=True)
    second.load(state)
    second.train(_EPOCHS - saved)
    second.tracker.close()
    record, table = read_run(path), read_table(path)
    expected = [replace(entry, seconds=0.0) for entry in whole.tracker.readings]
    found = [replace(entry, seconds=0.0) for entry in record.readings]
    where = f"state after {saved}, journal of {length}"
    if found != expected:
        return [f"{where}: {len(found)} readings that differ from those of a whole run"]
    if table.frame["step"].to_list() != [entry.step for entry in expected]:
        return [f"{where}: the table differs from the run"]
    return []


class _Run:
    """A small training run that starts from the same weights each time."""

    def __init__(
        self, inputs: Any, policy: rote.ProbePolicy, names: list[str], **where: Any
    ) -> None:
        self._names, self._epoch = names, 0
        generator = torch.Generator().manual_seed(5)
        self._x = torch.randn(8, 4, generator=generator)
        self._y = torch.randint(_CLASSES, (8,), generator=generator)
        self.model = torch.nn.Linear(4, _CLASSES)
        with torch.no_grad():
            self.model.weight.copy_(torch.randn(_CLASSES, 4, generator=generator))
            self.model.bias.zero_()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.tracker = rote.track(
            self.model,
            self.optimizer,
            inputs=inputs,
            num_classes=_CLASSES,
            policy=policy,
            **where,
        )

    def train(self, epochs: int) -> None:
        for _ in range(epochs):
            self._epoch += 1
            self.optimizer.zero_grad()
            cross_entropy(self.model(self._x), self._y).backward()  # type: ignore[no-untyped-call]
            self.optimizer.step()
            metrics = dict.fromkeys(self._names, self._epoch / 8)
            try:
                self.tracker.probe(**metrics)
            except InputError:  # of a name: nothing was taken
                self.tracker.probe(train_accuracy=self._epoch / 8)

    def state(self) -> dict[str, Any]:
        parts = {"model": self.model, "optimizer": self.optimizer, "tracker": self.tracker}
        states = {name: part.state_dict() for name, part in parts.items()}  # type: ignore[attr-defined]
        return copy.deepcopy(states) | {"epoch": self._epoch}

    def load(self, state: dict[str, Any]) -> None:
        self._epoch = state["epoch"]
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.tracker.load_state_dict(state["tracker"])
