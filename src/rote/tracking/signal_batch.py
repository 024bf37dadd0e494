"""What signals see of the training: a batch, and batches that wait to be looked at together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from rote.errors import InputError
from rote.probe import Inputs

AT_ONCE = 2**16
"""Logits: few large steps cost less than one for every batch."""


@dataclass(frozen=True)
class Batch:
    """What a loop knows of one batch that it trained on; tensors are detached.

    Attributes:
        labels: the given labels.
        logits: what the network said, in train mode, before the step.
        inputs: the samples.
        indices: which samples of the training set they are.
        loss: of the batch, or one per sample.
    """

    labels: Tensor
    logits: Tensor
    inputs: Inputs | None = None
    indices: Tensor | None = None
    loss: Tensor | None = None

    def check_rows(self, signal: str) -> None:
        """Refuse labels that are not one class per row of logits.

        Raises:
            InputError: naming the signal.
        """
        labels, logits = self.labels, self.logits
        if labels.is_floating_point() or logits.shape[:-1] != labels.shape:
            raise InputError(
                f"Expected one class per row of logits for signal `{signal}`, got labels of shape "
                f"{tuple(labels.shape)} and {labels.dtype}, logits of shape {tuple(logits.shape)}."
            )

    def rows(self, signal: str) -> tuple[Tensor, Tensor]:
        """The logits and their labels, one row per label; ignored labels are left out.

        Raises:
            InputError: if a label is not one class.
        """
        self.check_rows(signal)
        found = self.counted
        return found.logits.flatten(0, -2), found.labels.flatten()

    def places(self, signal: str) -> Tensor:
        """Which samples of the training set they are.

        Raises:
            InputError: if the loop does not say, or a sample has more than one label.
        """
        if self.indices is None:
            raise InputError(
                f"Expected `indices` to be handed to tracker.observe for signal `{signal}`, got "
                "None: it compares what is predicted for one sample in two epochs."
            )
        if self.logits.dim() != 2:
            raise InputError(
                f"Expected one row of logits per sample for signal `{signal}`, got shape "
                f"{tuple(self.logits.shape)}."
            )
        return self.indices.to(self.logits.device)

    @property
    def counted(self) -> Batch:
        """The rows whose label is not ignored; the batch itself where none is."""
        return self._counted or self

    @cached_property
    def _counted(self) -> Batch | None:
        if not self.labels.numel() or int(self.labels.min()) >= 0:
            return None  # and not itself, which would then live until the garbage is collected
        chosen, at = self.labels >= 0, self.indices
        if at is not None:
            at = at[chosen] if at.shape == chosen.shape else None
        return Batch(self.labels[chosen], self.logits[chosen], indices=at)

    @cached_property
    def predicted(self) -> Tensor:
        """The class of the largest logit of every row."""
        return self.logits.argmax(-1)

    @cached_property
    def shares(self) -> Tensor:
        """The probabilities of the classes, for every row."""
        return self.logits.float().softmax(-1)

    @cached_property
    def kept(self) -> Batch:
        """A copy of labels, logits and indices, a row per label: loops use their tensors again.

        Not a copy where it is so large that it will not wait.
        """
        labels, logits = self.labels.flatten(0, self.logits.dim() - 2), self.logits.flatten(0, -2)
        at = None if self.indices is None else self.indices.to(logits.device)
        if logits.numel() >= AT_ONCE:
            return Batch(labels, logits, indices=at)
        return Batch(labels.clone(), logits.clone(), indices=None if at is None else at.clone())

    @cached_property
    def _joined(self) -> dict[tuple[int, ...], Batch]:
        """It with those before it, by which they are: whoever asks second finds it here."""
        return {}


class WaitingBatches:
    """Batches that wait to be looked at as one.

    Signals that have the same ones waiting are handed the same batch, and share what it works out.
    """

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._logits = 0

    def add(self, batch: Batch) -> bool:
        """Let a batch wait.

        Returns:
            Whether there are enough, and they must be taken now.
        """
        self._batches.append(batch.kept)
        self._logits += batch.logits.numel()
        return self._logits >= AT_ONCE

    def take(self) -> Batch | None:
        """All that wait, as one; None where none does."""
        batches = self._batches
        self.clear()
        return _joined(batches) if batches else None

    def clear(self) -> None:
        """Forget them."""
        self._batches, self._logits = [], 0


def _joined(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    found = batches[-1]._joined
    key = tuple(map(id, batches))
    if key not in found:
        at = [batch.indices for batch in batches if batch.indices is not None]
        found[key] = Batch(
            torch.cat([batch.labels for batch in batches]),
            torch.cat([batch.logits for batch in batches]),
            indices=torch.cat(at) if len(at) == len(batches) else None,
        )
    return found[key]
