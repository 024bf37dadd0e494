"""Label Wave: the share of training samples whose prediction changed since the last epoch.

Yuan, Feng and Liu, "Early Stopping Against Label Noise Without Validation Data", ICLR 2024.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rote.arguments import check_integer
from rote.records import Column
from rote.tracking import Batch, Signal, WaitingBatches

_UNSEEN = -1


class LabelWave(Signal):
    """PC′(t), the mean over the last k epochs of the share of samples whose prediction changed.

    Predictions are those of the training's own forward passes. Where PC′ is lowest, the network
    fits the right labels and has not begun with the wrong ones. Nothing is read before k changes
    are known. ``label_wave_patient`` is the same until Label Wave would have stopped the training:
    its lowest value is the checkpoint that the paper's rule keeps.

    Args:
        k: over how many epochs the changes are averaged.
        patience: after how many readings without a new lowest one training would stop; the paper
            gives no number.

    Raises:
        InputError: if k or the patience is not positive.
    """

    name = "label_wave"
    draws = False
    columns = (
        Column(
            "label_wave",
            "share of changed predictions",
            "signal",
            "share",
            better="lower",
            rule="min:label_wave",
        ),
        Column(
            "label_wave_patient",
            "share of changed predictions until it rises",
            unit="share",
            better="lower",
            rule="min:label_wave_patient",
        ),
    )

    def __init__(self, k: int = 3, patience: int = 5) -> None:
        self._changes: deque[float] = deque(maxlen=check_integer("k", k, least=1))
        self._patience = check_integer("patience", patience, least=1)
        self._lowest, self._waited = float("inf"), 0
        self._waiting = WaitingBatches()
        self._before = self._now = torch.empty(0, dtype=torch.int64)

    def observe(self, batch: Batch) -> None:
        """Record the prediction for every sample.

        Raises:
            InputError: if the loop does not say which samples they are.
        """
        batch.places(self.name)
        if self._waiting.add(batch):
            self._note()

    def _note(self) -> None:
        waiting = self._waiting.take()
        if waiting is None:
            return
        at = waiting.places(self.name).cpu()
        self._now = _pad(self._now, int(at.max()) + 1 if len(at) else 0)
        # NumPy promises that of a sample that was seen twice the later one counts.
        self._now.numpy()[at.numpy()] = waiting.predicted.cpu().numpy()

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """PC′, once it is known."""
        self._note()
        before = _pad(self._before, len(self._now))
        seen = (before != _UNSEEN) & (self._now != _UNSEEN)
        if bool(seen.any()):
            self._changes.append(float((before != self._now)[seen].double().mean()))
        # A sample that is left out of an epoch is as it was.
        self._before = torch.where(self._now == _UNSEEN, before, self._now)
        self._now = torch.full_like(self._now, _UNSEEN)
        if len(self._changes) < (self._changes.maxlen or 0):
            return {}
        wave = sum(self._changes) / len(self._changes)
        if self._waited >= self._patience:
            return {"label_wave": wave}
        self._waited = 0 if wave < self._lowest else self._waited + 1
        self._lowest = min(wave, self._lowest)
        return {"label_wave": wave, "label_wave_patient": wave}

    def state_dict(self) -> dict[str, Any]:
        """Return the last predictions, the last changes, and how long none was lower."""
        self._note()
        return {
            "before": self._before,
            "now": self._now,
            "changes": list(self._changes),
            "lowest": self._lowest,
            "waited": self._waited,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""
        self._waiting.clear()
        self._before, self._now = state["before"].clone(), state["now"].clone()
        self._lowest, self._waited = state["lowest"], state["waited"]
        self._changes.clear()
        self._changes.extend(state["changes"])


def _pad(predictions: Tensor, size: int) -> Tensor:
    missing = size - len(predictions)
    return (
        predictions if missing <= 0 else torch.cat([predictions, torch.full((missing,), _UNSEEN)])
    )


SIGNAL = LabelWave
