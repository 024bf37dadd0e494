"""The paper's rule: mean ζ and mean training accuracy make four regions; pick from the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.arguments import check_choice
from rote.selection.regions import paper_thresholds
from rote.selection.rules.region_one import PREFERENCES, Preference, judge_region_one

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Decision


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
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = True
    divides_by: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    order: ClassVar[int] = 100

    def __post_init__(self) -> None:
        check_choice("prefer", self.prefer, PREFERENCES)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the preferred checkpoint of Region 1."""
        words = dict.fromkeys(("susceptibility", "train_accuracy"), "its mean")
        return judge_region_one(candidates, paper_thresholds(candidates), words, self.prefer)
