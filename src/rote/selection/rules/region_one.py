"""Picking from Region 1, the checkpoints that are both resistant and trainable."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from rote.formatting import as_percent
from rote.selection.regions import is_resistant, is_trainable
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
        f"Resistant is {candidates.label} of at most {thresholds['susceptibility']:.4g}, "
        f"{words['susceptibility']}; trainable is training accuracy of at least "
        f"{as_percent(thresholds['train_accuracy'])}, {words['train_accuracy']}. Region 1, both, "
        f"holds {both.sum()} of {len(candidates)} checkpoint{'s' * (len(candidates) > 1)}."
    )
    where = "among the resistant" if is_empty else "in Region 1"
    why = f"The pick, {candidates.name(pick)}, has {_SUPERLATIVES[choice]} {where}: " + (
        distance(candidates, pick, thresholds)
    )
    warnings: tuple[str, ...] = ()
    if is_empty:
        warnings = (
            "The pick comes from Region 3, because Region 1 is empty: it is the resistant "
            "checkpoint with the highest training accuracy. Try rule `staged`.",
        )
    return Decision(pick, (what, why), dict(thresholds), warnings)


def distance(candidates: Candidates, pick: int, thresholds: Mapping[str, float]) -> str:
    """How far a checkpoint is from the thresholds, in words."""
    accuracy = candidates.values("train_accuracy")[pick]
    zeta = candidates.zeta[pick]
    parts = [as_percent(accuracy)]
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
    score[chosen] = _ranks(accuracy) - _ranks(zeta)
    return score


def _ranks(values: Floats) -> Floats:
    """How many are lower, and half of those that are equal: exact, whatever the order."""
    order = np.argsort(values)
    starts = np.flatnonzero(np.diff(values[order], prepend=-np.inf) > 0)
    ends = np.append(starts[1:], len(values))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat((starts + ends) / 2, ends - starts)
    return ranks
