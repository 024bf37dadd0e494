"""What Region 1 holds if its thresholds lie elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rote.selection.thresholds import percentile

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates

PERCENTILES = tuple(range(5, 100, 5))


@dataclass(frozen=True)
class Cell:
    """Region 1 for one pair of thresholds.

    Attributes:
        zeta_percentile: percentile of ζ; at most this is resistant.
        train_percentile: percentile of training accuracy; at least this is trainable.
        zeta: ζ at that percentile.
        train: training accuracy at that percentile.
        count: how many checkpoints are both.
        share: of all.
        test_accuracy: the mean of those for which it is known.
    """

    zeta_percentile: int
    train_percentile: int
    zeta: float
    train: float
    count: int
    share: float
    test_accuracy: float | None


@dataclass(frozen=True)
class Mark:
    """Where the thresholds of a rule lie on the map: in percent of the checkpoints."""

    rule: str
    zeta_percentile: float
    train_percentile: float


def sensitivity_map(candidates: Candidates) -> tuple[Cell, ...]:
    """Region 1 for thresholds at every fifth percentile; empty without ζ or training accuracy."""
    known = np.isfinite(candidates.susceptibility) & np.isfinite(candidates.train_accuracy)
    if not known.any():
        return ()
    zeta, train = candidates.susceptibility[known], candidates.train_accuracy[known]
    test = candidates.test_accuracy[known]
    has_test = np.isfinite(test)
    cells = []
    train_percentiles = [(high, percentile(train, high)) for high in PERCENTILES]
    for low in PERCENTILES:
        zeta_at = percentile(zeta, low)
        resistant = zeta <= zeta_at
        for high, train_at in train_percentiles:
            both = resistant & (train >= train_at)
            count, tested = int(both.sum()), both & has_test
            mean = float(test[tested].mean()) if tested.any() else None
            cells.append(Cell(low, high, zeta_at, train_at, count, count / len(zeta), mean))
    return tuple(cells)


def mark_of(candidates: Candidates, rule: str, thresholds: Mapping[str, float]) -> Mark:
    """Which share of the checkpoints the thresholds of a rule leave below them."""
    known = np.isfinite(candidates.susceptibility) & np.isfinite(candidates.train_accuracy)
    below = (candidates.susceptibility[known] <= thresholds["susceptibility"]).mean()
    weaker = (candidates.train_accuracy[known] < thresholds["train_accuracy"]).mean()
    return Mark(rule, 100 * float(below), 100 * float(weaker))
