"""Where resistant ends and trainable begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats


def mean(values: Floats) -> float:
    """The mean; not outside the values by a rounding error, so that equal ones are at it."""
    return min(max(float(values.mean()), float(values.min())), float(values.max()))


def percentile(values: Floats, percent: float) -> float:
    """The value below which so many percent lie, interpolated linearly."""
    return float(np.percentile(values, percent))


def paper_thresholds(candidates: Candidates) -> dict[str, float]:
    """The means of ζ and of training accuracy over the checkpoints that have both.

    Empty if there are none.
    """
    known = np.isfinite(candidates.susceptibility) & np.isfinite(candidates.train_accuracy)
    if not known.any():
        return {}
    return {
        "susceptibility": mean(candidates.susceptibility[known]),
        "train_accuracy": mean(candidates.train_accuracy[known]),
    }


def is_resistant(candidates: Candidates, threshold: float) -> Booleans:
    """Whether ζ is at most the threshold."""
    return candidates.susceptibility <= threshold


def is_trainable(candidates: Candidates, threshold: float) -> Booleans:
    """Whether the training accuracy is at least the threshold."""
    return candidates.train_accuracy >= threshold
