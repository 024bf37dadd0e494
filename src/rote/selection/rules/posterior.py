"""The highest estimated clean accuracy, from votes and given labels that may be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.errors import InputError
from rote.selection.clean_accuracy import AccuracyEstimate, Labels, estimate_accuracy
from rote.selection.label_noise import UNKNOWN
from rote.selection.rule import Decision, Findings, Reason, explain_dropped
from rote.selection.rules.noisy_validation import compute_wilson_interval
from rote.selection.votes import Ballot, find_shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers
    from rote.selection.rule import Grade

BLIND = Reason(
    "limits",
    "Systematic label errors (labeling rules, one biased annotator) are invisible to this estimate "
    "and make it too high.",
)
_STRONG_LABELS = 200
"""The fewest given labels with which votes of several runs are strong evidence."""

_NEARLY_NONE = 0.05
_SURE = 2.0


@dataclass(frozen=True)
class Posterior:
    """The highest estimated clean accuracy, from votes on the holdout and its given labels.

    The votes of the other runs, or for one run alone those of the nearest training samples
    (``neighbor_votes``), give a prior of each sample's true class. Its sharpness, a bias per class
    and the noise of the given labels are fitted to the given labels by maximum likelihood. The
    score of a checkpoint is the mean posterior of its predictions. Where the votes do not predict
    the given labels, the rule is noisy validation. Systematic label errors, which votes and labels
    share, are invisible to it.

    Attributes:
        noise_rate: the share of wrong labels, if it is known.
        clean_labels: labels of the holdout that are known to be correct, −1 where there is none.

    Raises:
        InputError: if the rate is not from 0 to 1, or the labels are no row of integers.
    """

    noise_rate: float | None = None
    clean_labels: Sequence[int] | None = None
    name: ClassVar[str] = "posterior"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False
    evidence: ClassVar[Grade] = "fair"
    not_resampled: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 250

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_number("noise_rate", self.noise_rate, least=0, most=1)
        if self.clean_labels is not None:
            object.__setattr__(self, "clean_labels", _check_integers(self.clean_labels))

    def judge(self, candidates: Candidates) -> Decision:
        """Select the highest estimate.

        Raises:
            InputError: if no run has predictions, one run alone has no nearest-neighbor votes, or
                the holdout has no labels.
        """
        voters, warnings = find_shared_holdout(candidates, least=1)
        ballot = Ballot.of(candidates, voters)
        labels = self._check_labels(candidates, voters, ballot)
        neighbors = read_neighbor_votes(candidates, voters, ballot)
        if neighbors is None and len(voters) == 1 and (labels.clean != UNKNOWN).any():
            # Clean labels need no votes.
            return _decide_by_labels(candidates, ballot, labels, "There are no votes", warnings)
        found = self.estimate_accuracy(candidates)
        if not found.belief.votes_carry:
            who = "runs" if neighbors is None else "nearest training samples"
            why = f"The votes of the {who} do not predict the given labels"
            return _decide_by_labels(candidates, ballot, labels, why, warnings, votes_carry=False)
        return _decide_by_estimate(candidates, found, warnings)

    def estimate_accuracy(self, candidates: Candidates) -> AccuracyEstimate:
        """Estimate the clean accuracy of all checkpoints, and the true classes of the holdout.

        Args:
            candidates: all checkpoints.

        Returns:
            The estimate.

        Raises:
            InputError: see ``judge``.
        """
        voters, _ = find_shared_holdout(candidates, least=1)
        ballot = Ballot.of(candidates, voters)
        labels = self._check_labels(candidates, voters, ballot)
        neighbors = read_neighbor_votes(candidates, voters, ballot)
        if neighbors is None and len(voters) == 1:
            raise InputError(
                "Rule 'posterior' needs votes: 2 runs with predictions on the same holdout, or one "
                "with nearest-neighbor votes. Pass neighbor_votes= to rote.track, or use rule "
                "`noisy-validation`."
            )
        return estimate_accuracy(ballot, labels, neighbors)

    def _check_labels(self, candidates: Candidates, voters: set[str], ballot: Ballot) -> Labels:
        labels = self.labels(candidates, voters, ballot)
        if not labels.known:
            raise InputError(
                "Rule 'posterior' needs the given labels of the holdout, and the runs have none. "
                "Pass given_labels= to rote.track, or use rule `consensus`."
            )
        return labels

    def labels(self, candidates: Candidates, runs: set[str], ballot: Ballot) -> Labels:
        """Collect the known labels of the holdout that some runs share.

        Raises:
            InputError: if the runs have different labels, or the clean ones do not fit the holdout.
        """
        clean = np.full(ballot.samples, UNKNOWN)
        if self.clean_labels is not None:
            clean = _check(np.asarray(self.clean_labels, dtype=np.int64), ballot)
        return Labels(read_given_labels(candidates, runs, ballot), clean, self.noise_rate)


def read_given_labels(candidates: Candidates, runs: set[str], ballot: Ballot) -> Integers:
    """Read the given labels of the holdout that some runs share, −1 where there is none.

    Raises:
        InputError: if they have different ones.
    """
    found = [candidates.table.read_given_labels(run) for run in sorted(runs)]
    known = [labels for labels in found if labels is not None and len(labels) == ballot.samples]
    if not known:
        return np.full(ballot.samples, UNKNOWN)
    if any(not np.array_equal(known[0], labels) for labels in known[1:]):
        raise InputError(
            "The runs have different given labels for the same holdout. Select among runs with the "
            "same labels."
        )
    labels = known[0]
    return np.where((labels < 0) | (labels >= ballot.num_classes), UNKNOWN, labels)


def read_neighbor_votes(candidates: Candidates, runs: set[str], ballot: Ballot) -> Floats | None:
    """Read the nearest-neighbor votes of a single run, if recorded and of the right shape."""
    if len(runs) > 1:
        return None
    found = candidates.table.read_neighbor_votes(min(runs))
    is_fitting = found is not None and found.shape == (ballot.samples, ballot.num_classes)
    return np.asarray(found, dtype=np.float64) if is_fitting else None


def _check(clean: Integers, ballot: Ballot) -> Integers:
    if len(clean) != ballot.samples:
        raise InputError(
            f"Expected `clean_labels` to have an entry for each of the {ballot.samples} samples of "
            f"the holdout, got {len(clean)}. Write -1 where none is known."
        )
    if clean.max(initial=UNKNOWN) >= ballot.num_classes:
        raise InputError(
            f"Expected `clean_labels` to be classes from 0 to {ballot.num_classes - 1}, got "
            f"{clean.max()}. Write -1 where none is known."
        )
    return np.maximum(clean, UNKNOWN)


def _check_integers(labels: Sequence[int]) -> tuple[int, ...]:
    found = np.asarray(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            "Expected `clean_labels` to be a row of integers, one for each sample of the holdout, "
            f"got {found.dtype} of shape {found.shape}. Write -1 where none is known."
        )
    return tuple(found.tolist())


def _decide_by_estimate(
    candidates: Candidates, found: AccuracyEstimate, warnings: tuple[str, ...]
) -> Decision:
    ballot = found.ballot
    accuracy = np.full(len(candidates), np.nan)
    accuracy[ballot.voters] = found.accuracy
    pick = candidates.best(accuracy, _find_steady(candidates, ballot))
    position = int(np.searchsorted(ballot.voters, pick))
    spread = found.resample(position, find_position(ballot.voters, find_last(candidates)))
    corrected = np.full(len(candidates), np.nan)
    corrected[ballot.voters] = found.correct(position)
    reasons = (
        *_explain_estimate(candidates, found, corrected, pick),
        *_explain_dropped(candidates, accuracy, pick),
        BLIND,
    )
    is_strong = ballot.num_runs > 1 and found.labels.known >= _STRONG_LABELS
    return Decision(
        pick,
        reasons,
        warnings=(*warnings, *_list_hints(found)),
        score=accuracy,
        interval=spread.interval,
        columns={"estimated_accuracy": corrected},
        findings=Findings(
            found.noise_rate,
            _make_matrix(found),
            found.labels.known,
            spread.confidence,
            spread.beats_last,
            spread.expected_loss,
            found.suspects(),
        ),
        evidence="strong" if is_strong else "fair",
    )


def _explain_estimate(
    candidates: Candidates, found: AccuracyEstimate, accuracy: Floats, pick: int
) -> Iterator[Reason]:
    ballot = found.ballot
    others = ballot.num_runs - 1
    votes = {0: "the nearest training samples", 1: "the other run"}.get(
        others, f"the other {others} runs"
    )
    yield Reason(
        "choice",
        f"The selected checkpoint, {candidates.name(pick)}, has the highest estimated accuracy of "
        f"{len(ballot.voters)}: {accuracy[pick]:.1%} (median {np.nanmedian(accuracy):.1%}).",
        {"estimated_accuracy": float(accuracy[pick]), "checkpoints": len(ballot.voters)},
    )
    yield Reason(
        "estimate",
        f"The estimate combines the votes of {votes} with {found.labels.known} labels of the "
        f"holdout, of which about {found.noise_rate:.0%} look wrong.",
        {"labels": found.labels.known, "noise_rate": found.noise_rate, "voting_runs": others},
    )


def find_last(candidates: Candidates) -> int:
    """Select the last checkpoint; of several runs, the best-trained last one."""
    return candidates.best(candidates.values("train_accuracy"), candidates.last())


def find_position(voters: Integers, candidate: int) -> int | None:
    """Return the position of a candidate among sorted voters; None if it does not vote."""
    found = int(np.searchsorted(voters, candidate))
    return found if found < len(voters) and voters[found] == candidate else None


def _find_steady(candidates: Candidates, ballot: Ballot) -> Integers:
    """Return the voters at which training accuracy did not drop; all, if it did at each."""
    found = ballot.voters[candidates.steady[ballot.voters]]
    return found if len(found) else ballot.voters


def _explain_dropped(candidates: Candidates, score: Floats, pick: int) -> Iterator[Reason]:
    highest = int(np.nanargmax(score))
    if score[highest] > score[pick]:
        yield explain_dropped(candidates.name(highest), f" ({score[highest]:.1%})")


def _make_matrix(found: AccuracyEstimate) -> tuple[tuple[float, ...], ...] | None:
    if found.belief.weights[1:].sum() <= 0.5:
        return None
    return tuple(tuple(row) for row in found.belief.matrix.tolist())


def _list_hints(found: AccuracyEstimate) -> Iterator[str]:
    """Describe signs of systematic label errors."""
    if found.surprise() > _SURE:
        yield (
            "Votes and given labels miss more of the clean labels than expected: many label errors "
            "are systematic, and the estimated accuracy is too high."
        )
    labels, given = found.labels, found.labels.given
    labeled = given != UNKNOWN
    count = int(labeled.sum())
    if not count:
        return
    agreed = max(
        float((rows[:, labeled] == given[labeled]).mean(axis=1).max())
        for _, rows in found.ballot.by_run()
    )
    error = np.sqrt(agreed * (1 - agreed) / count)
    if labels.noise_rate is not None and agreed > 1 - labels.noise_rate + _SURE * error:
        yield (
            f"A checkpoint predicts {agreed:.0%} of given labels that it has not seen, although "
            f"only {1 - labels.noise_rate:.0%} are correct: many label errors are systematic, and "
            "the estimated accuracy is too high."
        )
    elif labels.noise_rate is None and found.noise_rate < _NEARLY_NONE:
        yield (
            f"Only {found.noise_rate:.1%} of the given labels look wrong: either they are correct, "
            "or their errors are systematic. A few clean labels (clean_labels=) can tell."
        )


def _decide_by_labels(
    candidates: Candidates,
    ballot: Ballot,
    labels: Labels,
    why: str,
    warnings: tuple[str, ...],
    *,
    votes_carry: bool | None = None,
) -> Decision:
    label = labels.best
    is_known = label != UNKNOWN
    score = np.full(len(candidates), np.nan)
    for part, rows in ballot.by_run():
        score[ballot.voters[part]] = (rows == label)[:, is_known].mean(axis=1)
    pick = candidates.best(score, _find_steady(candidates, ballot))
    reason = Reason(
        "choice",
        f"{why}. The selected checkpoint, {candidates.name(pick)}, has the highest accuracy on the "
        f"{labels.known} known labels: {score[pick]:.1%}.",
        {"accuracy": float(score[pick]), "labels": labels.known, "votes_carry": votes_carry},
    )
    interval = compute_wilson_interval(float(score[pick]), labels.known)
    reasons = (reason, *_explain_dropped(candidates, score, pick))
    findings = Findings(labels=labels.known)
    return Decision(
        pick, reasons, warnings=warnings, score=score, interval=interval, findings=findings
    )
