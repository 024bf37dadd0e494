"""Batches and contexts for signals that are tried without a training run."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

import rote
from rote.tracking import Batch, Signal, SignalContext


def context_of(model: nn.Module, inputs: Tensor, classes: int, **more: Any) -> SignalContext:
    """What a tracker of a model on these inputs would tell a signal."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    labels = torch.zeros(len(inputs), dtype=torch.int64)
    policy = rote.ProbePolicy()
    return SignalContext(model, optimizer, classes, policy, None, inputs, labels, **more)


def over_a_copy(
    make: Callable[[], Signal], batches: list[Batch], *, after: int
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """Readings of one signal that sees all batches, and of one that takes over from its state."""
    whole, first, second = make(), make(), make()
    for batch in batches:
        whole.observe(batch)
    for batch in batches[:after]:
        first.observe(batch)
    second.load_state_dict(first.state_dict())
    for batch in batches[after:]:
        second.observe(batch)
    return whole.read(1), second.read(1)
