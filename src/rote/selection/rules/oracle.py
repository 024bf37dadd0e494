"""What could be had at best, if the truth were known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.selection.rule import Verdict

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates


@dataclass(frozen=True)
class Oracle:
    """The highest accuracy on the clean test set: a bound to compare with, not a way to select."""

    name: ClassVar[str] = "oracle"
    needs: ClassVar[tuple[str, ...]] = ("test_accuracy",)
    compares_runs: ClassVar[bool] = False

    def judge(self, candidates: Candidates) -> Verdict:
        """The highest test accuracy."""
        pick = candidates.best(candidates.test_accuracy)
        reason = (
            f"The pick, {candidates.name(pick)}, has the highest test accuracy of "
            f"{len(candidates)} checkpoints: {candidates.test_accuracy[pick]:.2%}. It needs clean "
            "labels: no rule can do better, and none may use it."
        )
        return Verdict(pick, (reason,))
