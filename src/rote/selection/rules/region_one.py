"""Picking from Region 1: the resistant and trainable checkpoints, by training accuracy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from rote.selection.rule import Verdict
from rote.selection.thresholds import is_resistant, is_trainable

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates


def judge_region_one(
    candidates: Candidates, thresholds: Mapping[str, float], words: Mapping[str, str]
) -> Verdict:
    """The highest training accuracy in Region 1.

    If Region 1 is empty, the highest training accuracy among all resistant checkpoints, with a
    warning: what ``staged`` picks when it divides by the same ζ.

    Args:
        candidates: with ζ and training accuracy.
        thresholds: of both; at least one candidate must be resistant.
        words: what each threshold is, such as "its mean".
    """
    resistant = is_resistant(candidates, thresholds["susceptibility"])
    trainable = is_trainable(candidates, thresholds["train_accuracy"])
    both = resistant & trainable
    is_empty = not both.any()
    pick = candidates.best(candidates.train_accuracy, resistant if is_empty else both)
    what = (
        f"Resistant is {candidates.label} of at most {thresholds['susceptibility']:.4g}, "
        f"{words['susceptibility']}; trainable is training accuracy of at least "
        f"{thresholds['train_accuracy']:.2%}, {words['train_accuracy']}. Region 1, both, holds "
        f"{both.sum()} of {len(candidates)} checkpoints."
    )
    where = "among the resistant" if is_empty else "in Region 1"
    why = f"The pick, {candidates.name(pick)}, has the highest training accuracy {where}: " + (
        distance(candidates, pick, thresholds)
    )
    warnings: tuple[str, ...] = ()
    if is_empty:
        warnings = (
            "The pick comes from Region 3, because Region 1 is empty: it is the resistant "
            "checkpoint with the highest training accuracy, as by rule `staged`.",
        )
    return Verdict(pick, (what, why), dict(thresholds), warnings)


def distance(candidates: Candidates, pick: int, thresholds: Mapping[str, float]) -> str:
    """How far a checkpoint is from the thresholds, in words."""
    accuracy = candidates.train_accuracy[pick]
    zeta = candidates.susceptibility[pick]
    parts = []
    if "train_accuracy" in thresholds:
        gap = 100 * (accuracy - thresholds["train_accuracy"])
        side = "above" if gap >= 0 else "below"
        parts.append(f"{accuracy:.2%}, {abs(gap):.2f} points {side} the threshold")
    else:
        parts.append(f"{accuracy:.2%}")
    bar = thresholds["susceptibility"]
    side = "below" if zeta <= bar else "above"
    parts.append(f"its ζ of {zeta:.4g} is {abs(bar - zeta):.4g} {side} the threshold")
    return "; ".join(parts) + "."
