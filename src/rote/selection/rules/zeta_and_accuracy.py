"""Rules that need only ζ and training accuracy: regions, staged, percentile, filter and pareto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, get_args

import numpy as np

from rote.arguments import check_choice, check_number
from rote.formatting import format_share
from rote.selection.regions import (
    compute_paper_thresholds,
    is_resistant,
    is_trainable,
    mean,
    percentile,
)
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats

Preference: TypeAlias = Literal["balance", "accuracy", "resistance"]
"""Which of Region 1 to keep. ``balance``: the largest rank by training accuracy less rank by ζ;
``accuracy``: the highest training accuracy; ``resistance``: the lowest ζ."""

PREFERENCES: tuple[str, ...] = get_args(Preference)

_SUPERLATIVES = {
    "balance": "the best balance of training accuracy and ζ, by rank,",
    "accuracy": "the highest training accuracy",
    "resistance": "the lowest ζ",
}


def judge_region_one(
    candidates: Candidates,
    thresholds: Mapping[str, float],
    words: Mapping[str, str],
    prefer: Preference,
) -> Decision:
    """Select the preferred checkpoint of Region 1.

    If Region 1 is empty, the highest training accuracy among all resistant checkpoints, with a
    warning: training accuracy is what they lack.
    """
    resistant = is_resistant(candidates, thresholds["susceptibility"])
    trainable = is_trainable(candidates, thresholds["train_accuracy"])
    both = resistant & trainable
    is_empty = not both.any()
    choice = "accuracy" if is_empty else prefer
    chosen = resistant if is_empty else both
    pick = candidates.best(_score(candidates, chosen, choice), chosen)
    what = (
        f"Resistant means {candidates.label} of at most {thresholds['susceptibility']:.4g}, "
        f"{words['susceptibility']}; trainable means training accuracy of at least "
        f"{format_share(thresholds['train_accuracy'])}, {words['train_accuracy']}. Region 1 (both) "
        f"has {both.sum()} of {len(candidates)} checkpoint{'s' * (len(candidates) > 1)}."
    )
    where = "among resistant checkpoints" if is_empty else "in Region 1"
    why = (
        f"The selected checkpoint, {candidates.name(pick)}, has {_SUPERLATIVES[choice]} {where}: "
        + (describe_distance(candidates, pick, thresholds))
    )
    warnings: tuple[str, ...] = ()
    if is_empty:
        warnings = (
            "The selected checkpoint is in Region 3, because Region 1 is empty: it is the "
            "resistant checkpoint with the highest training accuracy. Try rule `staged`.",
        )
    return Decision(pick, (what, why), dict(thresholds), warnings)


def describe_distance(candidates: Candidates, pick: int, thresholds: Mapping[str, float]) -> str:
    """Return how far a checkpoint is from the thresholds, in words."""
    accuracy = candidates.values("train_accuracy")[pick]
    zeta = candidates.zeta[pick]
    parts = [format_share(accuracy)]
    if "train_accuracy" in thresholds:
        gap = accuracy - thresholds["train_accuracy"]
        side = "above" if gap >= 0 else "below"
        points = f"{abs(gap):.2f}" if accuracy > 1 else f"{100 * abs(gap):.2f} points"
        parts[0] += f", {points} {side} the threshold"
    bar = thresholds["susceptibility"]
    side = "below" if zeta <= bar else "above"
    parts.append(f"its ζ of {zeta:.4g} is {abs(bar - zeta):.4g} {side} the threshold")
    return "; ".join(parts) + "."


def _score(candidates: Candidates, chosen: Booleans, prefer: str) -> Floats:
    if prefer == "accuracy":
        return candidates.values("train_accuracy")
    if prefer == "resistance":
        return -candidates.zeta
    score = np.full(len(candidates), np.nan)
    accuracy, zeta = candidates.values("train_accuracy")[chosen], candidates.zeta[chosen]
    score[chosen] = _compute_ranks(accuracy) - _compute_ranks(zeta)
    return score


def _compute_ranks(values: Floats) -> Floats:
    """Return the number of lower values plus half of the equal ones, independent of order."""
    order = np.argsort(values)
    starts = np.flatnonzero(np.diff(values[order], prepend=-np.inf) > 0)
    ends = np.append(starts[1:], len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((starts + ends) / 2, ends - starts)
    return ranks


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
        return judge_region_one(
            candidates, compute_paper_thresholds(candidates), words, self.prefer
        )


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
            {
                "susceptibility": "its mean",
                "train_accuracy": "its mean among resistant checkpoints",
            },
            self.prefer,
        )


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
            f"{thresholds['susceptibility']:.4g}, its median, and are kept."
        )
        why = (
            f"The selected checkpoint, {candidates.name(pick)}, "
            f"has the highest training accuracy among them: "
            + describe_distance(candidates, pick, thresholds)
        )
        return Decision(pick, (what, why), thresholds)


@dataclass(frozen=True)
class Pareto:
    """The knee of the front: the point furthest above the line between its two ends.

    Both axes are scaled so that the front spans 0 to 1; the distance is then (a′ − ζ′)/√2. On a
    front that nowhere bulges, both ends are as good; the tie goes to the lower ζ.
    """

    name: ClassVar[str] = "pareto"
    needs: ClassVar[tuple[str, ...]] = ("zeta", "train_accuracy")
    compares_runs: ClassVar[bool] = True
    order: ClassVar[int] = 140

    def judge(self, candidates: Candidates) -> Decision:
        """Select the knee of the front."""
        train = candidates.values("train_accuracy")
        front = is_on_front(candidates.zeta, train)
        zeta = _scale(candidates.zeta, front)
        accuracy = _scale(train, front)
        height = np.where(front, (accuracy - zeta) / np.sqrt(2), np.nan)
        pick = candidates.best(height, front)
        what = (
            f"{front.sum()} of {len(candidates)} checkpoints are on the front: no other has both "
            f"lower {candidates.label} and higher training accuracy."
        )
        why = (
            f"The selected checkpoint, {candidates.name(pick)}, is its knee: ζ of "
            f"{candidates.zeta[pick]:.4g}, training accuracy of "
            f"{format_share(train[pick])}, {height[pick]:.3f} above the line between the ends "
            "(both axes scaled to 1)."
        )
        return Decision(pick, (what, why), score=height)


def is_on_front(zeta: Floats, accuracy: Floats) -> Booleans:
    """Return whether no other has ζ as low and accuracy as high, and one of them better."""
    order = np.argsort(zeta)
    sorted_zeta, sorted_accuracy = zeta[order], accuracy[order]
    # Of equal ζ, the best accuracy counts; it must beat everything at a lower ζ.
    starts = np.flatnonzero(np.diff(sorted_zeta, prepend=-np.inf) > 0)
    lengths = np.diff(starts, append=len(order))
    best = np.maximum.reduceat(sorted_accuracy, starts)
    best_before = np.append(-np.inf, np.maximum.accumulate(best)[:-1])
    is_best = sorted_accuracy == np.repeat(best, lengths)
    front = np.empty(len(order), dtype=np.bool_)
    front[order] = is_best & np.repeat(best > best_before, lengths)
    return front


def _scale(values: Floats, front: Booleans) -> Floats:
    low, high = values[front].min(), values[front].max()
    return np.asarray((values - low) / (high - low)) if high > low else np.zeros(len(values))
