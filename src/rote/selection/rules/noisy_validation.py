"""Accuracy on the given, possibly wrong labels of the holdout that was kept out of training."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.errors import InputError
from rote.formatting import format_share
from rote.selection.rule import Decision, Findings
from rote.store import GIVEN_LABELS

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates
    from rote.selection.rule import Grade

_Z95 = 1.959963984540054


@dataclass(frozen=True)
class NoisyValidation:
    """The highest validation accuracy.

    Attributes:
        samples: the number of labels it was measured on, if the runs do not say.
        noise_rate: the share of wrong labels, if it is known; it decides nothing, but tells how
            high the accuracy can be.

    Raises:
        InputError: if the rate is not from 0 to 1.
    """

    samples: int | None = None
    noise_rate: float | None = None
    name: ClassVar[str] = "noisy-validation"
    needs: ClassVar[tuple[str, ...]] = ("validation_accuracy",)
    compares_runs: ClassVar[bool] = False
    evidence: ClassVar[Grade] = "fair"
    order: ClassVar[int] = 300

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_number("noise_rate", self.noise_rate, least=0, most=1)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest validation accuracy, with its 95 % interval."""
        validation = candidates.values("validation_accuracy")
        pick = candidates.best(validation)
        accuracy = float(validation[pick])
        samples = find_holdout_size(candidates, pick, self.samples)
        reason = (
            f"The selected checkpoint, {candidates.name(pick)}, "
            f"has the highest accuracy on the given "
            f"labels of the holdout: {format_share(accuracy)}"
        )
        if samples is None:
            unknown = (
                "The size of the holdout is not recorded, so the validation accuracy has no "
                "interval. Rule `noisy-validation` takes samples=.",
            )
            findings = Findings(noise_rate=self.noise_rate)
            return Decision(
                pick, (reason + ".",), warnings=unknown, score=validation, findings=findings
            )
        interval = compute_wilson_interval(accuracy, samples)
        reason += f" ({interval[0]:.2%} to {interval[1]:.2%} at 95%, {samples} labels)."
        findings = Findings(noise_rate=self.noise_rate, labels=samples)
        return Decision(pick, (reason,), score=validation, interval=interval, findings=findings)


@dataclass(frozen=True)
class NoisyValidationThenSusceptibility:
    """Among all within one standard error of the highest validation accuracy, the lowest ζ.

    Attributes:
        samples: the number of labels it was measured on, if the runs do not say.
    """

    samples: int | None = None
    name: ClassVar[str] = "noisy-validation+susceptibility"
    needs: ClassVar[tuple[str, ...]] = ("validation_accuracy", "zeta")
    compares_runs: ClassVar[bool] = False
    evidence: ClassVar[Grade] = "fair"
    order: ClassVar[int] = 310

    def judge(self, candidates: Candidates) -> Decision:
        """Select the lowest ζ among checkpoints within one standard error of the best validation.

        Raises:
            InputError: if the number of labels is unknown.
        """
        validation = candidates.values("validation_accuracy")
        best = candidates.best(validation)
        samples = find_holdout_size(candidates, best, self.samples)
        if samples is None:
            raise InputError(
                "The number of labels behind `validation_accuracy` is unknown, because the run "
                "does not record its holdout. Pass samples=..."
            )
        highest = float(validation[best])
        error = math.sqrt(max(highest * (1 - highest), 0.0) / samples)
        near = validation >= highest - error
        pick = candidates.best(-candidates.zeta, near)
        what = (
            f"The highest accuracy on the given labels of the holdout is {format_share(highest)} "
            f"({candidates.name(best)}), with a standard error of {error:.2%} ({samples} labels); "
            f"{near.sum()} of {len(candidates)} checkpoints are within it."
        )
        why = (
            f"The selected checkpoint, {candidates.name(pick)}, "
            f"has the lowest {candidates.label} of them: "
            f"{candidates.zeta[pick]:.4g}, at a validation accuracy of "
            f"{format_share(validation[pick])}."
        )
        return Decision(
            pick,
            (what, why),
            {"validation_accuracy": highest - error},
            interval=compute_wilson_interval(float(validation[pick]), samples),
        )


def compute_wilson_interval(share: float, samples: int) -> tuple[float, float]:
    """Return the 95 % interval of a binomial share (Wilson 1927).

    Example:
        >>> [round(end, 4) for end in compute_wilson_interval(0.5, 100)]
        [0.4038, 0.5962]
    """
    share = min(max(share, 0.0), 1.0)  # for accuracies in percent, about which there is a warning
    shrink = _Z95**2 / samples
    middle = (share + shrink / 2) / (1 + shrink)
    half = _Z95 * math.sqrt(share * (1 - share) / samples + shrink / (4 * samples)) / (1 + shrink)
    return max(0.0, middle - half), min(1.0, middle + half)


def compute_probability_better(wins: int, losses: int) -> float:
    """Return the probability that one checkpoint is better than another on the given labels.

    Only samples on which exactly one of the two is right tell them apart (McNemar 1947). The share
    of these that the first one wins has a Jeffreys prior, so its posterior is Beta(wins + ½,
    losses + ½). Label noise that does not depend on the predictions leaves the order of two
    accuracies as it is, so this is also the probability for the true classes.

    Args:
        wins: the number of samples that only the first one gets right.
        losses: the number that only the second one gets right.

    Returns:
        The probability that the share is above one half.

    Example:
        >>> round(compute_probability_better(0, 0), 3), round(compute_probability_better(12, 4), 3)
        (0.5, 0.979)
    """
    from scipy.special import betainc

    return float(betainc(losses + 0.5, wins + 0.5, 0.5))


def compare_on_labels(candidates: Candidates, one: int, other: int) -> float | None:
    """Return the probability that one checkpoint is better than another, by paired given labels.

    Args:
        candidates: the checkpoints.
        one: the position of the first.
        other: the position of the second.

    Returns:
        The probability; None if they are the same checkpoint, or no predictions of both on one
        holdout with given labels are recorded.
    """
    first, second = (_find_right(candidates, at) for at in (one, other))
    if one == other or first is None or second is None or len(first) != len(second):
        return None
    names = [candidates.runs[candidates.run[at]] for at in (one, other)]
    texts = {candidates.table.descriptions[name].get(GIVEN_LABELS) for name in names}
    if len(texts) > 1:  # another holdout, or other labels for it
        return None
    return compute_probability_better(int((first & ~second).sum()), int((second & ~first).sum()))


def _find_right(candidates: Candidates, at: int) -> Booleans | None:
    """Return whether a checkpoint is right on each labeled holdout sample, if recorded."""
    run = candidates.runs[candidates.run[at]]
    labels, rows = candidates.table.read_given_labels(run), candidates.table.read_predictions(run)
    row = int(candidates.row[at])
    if labels is None or rows is None or row >= len(rows) or rows[row].size != len(labels):
        return None
    is_known = labels >= 0
    return np.asarray(rows[row].ravel() == labels)[is_known] if is_known.any() else None


def find_holdout_size(candidates: Candidates, index: int, given: int | None) -> int | None:
    """Return the number of labels of a checkpoint's validation accuracy."""
    if given is not None:
        return given
    description = candidates.table.descriptions.get(candidates.runs[candidates.run[index]], {})
    holdout = description.get("holdout")
    if not isinstance(holdout, Mapping):
        return None
    shape = holdout.get("predictions") or [holdout.get("size")]
    # run.json may have been edited.
    is_shape = isinstance(shape, list) and all(type(size) is int and size > 0 for size in shape)
    return math.prod(shape) if is_shape else None
