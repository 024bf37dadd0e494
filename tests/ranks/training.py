"""A small noisy training on several ranks, and all of it that a probe must leave alone."""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.optim import SGD, AdamW, Optimizer
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

import rote

Case: TypeAlias = Callable[[Path], None]

CLASSES, SAMPLES, BATCH, STEPS = 4, 48, 6, 5

OPTIMIZERS: dict[str, Callable[[Any], Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.2, momentum=0.9, weight_decay=0.01, nesterov=True),
    "adamw": lambda p: AdamW(p, lr=0.02),
}


def in_turn(pairs: dict[str, Case]) -> dict[str, Case]:
    """Of pairs that are listed wrapper by wrapper one of each, with either optimizer in turn."""
    return {name: case for at, (name, case) in enumerate(pairs.items()) if at % 2 == at // 2 % 2}


def images(count: int, seed: int) -> Tensor:
    return torch.randn(count, 1, 6, 6, generator=torch.Generator().manual_seed(seed))


HOLDOUT = images(9, seed=7)


class Branching(nn.Module):
    """A network with a branch that not every forward pass takes."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(36, 8)
        self.branch = nn.Linear(8, 8)
        self.head = nn.Linear(8, CLASSES)
        self.takes_branch = True

    def forward(self, x: Tensor) -> Tensor:
        hidden = torch.relu(self.stem(x.flatten(1)))
        if self.takes_branch:
            hidden = hidden + torch.relu(self.branch(hidden))
        out: Tensor = self.head(hidden)
        return out


def cnn(*, drops: bool = True) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(0.3 if drops else 0.0),
        nn.Linear(64, CLASSES),
    )


def mlp() -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(36, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, CLASSES)
    )


def seed_everything(seed: int) -> None:
    torch.manual_seed(seed)
    np.random.seed(seed)
    random.seed(seed)


@dataclass
class Training:
    """One run; ``moment`` says when in a step it is probed, if it is."""

    wrap: Callable[[nn.Module], nn.Module]
    optimizer_name: str
    build: Callable[[], nn.Module] = cnn
    moment: str = "after_step"
    policy: rote.ProbePolicy = field(default_factory=lambda: rote.ProbePolicy(batch=7))
    accumulating: Callable[[nn.Module, bool], Any] | None = None
    before_step: Callable[[nn.Module, int], None] | None = None
    evaluates: str = ""

    def __post_init__(self) -> None:
        seed_everything(0)
        self.model = self.wrap(self.build())
        self.optimizer = OPTIMIZERS[self.optimizer_name](self.model.parameters())
        seed_everything(100 + distributed.get_rank())  # dropout masks differ from rank to rank
        labels = torch.randint(CLASSES, (SAMPLES,), generator=torch.Generator().manual_seed(5))
        data = TensorDataset(images(SAMPLES, seed=6), labels, torch.arange(SAMPLES))
        self.loader = DataLoader(data, batch_size=BATCH, sampler=DistributedSampler(data, seed=3))
        self.tracker: rote.Tracker | None = None
        self.history: list[Any] = []
        self.readings: list[rote.Reading] = []

    def run(self, *, probed: bool, steps: int = STEPS, **options: Any) -> "Training":
        """Train; with probes, if wanted."""
        if probed:
            self.tracker = rote.track(
                self.model,
                self.optimizer,
                inputs=HOLDOUT,
                num_classes=CLASSES,
                policy=self.policy,
                **options,
            )
        for step, (x, y) in enumerate(self._batches(steps)):
            self._step(step, x, y)
        return self

    def _batches(self, steps: int) -> Iterator[tuple[Tensor, Tensor]]:
        done = 0
        while done < steps:
            for x, y, index in self.loader:
                if done == steps:
                    return
                self.history += index.tolist()
                yield x, y
                done += 1

    def _step(self, step: int, x: Tensor, y: Tensor) -> None:
        self.model.train()
        if self.before_step is not None:
            self.before_step(self.model, step)
        self.optimizer.zero_grad()
        if self.accumulating is not None:
            with self.accumulating(self.model, True):
                cross_entropy(self.model(x.flip(-1)), y).backward()
            self._probe_at("half_accumulated")
        loss = cross_entropy(self.model(x), y)
        self._probe_at("before_backward")
        loss.backward()
        self._probe_at("before_step")
        self._evaluate_at("before_step", x)
        self.optimizer.step()
        self._evaluate_at("after_step", x)
        draws = (random.random(), float(np.random.rand()), float(torch.rand(())))
        self.history += [loss.item(), *draws]
        self._probe_at("after_step")

    def _evaluate_at(self, moment: str, x: Tensor) -> None:
        if moment == self.evaluates:
            self.model.eval()
            with torch.no_grad():
                self.history.append(self.model(x).sum().item())

    def _probe_at(self, moment: str) -> None:
        if self.tracker is not None and moment == self.moment:
            reading = self.tracker.probe(train_accuracy=distributed.get_rank())
            if reading is not None:
                self.readings.append(reading)

    def marks(self) -> dict[str, str]:
        """Everything that training depends on, as text that changes with one bit of it."""
        state = self.optimizer.state_dict()["state"]
        things: dict[str, object] = {"history": self.history, "torch": torch.get_rng_state()}
        things |= {"python": random.getstate(), "numpy": str(np.random.get_state())}
        for name, tensor in (*self.model.named_parameters(), *self.model.named_buffers()):
            things[name], things[f"{name}.grad"] = tensor, tensor.grad
        for index, entries in state.items():
            things |= {f"state {index} {key}": value for key, value in entries.items()}
        return {name: mark(thing) for name, thing in things.items()}


def mark(thing: object) -> str:
    if isinstance(thing, Tensor):
        local = getattr(thing, "_local_tensor", thing).detach().contiguous()
        raw = local.reshape(-1).view(torch.uint8).numpy().tobytes()
        return f"{tuple(local.shape)} {sha256(raw).hexdigest()}"
    return repr(thing)


def check_without_a_trace(build: Callable[[], Training], **options: Any) -> Training:
    """Train with and without probes, and compare every bit; the probed one."""
    plain = build().run(probed=False)
    probed = build().run(probed=True, **options)
    assert probed.readings, "never probed"
    before, after = plain.marks(), probed.marks()
    changed = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    assert not changed, f"a probe changed {changed}"
    check_same_on_ranks([reading_numbers(reading) for reading in probed.readings])
    assert all(np.isfinite(reading.drop) for reading in probed.readings)
    return probed


def reading_numbers(reading: rote.Reading) -> dict[str, Any]:
    values = reading.to_dict() | {"predictions": repr(reading.predictions)}
    return {k: repr(v) for k, v in values.items() if k not in ("seconds", "metrics")}


def check_same_on_ranks(value: object) -> None:
    everyones = gathered(value)
    assert all(other == everyones[0] for other in everyones), everyones


def gathered(value: Any) -> list[Any]:
    everyones: list[Any] = [None] * distributed.get_world_size()
    distributed.all_gather_object(everyones, value)
    return everyones
