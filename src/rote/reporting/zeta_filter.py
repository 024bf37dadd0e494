"""The paper's filter: checkpoints with ζ at most its median stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rote.selection.thresholds import is_resistant, percentile

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates


@dataclass(frozen=True)
class ZetaFilter:
    """Which checkpoints the filter keeps, of those with ζ, training and test accuracy.

    Attributes:
        threshold: the median of ζ.
        known: which checkpoints have all three.
        kept: which of those stay.
    """

    threshold: float
    known: Booleans
    kept: Booleans


def zeta_filter(candidates: Candidates) -> ZetaFilter | None:
    """The filter, None if no checkpoint has all three values."""
    known = (
        np.isfinite(candidates.susceptibility)
        & np.isfinite(candidates.train_accuracy)
        & np.isfinite(candidates.test_accuracy)
    )
    if not known.any():
        return None
    threshold = percentile(candidates.susceptibility[known], 50)
    return ZetaFilter(threshold, known, known & is_resistant(candidates, threshold))
