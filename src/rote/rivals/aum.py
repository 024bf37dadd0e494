"""AUM: the margin of each sample's given label over the other classes, averaged over training.

Pleiss, Zhang, Elenberg and Weinberger, "Identifying Mislabeled Data using the Area Under the Margin
Ranking", NeurIPS 2020.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rote.arguments import check_integer
from rote.records import Column
from rote.tracking import Batch, Signal, SignalContext, WaitingBatches

_UNSEEN = -1


class Aum(Signal):
    """Per sample, the mean over training of the given label's logit minus the largest other one.

    Low ones are probably wrong labels (``rote suspects``). Beside it, how often the prediction for
    each sample has changed from one epoch to the next, and the strongest other class when it was
    last seen, which ``rote suspects`` proposes as its label.

    Args:
        samples: the size of the training set. Runs of a spec know it; elsewhere the
            numbers per sample are recorded (row files ``aum``, ``aum_rival`` and
            ``prediction_changes``) only if it is given.

    Raises:
        InputError: if it is not positive.
    """

    name = "aum"
    draws = False
    columns = (
        Column("aum", "mean area under the margin", "signal"),
        Column("aum_negative", "samples with a negative area under the margin", unit="share"),
        Column("prediction_changes", "changes of prediction per sample so far"),
    )

    def __init__(self, samples: int | None = None) -> None:
        self._samples = None if samples is None else check_integer("samples", samples, least=1)
        self._sums = torch.zeros(0, dtype=torch.float64)
        self._counts, self._changes = (torch.zeros(0, dtype=torch.int64) for _ in range(2))
        self._before, self._rivals = (torch.full((0,), _UNSEEN) for _ in range(2))
        self._waiting = WaitingBatches()

    def start(self, context: SignalContext) -> None:
        """Read the number of training samples."""
        if self._samples is None and context.training_set is not None:
            self._samples = len(context.training_set.labels)
        if self._samples is not None:
            shape = (self._samples,)
            self.row_files = {
                "aum": ("float32", shape),
                "aum_rival": ("int32", shape),
                "prediction_changes": ("uint16", shape),
            }
            self._grow(self._samples, torch.device("cpu"))

    def observe(self, batch: Batch) -> None:
        """Record margin and prediction of every sample."""
        batch.places(self.name)
        batch.check_rows(self.name)
        if self._waiting.add(batch):
            self._count()

    def _count(self) -> None:
        """Add up the recorded values."""
        waiting = self._waiting.take()
        if waiting is None:
            return
        batch = waiting.counted
        at, logits, places = batch.places(self.name), batch.logits, batch.labels[:, None]
        self._grow(int(at.max()) + 1 if len(at) else 0, at.device)
        others, rivals = logits.scatter(1, places, -torch.inf).max(1)
        margins = logits.gather(1, places)[:, 0].double() - others
        self._sums.index_add_(0, at, margins)
        self._counts.index_add_(0, at, torch.ones_like(at))
        self._note_predictions(at, batch.predicted, rivals)

    def _note_predictions(self, at: Tensor, predicted: Tensor, rivals: Tensor) -> None:
        """Compare every prediction with the previous one, which may be in the same batch."""
        order = at.argsort(stable=True)
        sample, now = at[order], predicted[order]
        is_last = torch.ones_like(sample, dtype=torch.bool)
        is_last[:-1] = sample[1:] != sample[:-1]
        before = self._before[sample]
        before[1:] = torch.where(is_last[:-1], before[1:], now[:-1])
        is_changed = (before != now) & (before != _UNSEEN)
        self._changes.index_add_(0, sample, is_changed.long())
        self._before[sample[is_last]] = now[is_last]
        self._rivals[sample[is_last]] = rivals[order][is_last]

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return means over the samples that were seen."""
        self._count()
        seen = self._counts > 0
        if not bool(seen.any()):
            return {}
        areas = self._sums[seen] / self._counts[seen]
        return {
            "aum": float(areas.mean()),
            "aum_negative": float((areas < 0).double().mean()),
            "prediction_changes": float(self._changes[seen].double().mean()),
        }

    def rows(self) -> Mapping[str, np.ndarray]:
        """Return the values per sample: NaN, or −1 as a class, where it was never seen."""
        if not self.row_files:
            return {}
        changes = self._changes.clamp(max=np.iinfo(np.uint16).max)
        return {
            "aum": (self._sums / self._counts).float().cpu().numpy(),
            "aum_rival": self._rivals.cpu().numpy().astype(np.int32),
            "prediction_changes": changes.cpu().numpy().astype(np.uint16),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return sums, counts, changes, last predictions and last strongest other classes."""
        self._count()
        return {
            "sums": self._sums,
            "counts": self._counts,
            "changes": self._changes,
            "before": self._before,
            "rivals": self._rivals,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._sums, self._counts = state["sums"].clone(), state["counts"].clone()
        self._changes, self._before = state["changes"].clone(), state["before"].clone()
        self._rivals = state["rivals"].clone()

    def _grow(self, size: int, device: torch.device) -> None:
        if size <= len(self._sums) and device == self._sums.device:
            return
        self._sums = _pad(self._sums, size, 0).to(device)
        self._counts = _pad(self._counts, size, 0).to(device)
        self._changes = _pad(self._changes, size, 0).to(device)
        self._before = _pad(self._before, size, _UNSEEN).to(device)
        self._rivals = _pad(self._rivals, size, _UNSEEN).to(device)


def _pad(values: Tensor, size: int, filling: int) -> Tensor:
    missing = size - len(values)
    return values if missing <= 0 else torch.cat([values, values.new_full((missing,), filling)])


SIGNAL = Aum
