"""ζ first, then training accuracy judged among the resistant only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.selection.rules.region_one import Preference, check_preference, judge_region_one
from rote.selection.thresholds import is_resistant, mean

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Verdict


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
    needs: ClassVar[tuple[str, ...]] = ("susceptibility", "train_accuracy")
    compares_runs: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_preference(self.prefer)

    def judge(self, candidates: Candidates) -> Verdict:
        """The preferred checkpoint of Region 1."""
        zeta = mean(candidates.susceptibility)
        accuracy = mean(candidates.train_accuracy[is_resistant(candidates, zeta)])
        return judge_region_one(
            candidates,
            {"susceptibility": zeta, "train_accuracy": accuracy},
            {"susceptibility": "its mean", "train_accuracy": "its mean among the resistant"},
            self.prefer,
        )
