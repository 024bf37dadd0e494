"""Cumulative sample loss (CSL): the sum over epochs of every training sample's loss.

Ravikumar, Soufleri, Hashemi and Roy, "Towards Memorization Estimation: Fast, Formal and Free",
ICML 2025.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from rote.arguments import check_integer
from rote.labels import IGNORE_INDEX
from rote.records import Column
from rote.tracking import Batch, Signal, SignalContext, WaitingBatches


class Csl(Signal):
    """Per sample, the sum of the cross entropies of its given label over training.

    The losses are those of the training's own forward passes. Samples with a high sum are probably
    mislabeled (``rote suspects``): right labels are fitted early, wrong ones late or never. The
    loss of a sample with a label per token is the mean over its tokens.

    Args:
        samples: the size of the training set. Runs of a spec know it; elsewhere the
            numbers per sample are recorded (row file ``csl``) only if it is given.

    Raises:
        InputError: if it is not positive.
    """

    name = "csl"
    draws = False
    columns = (Column("csl", "mean cumulative loss per training sample", "signal"),)

    def __init__(self, samples: int | None = None) -> None:
        self._samples = None if samples is None else check_integer("samples", samples, least=1)
        self._sums = torch.zeros(0, dtype=torch.float64)
        self._is_seen = torch.zeros(0, dtype=torch.bool)
        self._waiting = WaitingBatches()

    def start(self, context: SignalContext) -> None:
        """Read the number of training samples."""
        if self._samples is None and context.training_set is not None:
            self._samples = len(context.training_set.labels)
        if self._samples is not None:
            self.row_files = {"csl": ("float32", (self._samples,))}
            self._grow(self._samples, torch.device("cpu"))

    def observe(self, batch: Batch) -> None:
        """Record the loss of every sample."""
        batch.check_rows(self.name)
        if batch.logits.dim() == 3 and batch.indices is not None:
            self.observe_losses(average_token_losses(batch.logits, batch.labels), batch.indices)
            return
        batch.places(self.name)
        if self._waiting.add(batch):
            self._count()

    def observe_losses(self, losses: Tensor, indices: Tensor) -> None:
        """Add up the losses of samples, for batches without logits."""
        is_known = ~losses.isnan()
        self._add(losses[is_known], indices.to(losses.device)[is_known])

    def _count(self) -> None:
        """Add up the losses of the batches that wait."""
        waiting = self._waiting.take()
        if waiting is None:
            return
        batch = waiting.counted
        losses = cross_entropy(batch.logits.float(), batch.labels, reduction="none")
        self._add(losses, batch.places(self.name))

    def _add(self, losses: Tensor, at: Tensor) -> None:
        self._grow(int(at.max()) + 1 if len(at) else 0, at.device)
        self._sums.index_add_(0, at, losses.double())
        self._is_seen[at] = True

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the mean over the samples that were seen."""
        self._count()
        if not bool(self._is_seen.any()):
            return {}
        mean = float(self._sums[self._is_seen].mean())
        return {"csl": mean} if np.isfinite(mean) else {}

    def rows(self) -> Mapping[str, np.ndarray]:
        """Return the sum of every sample; NaN where the sample was never seen."""
        if not self.row_files:
            return {}
        sums = torch.where(self._is_seen, self._sums, torch.nan)
        return {"csl": sums.float().cpu().numpy()}

    def state_dict(self) -> dict[str, Any]:
        """Return the sums, and which samples were seen."""
        self._count()
        return {"sums": self._sums, "is_seen": self._is_seen}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._sums, self._is_seen = state["sums"].clone(), state["is_seen"].clone()

    def _grow(self, size: int, device: torch.device) -> None:
        missing = max(size - len(self._sums), 0)
        if not missing and device == self._sums.device:
            return
        self._sums = torch.cat([self._sums, self._sums.new_zeros(missing)]).to(device)
        self._is_seen = torch.cat([self._is_seen, self._is_seen.new_zeros(missing)]).to(device)


def average_token_losses(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean cross entropy of each row of tokens; NaN where all labels are ignored.

    Example:
        >>> average_token_losses(torch.zeros(2, 3, 4), torch.tensor([[1, 2, -100], [-100] * 3]))
        tensor([1.3863,    nan])
    """
    kept = labels >= 0
    targets = labels.masked_fill(~kept, IGNORE_INDEX)
    losses = cross_entropy(
        logits.float().flatten(0, -2),
        targets.flatten(),
        ignore_index=IGNORE_INDEX,
        reduction="none",
    )
    return losses.reshape(labels.shape).sum(1) / kept.sum(1)


SIGNAL = Csl
