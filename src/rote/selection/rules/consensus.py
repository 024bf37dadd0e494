"""Agreement with the vote of the other runs on a shared holdout: no labels at all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_integer
from rote.selection.rule import Decision
from rote.selection.rules.noisy_validation import compute_wilson_interval
from rote.selection.votes import Ballot, find_shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Grade


@dataclass(frozen=True)
class Consensus:
    """The checkpoint that agrees most with the predictions of the other runs.

    Every checkpoint starts with weight 1. In every round, the vote of a run is the weighted mean of
    its checkpoints' one-hot predictions, times its largest weight over the largest of all; the
    label that a run sees is the class with most votes of all *other* runs; a checkpoint's score a
    is the share of the holdout on which it agrees with that label, and its next weight is
    max(0, log(a (K − 1)/(1 − a)))². Weights are those of Dawid and Skene's one coin, squared.

    Classes within a billionth of a vote of the first are tied; the lower class wins. In the weight,
    a is at most 1 − 1/(2m) on a holdout of m, so that it is finite.

    Where the models share their errors, agreement overstates accuracy.

    Attributes:
        rounds: the number of rounds in which votes and weights are computed.

    Raises:
        InputError: if it is not a positive integer.
    """

    rounds: int = 6
    name: ClassVar[str] = "consensus"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = True
    evidence: ClassVar[Grade] = "fair"
    not_resampled: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 200

    def __post_init__(self) -> None:
        check_integer("rounds", self.rounds, least=1)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest agreement.

        Raises:
            InputError: if there are no two runs with predictions on the same holdout.
        """
        voters, warnings = find_shared_holdout(candidates)
        ballot = Ballot.of(candidates, voters)
        agreement = ballot.agreement(self.rounds)
        score = np.full(len(candidates), np.nan)
        score[ballot.voters] = agreement
        pick = candidates.best(score, ballot.voters)
        interval = compute_wilson_interval(float(score[pick]), ballot.samples)
        reason = (
            f"The selected checkpoint, {candidates.name(pick)}, agrees with the vote of the other "
            f"{ballot.num_runs - 1} runs on {score[pick]:.2%} of the {ballot.samples} samples of "
            f"the holdout, the most of {len(ballot.voters)} checkpoints; the median is "
            f"{np.median(agreement):.2%}."
        )
        if ballot.num_runs < 3:
            warnings += (
                "Only 2 runs vote: each is compared with the other alone, and a shared error "
                "counts as correct.",
            )
        if score[pick] < 0.5:
            warnings += (
                "Even the selected checkpoint agrees with the other runs on less than half of the "
                "holdout. Votes of models that weak say little about the true labels.",
            )
        return Decision(pick, (reason,), warnings=warnings, score=score, interval=interval)
