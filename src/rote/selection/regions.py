"""The paper's four regions: thresholds, membership, and means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

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
    """The content of one region; means of an empty region are None.

    Attributes:
        region: 1 trainable and resistant, 2 trainable only, 3 resistant only, 4 neither.
        count: the number of checkpoints.
        train_accuracy: their mean training accuracy.
        susceptibility: their mean ζ.
        test_accuracy: the mean test accuracy of those for which it is known.
    """

    region: int
    count: int
    train_accuracy: float | None
    susceptibility: float | None
    test_accuracy: float | None


def mean(values: Floats) -> float:
    """Return the mean; not outside the values by a rounding error, so that equal ones are at it."""
    return min(max(float(values.mean()), float(values.min())), float(values.max()))


def percentile(values: Floats, percent: float) -> float:
    """Return the value below which this percentage lies, interpolated linearly."""
    return float(np.percentile(values, percent))


def compute_paper_thresholds(candidates: Candidates) -> dict[str, float]:
    """Return the means of ζ and of training accuracy over the checkpoints that have both.

    Empty if there are none.
    """
    known = candidates.known("zeta", "train_accuracy")
    if not known.any():
        return {}
    return {
        "susceptibility": mean(candidates.zeta[known]),
        "train_accuracy": mean(candidates.values("train_accuracy")[known]),
    }


def is_resistant(candidates: Candidates, threshold: float) -> Booleans:
    """Return whether ζ is at most the threshold."""
    return candidates.zeta <= threshold


def is_trainable(candidates: Candidates, threshold: float) -> Booleans:
    """Return whether the training accuracy is at least the threshold."""
    return candidates.values("train_accuracy") >= threshold


def find_regions(candidates: Candidates, thresholds: Mapping[str, float]) -> npt.NDArray[np.int8]:
    """Return the region of every candidate, 0 for those without ζ or training accuracy."""
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        return np.zeros(len(candidates), dtype=np.int8)
    resistant = is_resistant(candidates, thresholds["susceptibility"])
    trainable = is_trainable(candidates, thresholds["train_accuracy"])
    region = 1 + (~resistant).astype(np.int8) + 2 * (~trainable).astype(np.int8)
    return np.asarray(region * candidates.known("zeta", "train_accuracy"), dtype=np.int8)


def summarize(candidates: Candidates, region: npt.NDArray[np.int8]) -> tuple[RegionSummary, ...]:
    """Return the four regions in order."""
    counts = np.bincount(region, minlength=len(REGIONS) + 1)
    train = _average_regions(candidates.values("train_accuracy"), region)
    susceptibility = _average_regions(candidates.zeta, region)
    test = _average_regions(candidates.values("test_accuracy"), region)
    return tuple(
        RegionSummary(n, int(counts[n]), train[n], susceptibility[n], test[n]) for n in REGIONS
    )


def _average_regions(values: Floats, region: npt.NDArray[np.int8]) -> list[float | None]:
    """Return the mean of the known values in every region."""
    known = np.isfinite(values)
    if not known.all():
        region, values = region[known], values[known]
    size = len(REGIONS) + 1
    counts = np.bincount(region, minlength=size)
    sums = np.bincount(region, weights=values, minlength=size)
    return [float(total / n) if n else None for total, n in zip(sums, counts, strict=True)]
