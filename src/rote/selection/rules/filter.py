"""The paper's filter: drop the half with higher ζ; training accuracy orders the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.selection.regions import is_resistant, percentile
from rote.selection.rule import Decision
from rote.selection.rules.region_one import distance

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates


@dataclass(frozen=True)
class Filter:
    """ζ at most its median stays: half of the checkpoints, and the middle one if it is odd."""

    name: ClassVar[str] = "filter"
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = False
    divides_by: ClassVar[tuple[str, ...]] = ("zeta",)
    order: ClassVar[int] = 120

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest training accuracy among those that stay."""
        thresholds = {"susceptibility": percentile(candidates.zeta, 50)}
        stays = is_resistant(candidates, thresholds["susceptibility"])
        pick = candidates.best(candidates.values("train_accuracy"), stays)
        what = (
            f"{stays.sum()} of {len(candidates)} checkpoints have {candidates.label} of at most "
            f"{thresholds['susceptibility']:.4g}, its median, and stay."
        )
        why = (
            f"The pick, {candidates.name(pick)}, has the highest training accuracy among them: "
            + distance(candidates, pick, thresholds)
        )
        return Decision(pick, (what, why), thresholds)
