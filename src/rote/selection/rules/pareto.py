"""The front of checkpoints that no other beats in both ζ and training accuracy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.formatting import as_percent
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats


@dataclass(frozen=True)
class Pareto:
    """The knee of the front: the point furthest above the line between its two ends.

    Both axes are scaled so that the front spans 0 to 1; the distance is then (a′ − ζ′)/√2. On a
    front that nowhere bulges, both ends are as good; the tie goes to the lower ζ.
    """

    name: ClassVar[str] = "pareto"
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = True
    order: ClassVar[int] = 140

    def judge(self, candidates: Candidates) -> Decision:
        """Select the knee of the front."""
        train = candidates.values("train_accuracy")
        front = is_on_front(candidates.zeta, train)
        zeta = _scaled(candidates.zeta, front)
        accuracy = _scaled(train, front)
        height = np.where(front, (accuracy - zeta) / np.sqrt(2), np.nan)
        pick = candidates.best(height, front)
        what = (
            f"{front.sum()} of {len(candidates)} checkpoints are on the front: no other has both "
            f"lower {candidates.label} and higher training accuracy."
        )
        why = (
            f"The pick, {candidates.name(pick)}, is its knee: ζ of "
            f"{candidates.zeta[pick]:.4g}, training accuracy of "
            f"{as_percent(train[pick])}, {height[pick]:.3f} above the line between the ends (both "
            "axes scaled to 1)."
        )
        return Decision(pick, (what, why), score=height)


def is_on_front(zeta: Floats, accuracy: Floats) -> Booleans:
    """Whether no other has ζ as low and accuracy as high, and one of them better."""
    order = np.argsort(zeta)
    sorted_zeta, sorted_accuracy = zeta[order], accuracy[order]
    # Of equal ζ, the best accuracy counts; it must beat everything at a lower ζ.
    starts = np.flatnonzero(np.diff(sorted_zeta, prepend=-np.inf) > 0)
    lengths = np.diff(starts, append=len(order))
    best = np.maximum.reduceat(sorted_accuracy, starts)
    best_before = np.append(-np.inf, np.maximum.accumulate(best)[:-1])
    is_best = sorted_accuracy == np.repeat(best, lengths)
    front = np.empty(len(order), dtype=np.bool_)
    front[order] = is_best & np.repeat(best > best_before, lengths)
    return front


def _scaled(values: Floats, front: Booleans) -> Floats:
    low, high = values[front].min(), values[front].max()
    return np.asarray((values - low) / (high - low)) if high > low else np.zeros(len(values))
