"""No rule at all: train to the end, keep the last checkpoint."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates


@dataclass(frozen=True)
class Last:
    """The last checkpoint; of several runs, the one with the highest training accuracy."""

    name: ClassVar[str] = "last"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False
    is_baseline: ClassVar[bool] = True
    order: ClassVar[int] = 900

    def judge(self, candidates: Candidates) -> Decision:
        """Select the last checkpoint."""
        ends = candidates.last()
        pick = candidates.best(candidates.values("train_accuracy"), ends)
        reasons = [f"The pick, {candidates.name(pick)}, is the last checkpoint of its run."]
        if len(ends) > 1:
            is_trained = np.isfinite(candidates.values("train_accuracy")[pick])
            which = "highest training accuracy" if is_trained else f"lowest {candidates.label}"
            if is_trained or np.isfinite(candidates.zeta[pick]):
                reasons.append(f"Of the last checkpoints of {len(ends)} runs it has the {which}.")
            else:
                reasons.append(
                    f"Of the {len(ends)} runs nothing tells which of them is better: it is the "
                    "first by name."
                )
        return Decision(pick, tuple(reasons))
