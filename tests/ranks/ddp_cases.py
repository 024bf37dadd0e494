"""What must hold on ranks that train one model with DistributedDataParallel."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817  # as everybody
from torch.utils.checkpoint import checkpoint

import rote
from rote.probe import unwrap
from tests.oracle import oracle_losses
from tests.ranks.training import (
    CLASSES,
    OPTIMIZERS,
    Branching,
    Training,
    check_without_a_trace,
    gathered,
    in_turn,
    mlp,
)


def _accumulating(model: nn.Module, accumulates: bool) -> Any:
    return unwrapped_ddp(model).no_sync() if accumulates else nullcontext()


def unwrapped_ddp(model: nn.Module) -> Any:
    return getattr(model, "_orig_mod", model)


def _branches(model: nn.Module, step: int) -> None:
    # Each probe comes after a pass through the branch, and before one that leaves it out.
    module: Any = unwrap(model)
    module.takes_branch = step % 2 == 0


def _on_a_clock_of_its_own(step: int) -> bool:
    return step % 2 == distributed.get_rank()


class Checkpointed(nn.Module):
    """A network that recomputes its hidden layer in the backward pass."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(36, 8), nn.Linear(8, CLASSES)
        self.hidden = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.2), nn.ReLU())
        self.reentrant = reentrant

    def forward(self, x: Tensor) -> Tensor:
        hidden = checkpoint(self.hidden, self.stem(x.flatten(1)), use_reentrant=self.reentrant)
        return self.head(hidden)  # type: ignore[no-any-return]


class MeanOverRanks(torch.autograd.Function):
    """A mean over ranks that waits for the others both ways, as SyncBatchNorm does."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        x = x.clone()
        distributed.all_reduce(x)
        return x / distributed.get_world_size()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        gradient = gradient.clone()
        distributed.all_reduce(gradient)
        return gradient / distributed.get_world_size()


class Synced(nn.Module):
    """Centers its hidden layer by a mean over all ranks."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(36, 8), nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.stem(x.flatten(1))
        return self.head(torch.tanh(hidden - MeanOverRanks.apply(hidden.mean(0))))  # type: ignore[no-any-return]


def _eager(model: nn.Module) -> nn.Module:
    compiled: nn.Module = torch.compile(DDP(model), backend="eager")  # type: ignore[assignment]
    return compiled


WRAPPED: dict[str, dict[str, Any]] = {
    "plain": {"wrap": DDP},
    "bucket_view": {"wrap": partial(DDP, gradient_as_bucket_view=True)},
    "static_graph": {"wrap": partial(DDP, static_graph=True), "build": mlp},
    "static_graph_of_checkpoints": {
        "wrap": partial(DDP, static_graph=True),
        "build": partial(Checkpointed, reentrant=False),
    },
    "unused_parameters": {
        "wrap": partial(DDP, find_unused_parameters=True),
        "build": Branching,
        "before_step": _branches,
    },
    "own_buffers": {"wrap": partial(DDP, forward_sync_buffers=False), "evaluates": "after_step"},
    "compiled": {"wrap": _eager, "build": mlp},
    "collectives_inside": {"wrap": DDP, "build": Synced},
    "verified": {"wrap": DDP, "policy": rote.ProbePolicy(batch=7, verify=True)},
    "resampled": {"wrap": DDP, "policy": rote.ProbePolicy(batch=7, resample=True)},
    "by_a_clock": {"wrap": DDP, "policy": rote.ProbePolicy(batch=7, every=_on_a_clock_of_its_own)},
    "eval": {"wrap": DDP, "policy": rote.ProbePolicy(batch=7, mode="eval")},
}

MOMENTS: dict[str, dict[str, Any]] = {
    "half_accumulated": {"moment": "half_accumulated", "accumulating": _accumulating},
    "before_backward": {"moment": "before_backward"},
    "before_step": {"moment": "before_step"},
}


def _untouched(folder: Path, **options: Any) -> None:
    check_without_a_trace(partial(Training, **options))


def _bucket_views(folder: Path) -> None:
    wrap = partial(DDP, gradient_as_bucket_view=True)
    training = Training(wrap, "sgd").run(probed=True, steps=2)
    places = [p.grad.data_ptr() for p in training.model.parameters()]
    views = [p.grad for p in training.model.parameters()]
    training.tracker.probe()
    assert [p.grad.data_ptr() for p in training.model.parameters()] == places
    assert all(p.grad is v for p, v in zip(training.model.parameters(), views, strict=True))
    assert all(v._base is not None for v in views), "gradients were no views of buckets"


def _against_oracle(folder: Path, optimizer_name: str) -> None:
    """Every rank's drop after a deep copy of its own; the reading is their mean."""
    training = Training(DDP, optimizer_name).run(probed=True, steps=3)
    module, batch = unwrap(training.model), training.tracker.batch
    for rule, name in (("live", "drop"), (0.01, "drop_plain")):
        mine = oracle_losses(module, training.optimizer, batch.inputs, batch.labels, rule=rule)
        everyones = gathered(mine)
        drops = [before - after for before, after in everyones]
        assert drops[0] != drops[1], "dropout masks should differ from rank to rank"
        reading = training.tracker.probe()
        assert abs(getattr(reading, name) - sum(drops) / len(drops)) < 1e-12
        assert abs(reading.loss_before - sum(b for b, _ in everyones) / len(drops)) < 1e-12


def _reentrant_checkpoints(folder: Path) -> None:
    wrap = partial(DDP, static_graph=True)
    training = Training(wrap, "sgd", build=partial(Checkpointed, reentrant=True))
    with pytest.raises(rote.InputError, match="use_reentrant=True"):
        training.run(probed=True)


PAIRS: dict[str, Callable[[Path], None]] = {
    f"{name}-{optimizer}": partial(_untouched, optimizer_name=optimizer, **options)
    for name, options in WRAPPED.items()
    for optimizer in OPTIMIZERS
}

CASES: dict[str, Callable[[Path], None]] = {
    **in_turn(PAIRS),
    **{
        f"{moment}-{name}": partial(_untouched, optimizer_name="sgd", **WRAPPED[name], **options)
        for moment, options in MOMENTS.items()
        for name in ("plain", "bucket_view", "static_graph", "unused_parameters")
        if not (name == "static_graph" and moment == "half_accumulated")
    },
    "bucket views stay": _bucket_views,
    "reading-sgd": partial(_against_oracle, optimizer_name="sgd"),
    "reading-adamw": partial(_against_oracle, optimizer_name="adamw"),
    "reentrant checkpoints": _reentrant_checkpoints,
}
