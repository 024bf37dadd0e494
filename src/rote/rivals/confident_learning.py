"""Confident learning: given labels that contradict a confident prediction.

Northcutt, Jiang and Chuang, "Confident Learning: Estimating Uncertainty in Dataset Labels", JAIR
2021; the same samples as cleanlab's ``find_label_issues(filter_by="confident_learning")``.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from rote.arguments import check_integer
from rote.records import Column
from rote.tracking import Batch, Signal, SignalContext, WaitingBatches

_NEARLY = 1e-6


class ConfidentLearning(Signal):
    """Find the training labels that are off the diagonal of the confident joint.

    Probabilities are those of the training's own forward passes since the last reading: of a
    network that has been trained on the same labels before, and confirms them once they are
    memorized. Early readings tell more.

    Args:
        samples: the size of the training set. Runs of a spec know it; elsewhere, the row file
            ``confident_learning`` is written only if it is given.

    Raises:
        InputError: if it is not positive.
    """

    name = "confident_learning"
    draws = False
    columns = (Column("confident_learning", "labels off the confident joint", "signal", "share"),)

    def __init__(self, samples: int | None = None) -> None:
        self._samples = None if samples is None else check_integer("samples", samples, least=1)
        self._waiting = WaitingBatches()
        self._seen: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = []
        self._row = np.empty(0, np.float32)

    def start(self, context: SignalContext) -> None:
        """Read the number of training samples."""
        if self._samples is None and context.training_set is not None:
            self._samples = len(context.training_set.labels)
        if self._samples is not None:
            self.row_files = {"confident_learning": ("float32", (self._samples,))}

    def observe(self, batch: Batch) -> None:
        """Record the probabilities of every sample."""
        batch.places(self.name)
        batch.check_rows(self.name)
        if self._waiting.add(batch):
            self._note()

    def _note(self) -> None:
        waiting = self._waiting.take()
        if waiting is not None:
            batch = waiting.counted
            at = batch.places(self.name)
            self._seen.append((at.cpu(), batch.labels.cpu(), batch.shares.cpu()))

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the share of labels that lose against another class."""
        self._note()
        seen, self._seen = self._seen, []
        self._row = np.full(self._samples or 0, np.nan, np.float32)
        if not seen:
            return {}
        at, labels, shares = (torch.cat(part).numpy() for part in zip(*seen, strict=True))
        # Of a sample that was seen twice the later one counts.
        rows = np.full(at.max(initial=-1) + 1, -1)
        rows[at] = np.arange(len(at))
        last = rows[rows >= 0]
        margins = compute_losing_margins(labels[last], shares[last])
        if self._samples is not None:
            self._row[at[last]] = margins
        return {"confident_learning": float(np.isfinite(margins).mean())}

    def rows(self) -> Mapping[str, np.ndarray]:
        """Return the margin by which a label loses against the confident class; NaN if it wins."""
        return {"confident_learning": self._row} if self.row_files else {}

    def state_dict(self) -> dict[str, Any]:
        """Return the values recorded since the last reading."""
        self._note()
        return {"seen": [list(part) for part in self._seen]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._seen = [(at, labels, shares) for at, labels, shares in state["seen"]]


def compute_losing_margins(labels: np.ndarray, shares: np.ndarray) -> NDArray[np.float32]:
    """Return how far the probability of each label is below that of the confident class.

    A class is confident where its probability is at least its mean over the samples that are given
    it; of several, the most probable one of all counts.

    Args:
        labels: given, one per sample.
        shares: probabilities, samples × classes.

    Returns:
        NaN where no class is confident, or the given one is.
    """
    samples, classes = np.arange(len(labels)), shares.shape[1]
    own = shares[samples, labels]
    counts = np.bincount(labels, minlength=classes)
    means = np.bincount(labels, own, classes) / np.maximum(counts, 1)
    is_confident = (shares >= means - _NEARLY) & (counts > 0)
    confident, likeliest = is_confident.sum(1), shares.argmax(1)
    guess = np.where(confident > 1, likeliest, is_confident.argmax(1))
    loses = (confident > 0) & (guess != labels) & (likeliest != labels)
    margins = own - shares[samples, guess]
    return np.where(loses, margins, np.nan).astype(np.float32)


SIGNAL = ConfidentLearning
