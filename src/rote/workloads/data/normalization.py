"""Zero mean and unit deviation by the statistics of the training set."""

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from rote.workloads.data.dataset import Array, Labels
from rote.workloads.spec import InputKind

_ROWS_AT_ONCE = 4096


@dataclass(frozen=True, eq=False)
class Normalization:
    """x · scale + shift, elementwise.

    Attributes:
        scale: one over the deviation; of the shape of a sample.
        shift: minus the mean over the deviation.
    """

    scale: Tensor
    shift: Tensor

    def __call__(self, rows: Tensor) -> Tensor:
        """Normalize samples of any number type."""
        return torch.addcmul(self.shift, rows.float(), self.scale)

    def to(self, device: torch.device) -> "Normalization":
        """The same on a device."""
        return Normalization(self.scale.to(device), self.shift.to(device))


def normalization_of(kind: InputKind, samples: Array, places: Labels) -> Normalization | None:
    """Measure the samples of the training set.

    Args:
        kind: images are measured per channel and features per column; words and tokens are left
            as they are.
        samples: (samples, …, channels or columns); may be mapped from disk.
        places: which of them are used, in ascending order.

    Returns:
        The normalization, or None.
    """
    if kind not in ("images", "features"):
        return None
    width = samples.shape[-1]
    count, total, squares = 0, np.zeros(width), np.zeros(width)
    for start in range(0, len(places), _ROWS_AT_ONCE):
        chosen = samples[places[start : start + _ROWS_AT_ONCE]]
        block = np.asarray(chosen, dtype=np.float64).reshape(-1, width)
        count += len(block)
        total += block.sum(axis=0)
        squares += (block**2).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0.0))
    # A column that never changes, up to rounding, says nothing: leave its scale alone.
    deviation[deviation <= 1e-7 * np.abs(mean)] = 1.0
    deviation[deviation == 0] = 1.0
    # As large as a sample, so that torch works through a batch in long strides.
    scale = np.broadcast_to(1 / deviation, samples.shape[1:])
    shift = np.broadcast_to(-mean / deviation, samples.shape[1:])
    return Normalization(
        torch.from_numpy(scale.astype(np.float32, order="C")),
        torch.from_numpy(shift.astype(np.float32, order="C")),
    )
