"""Within a run: the first checkpoint whose training accuracy reaches the share of right labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.errors import InputError
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates


@dataclass(frozen=True)
class NoiseRate:
    """The first checkpoint of a run whose training accuracy is at least the share of right labels.

    A network that has learned all right labels and no wrong one is there (Song et al. 2019,
    Prestopping). It needs nothing held out, but the share of wrong labels must be known. It fails
    where wrong labels are as easy to learn as right ones, such as under pair noise, or where they
    come from rules that can be read off the inputs.

    Of several runs, such a checkpoint is found in each, and the one that got there with the lowest
    ζ wins. Runs that never get there count only if none does: the highest training accuracy wins.

    Attributes:
        noise_rate: the share of wrong labels.

    Raises:
        InputError: if it is no share.
    """

    noise_rate: float | None = None
    name: ClassVar[str] = "noise-rate"
    needs: ClassVar[tuple[str, ...]] = ("train_accuracy",)
    compares_runs: ClassVar[bool] = False
    order: ClassVar[int] = 350

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_number("noise_rate", self.noise_rate, least=0, most=1)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the first that gets there.

        Raises:
            InputError: if the share of wrong labels is not given.
        """
        if self.noise_rate is None:
            raise InputError(
                "Rule 'noise-rate' needs the share of wrong labels. Pass noise_rate=..., or use "
                "rule `auto`."
            )
        accuracy, right = candidates.values("train_accuracy"), 1 - self.noise_rate
        parts = list(candidates.by_run())
        there = [np.flatnonzero(accuracy[part] >= right) for part in parts]
        first = [part.start + at[0] for part, at in zip(parts, there, strict=True) if len(at)]
        caution = (
            "Label errors that are as easy to learn as correct labels (pair noise, labeling rules) "
            "mislead this rule.",
        )
        if not first:
            pick = candidates.best(accuracy)
            reason = (
                f"No checkpoint fits {right:.1%} of the labels, the share of correct ones. The "
                f"selected checkpoint, {candidates.name(pick)}, fits most: {accuracy[pick]:.1%}."
            )
            return Decision(pick, (reason,), warnings=caution)
        pick = candidates.best(-candidates.zeta, np.array(first))
        reason = (
            f"The selected checkpoint, {candidates.name(pick)}, "
            f"is the first of its run that fits {right:.1%} of "
            f"the labels, the share of correct ones: {accuracy[pick]:.1%}."
        )
        among = f"{len(first)} of {len(parts)} runs get there; this one has the lowest ζ."
        return Decision(
            pick,
            (reason, among) if len(parts) > 1 else (reason,),
            {"right_labels": right},
            warnings=caution,
        )
