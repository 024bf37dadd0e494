"""Baselines: the last checkpoint, and the best one by the true labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.formatting import format_share
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Grade


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
        reasons = [
            f"The selected checkpoint, {candidates.name(pick)}, is the last checkpoint of its run."
        ]
        if len(ends) > 1:
            is_trained = np.isfinite(candidates.values("train_accuracy")[pick])
            which = "highest training accuracy" if is_trained else f"lowest {candidates.label}"
            if is_trained or np.isfinite(candidates.zeta[pick]):
                reasons.append(f"Of the last checkpoints of {len(ends)} runs it has the {which}.")
            else:
                reasons.append(
                    f"No metric tells which of the {len(ends)} runs is better: this is the first "
                    "by name."
                )
        return Decision(pick, tuple(reasons))


@dataclass(frozen=True)
class Oracle:
    """The highest accuracy on the clean test set: a bound to compare with, not a way to select."""

    name: ClassVar[str] = "oracle"
    needs: ClassVar[tuple[str, ...]] = ("test_accuracy",)
    compares_runs: ClassVar[bool] = False
    evidence: ClassVar[Grade] = "strong"
    is_baseline: ClassVar[bool] = True
    order: ClassVar[int] = 910

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest test accuracy."""
        accuracy = candidates.values("test_accuracy")
        pick = candidates.best(accuracy)
        reason = (
            f"The selected checkpoint, {candidates.name(pick)}, has the highest test accuracy of "
            f"{len(candidates)} checkpoints: {format_share(accuracy[pick])}. It needs clean "
            "labels: no rule can do better, and none may use it."
        )
        return Decision(pick, (reason,))
