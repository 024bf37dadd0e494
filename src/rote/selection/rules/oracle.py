"""What could be had at best, if the truth were known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.formatting import as_percent
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Grade


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
            f"The pick, {candidates.name(pick)}, has the highest test accuracy of "
            f"{len(candidates)} checkpoints: {as_percent(accuracy[pick])}. It needs clean "
            "labels: no rule can do better, and none may use it."
        )
        return Decision(pick, (reason,))
