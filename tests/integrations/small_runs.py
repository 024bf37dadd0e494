"""What the tests of the smaller trainers share: data, a network, an oracle, traces."""

import copy
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from rote.integrations.adapter import TrainerAdapter

FEATURES, CLASSES, SAMPLES, BATCH = 6, 3, 48, 8

_GENERATOR = torch.Generator().manual_seed(1)
X = torch.randn(SAMPLES, FEATURES, generator=_GENERATOR)
Y = torch.randint(CLASSES, (SAMPLES,), generator=_GENERATOR)


class Augmented(Dataset[tuple[Tensor, Tensor]]):
    """Samples with random augmentation, so that a drawn one would show."""

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + 0.1 * torch.randn(FEATURES), Y[index]


class Network(nn.Sequential):
    """Dropout and BatchNorm leave traces; ``softmax`` as skorch likes it."""

    def __init__(self, *, softmax: bool = False) -> None:
        layers = [nn.Linear(FEATURES, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3)]
        end: list[nn.Module] = [nn.Softmax(-1)] if softmax else []
        super().__init__(*layers, nn.Linear(12, CLASSES), *end)


class DeepCopies(TrainerAdapter):
    """Does on deep copies, right before each probe, what the probe is about to do."""

    expected: list[tuple[float, float]]

    def take_reading(self, *arguments: Any, **others: Any) -> Any:
        with torch.random.fork_rng(devices=[]):
            vars(self).setdefault("expected", []).append(self.losses_of_copies())
        return super().take_reading(*arguments, **others)

    def losses_of_copies(self) -> tuple[float, float]:
        """Before and after a step of a copy, each from the same buffers and random numbers."""
        probe, batch, start = self.tracker._probe, self.tracker.batch, torch.get_rng_state()
        model, optimizer, loss_fn = copy.deepcopy((probe.model, probe.optimizer, probe.loss_fn))
        model.train()
        before = evaluated(model, loss_fn, batch, start, optimizer)
        contents = copy.deepcopy(probe.model)
        for name, buffer in model.named_buffers():
            buffer.copy_(contents.get_buffer(name))
        with torch.no_grad():
            return before, evaluated(model, loss_fn, batch, start)


def evaluated(model: Any, loss_fn: Any, batch: Any, start: Tensor, optimizer: Any = None) -> float:
    """The loss on S̃; with an optimizer, followed by its step."""
    torch.set_rng_state(start)
    loss = loss_fn(model(batch.inputs), batch.labels)
    if optimizer is not None:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        loss.backward()
        optimizer.step()
    return loss.item()


def assert_as_expected(callback: Any, count: int) -> None:
    """The readings are those of the deep copies, bit for bit, and so is ζ, their mean drop."""
    readings = callback.tracker.readings
    found = [(reading.loss_before, reading.loss_after) for reading in readings]
    assert found == callback.expected
    assert len(found) == count
    assert any(before != after for before, after in found)
    drops = [before - after for before, after in found]
    means = [sum(drops[:number]) / number for number in range(1, count + 1)]
    assert [reading.susceptibility for reading in readings] == pytest.approx(means, rel=1e-9)


def bits(value: Any) -> Any:
    """All that can be compared bit by bit, in lists."""
    if isinstance(value, Tensor):
        return value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
    if isinstance(value, dict):
        return {str(key): bits(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [bits(entry) for entry in value]
    return value
