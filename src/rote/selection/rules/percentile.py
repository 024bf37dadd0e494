"""Regions by percentiles instead of means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.arguments import check_choice, check_number
from rote.selection.regions import percentile
from rote.selection.rules.region_one import PREFERENCES, Preference, judge_region_one

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Decision


@dataclass(frozen=True)
class Percentile:
    """Thresholds that leave a given share of the checkpoints on either side.

    Attributes:
        t1: percentile of ζ; at most this is resistant.
        t2: percentile of training accuracy; at least this is trainable. The paper found both best
            between 35 and 55.
        prefer: which checkpoint of Region 1 to keep.

    Raises:
        InputError: if a percentile is not from 0 to 100, or there is no such preference.
    """

    t1: float = 50.0
    t2: float = 50.0
    prefer: Preference = "balance"
    name: ClassVar[str] = "percentile"
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = True
    divides_by: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    order: ClassVar[int] = 130

    def __post_init__(self) -> None:
        check_choice("prefer", self.prefer, PREFERENCES)
        check_number("t1", self.t1, least=0, most=100)
        check_number("t2", self.t2, least=0, most=100)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the preferred checkpoint of Region 1."""
        return judge_region_one(
            candidates,
            {
                "susceptibility": percentile(candidates.zeta, self.t1),
                "train_accuracy": percentile(candidates.values("train_accuracy"), self.t2),
            },
            {
                "susceptibility": f"percentile {self.t1:g} of it",
                "train_accuracy": f"percentile {self.t2:g} of it",
            },
            self.prefer,
        )
