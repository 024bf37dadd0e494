"""The paper's rule: mean ζ and mean training accuracy make four regions; pick from the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.selection.rules.region_one import Preference, check_preference, judge_region_one
from rote.selection.thresholds import paper_thresholds

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Verdict


@dataclass(frozen=True)
class Regions:
    """Thresholds are the means over all checkpoints; Region 1 is trainable and resistant.

    It can collapse: where many checkpoints have memorized, the mean training accuracy is above
    what a resistant one reaches, and Region 1 is empty or holds a few that are half memorized.

    Attributes:
        prefer: which checkpoint of Region 1 to keep.

    Raises:
        InputError: if there is no such preference.
    """

    prefer: Preference = "balance"
    name: ClassVar[str] = "regions"
    needs: ClassVar[tuple[str, ...]] = ("susceptibility", "train_accuracy")
    compares_runs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_preference(self.prefer)

    def judge(self, candidates: Candidates) -> Verdict:
        """The preferred checkpoint of Region 1."""
        words = dict.fromkeys(self.needs, "its mean")
        return judge_region_one(candidates, paper_thresholds(candidates), words, self.prefer)
