"""Label Wave: how many training samples are predicted otherwise than an epoch ago.

Yuan, Feng and Liu, "Early Stopping Against Label Noise Without Validation Data", ICLR 2024.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from rote.arguments import check_integer
from rote.errors import InputError
from rote.records import Column
from rote.tracking import Batch, Signal

_UNSEEN = -1


class LabelWave(Signal):
    """PC′(t), the mean over the last k epochs of the share of samples whose prediction changed.

    Predictions are those of the training's own forward passes. Where PC′ is lowest, the network
    fits the right labels and has not begun with the wrong ones. Nothing is read before k changes
    are known.

    Args:
        k: over how many epochs the changes are averaged.

    Raises:
        InputError: if k is not positive.
    """

    name = "label_wave"
    columns = (
        Column(
            "label_wave",
            "share of changed predictions",
            "signal",
            "share",
            better="lower",
            rule="min:label_wave",
        ),
    )

    def __init__(self, k: int = 3) -> None:
        self._changes: deque[float] = deque(maxlen=check_integer("k", k, least=1))
        self._before = self._now = torch.empty(0, dtype=torch.int64)

    def observe(self, batch: Batch) -> None:
        """Note what is predicted for every sample.

        Raises:
            InputError: if the loop does not say which samples they are.
        """
        if batch.indices is None:
            raise InputError(
                "Expected `indices` to be handed to tracker.observe for signal `label_wave`, got "
                "None: it compares what is predicted for one sample in two epochs."
            )
        at = batch.indices.cpu()
        self._now = _padded(self._now, int(at.max()) + 1)
        self._now[at] = batch.logits.argmax(-1).cpu()

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """PC′, once it is known."""
        before = _padded(self._before, len(self._now))
        seen = (before != _UNSEEN) & (self._now != _UNSEEN)
        if bool(seen.any()):
            self._changes.append(float((before != self._now)[seen].double().mean()))
        # A sample that is left out of an epoch is as it was.
        self._before = torch.where(self._now == _UNSEEN, before, self._now)
        self._now = torch.full_like(self._now, _UNSEEN)
        if len(self._changes) < (self._changes.maxlen or 0):
            return {}
        return {"label_wave": sum(self._changes) / len(self._changes)}

    def state_dict(self) -> dict[str, Any]:
        """The last predictions, and the last changes."""
        return {"before": self._before, "now": self._now, "changes": list(self._changes)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""
        self._before, self._now = state["before"].clone(), state["now"].clone()
        self._changes.clear()
        self._changes.extend(state["changes"])


def _padded(predictions: Tensor, size: int) -> Tensor:
    missing = max(0, size - len(predictions))
    return torch.cat([predictions, torch.full((missing,), _UNSEEN)])


SIGNAL = LabelWave
