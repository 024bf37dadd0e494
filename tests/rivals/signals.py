"""Batches and contexts for signals that are tried without a training run."""

from collections.abc import Callable, Mapping
from dataclasses import replace
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
        _show(whole, batch)
    for batch in batches[:after]:
        _show(first, batch)
    second.load_state_dict(first.state_dict())
    for batch in batches[after:]:
        _show(second, batch)
    return whole.read(1), second.read(1)


def _show(signal: Signal, batch: Batch) -> None:
    """Show a batch as a loop does that uses its tensors again."""
    at = None if batch.indices is None else batch.indices.clone()
    shown = replace(batch, labels=batch.labels.clone(), logits=batch.logits.clone(), indices=at)
    signal.observe(shown)
    for tensor in (shown.labels, shown.logits, at):
        if tensor is not None:
            tensor.zero_()
