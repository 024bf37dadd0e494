"""The paper's four regions: which checkpoint lies in which, and what they hold on average."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.selection.thresholds import is_resistant, is_trainable

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats

REGIONS = {
    1: "trainable and resistant",
    2: "trainable, not resistant",
    3: "not trainable, resistant",
    4: "neither",
}


@dataclass(frozen=True)
class RegionSummary:
    """What one region holds; a mean over nothing is None.

    Attributes:
        region: 1 trainable and resistant, 2 trainable only, 3 resistant only, 4 neither.
        count: how many checkpoints.
        train_accuracy: their mean training accuracy.
        susceptibility: their mean ζ.
        test_accuracy: the mean test accuracy of those for which it is known.
    """

    region: int
    count: int
    train_accuracy: float | None
    susceptibility: float | None
    test_accuracy: float | None


def regions_of(candidates: Candidates, thresholds: Mapping[str, float]) -> npt.NDArray[np.int8]:
    """The region of every candidate, 0 for those without ζ or training accuracy."""
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        return np.zeros(len(candidates), dtype=np.int8)
    resistant = is_resistant(candidates, thresholds["susceptibility"])
    trainable = is_trainable(candidates, thresholds["train_accuracy"])
    region = np.where(trainable, np.where(resistant, 1, 2), np.where(resistant, 3, 4))
    known = np.isfinite(candidates.susceptibility) & np.isfinite(candidates.train_accuracy)
    return np.where(known, region, 0).astype(np.int8)


def summarise(candidates: Candidates, region: npt.NDArray[np.int8]) -> tuple[RegionSummary, ...]:
    """The four regions in order."""
    return tuple(_summary(candidates, region == number, number) for number in REGIONS)


def _summary(candidates: Candidates, inside: Booleans, number: int) -> RegionSummary:
    return RegionSummary(
        region=number,
        count=int(inside.sum()),
        train_accuracy=_mean(candidates.train_accuracy[inside]),
        susceptibility=_mean(candidates.susceptibility[inside]),
        test_accuracy=_mean(candidates.test_accuracy[inside]),
    )


def _mean(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.mean()) if len(known) else None
