"""Sums between neighboring thresholds: enough to count and average every region exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rote.selection import Candidates, Floats


@dataclass(frozen=True)
class RegionSums:
    """What lies between thresholds, of all checkpoints with ζ and training accuracy.

    Attributes:
        zeta: thresholds of ζ, increasing.
        train: thresholds of training accuracy, increasing.
        sums: how many checkpoints, the sums of ζ, training and test accuracy, and how many have a
            test accuracy; each thresholds of ζ + 1 × thresholds of training accuracy + 1. ζ is at
            most threshold k in cells 0 to k; training accuracy is at least threshold k in cells
            k + 1 to the last.
    """

    zeta: Floats
    train: Floats
    sums: Floats

    def region_one(self) -> Floats:
        """The sums over Region 1 for every threshold of ζ × every one of training accuracy."""
        resistant = self.sums.cumsum(axis=1)[:, :-1]
        return np.asarray(resistant[:, :, ::-1].cumsum(axis=2)[:, :, -2::-1])


def region_sums(candidates: Candidates, zeta: Floats, train: Floats) -> RegionSums:
    """The sums between thresholds, which may come in any order."""
    zeta, train = np.sort(zeta), np.sort(train)
    known = candidates.known("zeta", "train_accuracy")
    names = ("zeta", "train_accuracy", "test_accuracy")
    values = [candidates.values(name)[known] for name in names]
    cell = np.searchsorted(zeta, values[0], side="left") * (len(train) + 1)
    cell += np.searchsorted(train, values[1], side="right")
    shape = (len(zeta) + 1, len(train) + 1)
    is_tested = np.isfinite(values[2])
    tested = cell[is_tested]

    def summed(cells: np.ndarray, weights: Floats | None = None) -> Floats:
        found = np.bincount(cells, weights, minlength=shape[0] * shape[1])
        return np.asarray(found.reshape(shape), dtype=np.float64)

    sums = [summed(cell), summed(cell, values[0]), summed(cell, values[1])]
    sums += [summed(tested, values[2][is_tested]), summed(tested)]
    return RegionSums(zeta, train, np.stack(sums))
