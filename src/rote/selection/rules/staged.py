"""ζ first, then training accuracy judged among the resistant only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.arguments import check_choice
from rote.selection.regions import is_resistant, mean
from rote.selection.rules.region_one import PREFERENCES, Preference, judge_region_one

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Decision


@dataclass(frozen=True)
class Staged:
    """Resistant: ζ at most its mean. Trainable: at least the mean training accuracy of those.

    Region 1 is never empty.

    Attributes:
        prefer: which checkpoint of Region 1 to keep.

    Raises:
        InputError: if there is no such preference.
    """

    prefer: Preference = "balance"
    name: ClassVar[str] = "staged"
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = True
    divides_by: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    order: ClassVar[int] = 110

    def __post_init__(self) -> None:
        check_choice("prefer", self.prefer, PREFERENCES)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the preferred checkpoint of Region 1."""
        zeta = mean(candidates.zeta)
        accuracy = mean(candidates.values("train_accuracy")[is_resistant(candidates, zeta)])
        return judge_region_one(
            candidates,
            {"susceptibility": zeta, "train_accuracy": accuracy},
            {"susceptibility": "its mean", "train_accuracy": "its mean among the resistant"},
            self.prefer,
        )
