"""The highest estimated clean accuracy, from votes and given labels that may be wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.arguments import check_number
from rote.errors import InputError
from rote.selection.clean_accuracy import Estimate, Labels, estimate
from rote.selection.label_noise import UNKNOWN
from rote.selection.rule import Findings, Verdict
from rote.selection.rules.noisy_validation import wilson_interval
from rote.selection.votes import Ballot, shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers

BLIND = (
    "It cannot see errors that can be predicted from the inputs, such as those of labeling rules "
    "or of a systematic annotator: where labels have such, the estimate is too high."
)
_NEARLY_NONE = 0.05
_SURE = 2.0


@dataclass(frozen=True)
class Posterior:
    """The highest estimated clean accuracy: votes on the holdout and its given labels together.

    The votes of the other runs give a prior of each sample's true class, or, for one run alone,
    those of the nearest training samples (``neighbor_votes``); how sharp it is, a bias per class
    and the noise of the given labels are fitted by likelihood on the given labels. A checkpoint
    scores the mean posterior of what it predicts. Where the votes say nothing about the given
    labels, it is noisy validation. What it cannot see: errors that votes and labels share, such as
    labels from a rule that can be read off the inputs.

    Attributes:
        noise_rate: the share of wrong labels, if it is known.
        clean_labels: labels of the holdout that are known to be right, −1 where there is none.

    Raises:
        InputError: if the rate is no share, or the labels are no integers in a row.
    """

    noise_rate: float | None = None
    clean_labels: Sequence[int] | None = None
    name: ClassVar[str] = "posterior"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False
    not_resampled: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 250

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_number("noise_rate", self.noise_rate, least=0, most=1)
        if self.clean_labels is not None:
            object.__setattr__(self, "clean_labels", _row_of_integers(self.clean_labels))

    def judge(self, candidates: Candidates) -> Verdict:
        """The highest estimate.

        Raises:
            InputError: if no run has predictions, one run alone has no votes of neighbors, or the
                holdout has no labels.
        """
        voters, warnings = shared_holdout(candidates, least=1)
        ballot = Ballot.of(candidates, voters)
        labels = self.labels(candidates, voters, ballot)
        if not labels.known:
            raise InputError(
                "Expected `runs` to record the given labels of their holdout for rule 'posterior', "
                "got none. Pass given_labels= to rote.track, or use rule `consensus`."
            )
        neighbors = votes_of_neighbors(candidates, voters, ballot)
        if neighbors is None and len(voters) == 1:
            if (labels.clean != UNKNOWN).any():  # labels that are right need no votes
                return _by_labels_alone(candidates, ballot, labels, "There are no votes", warnings)
            raise InputError(
                "Expected `runs` to hold at least 2 runs with predictions on the same holdout, or "
                "one with votes of neighbors, got one without. Pass neighbor_votes= to rote.track, "
                "or use rule `noisy-validation`."
            )
        found = estimate(ballot, labels, neighbors)
        if not found.belief.votes_carry:
            who = "runs" if neighbors is None else "nearest training samples"
            why = f"The votes of the {who} say nothing about the given labels"
            return _by_labels_alone(candidates, ballot, labels, why, warnings)
        return _by_estimate(candidates, found, warnings)

    def labels(self, candidates: Candidates, runs: set[str], ballot: Ballot) -> Labels:
        """What is known about the labels of the holdout that some runs share.

        Raises:
            InputError: if the runs have different labels, or the clean ones do not fit the holdout.
        """
        clean = np.full(ballot.samples, UNKNOWN)
        if self.clean_labels is not None:
            clean = _checked(np.asarray(self.clean_labels, dtype=np.int64), ballot)
        return Labels(given_labels(candidates, runs, ballot), clean, self.noise_rate)


def given_labels(candidates: Candidates, runs: set[str], ballot: Ballot) -> Integers:
    """The given labels of the holdout that some runs share, −1 where there is none.

    Raises:
        InputError: if they have different ones.
    """
    found = [candidates.table.given_labels(run) for run in sorted(runs)]
    known = [labels for labels in found if labels is not None and len(labels) == ballot.samples]
    if not known:
        return np.full(ballot.samples, UNKNOWN)
    if any(not np.array_equal(known[0], labels) for labels in known[1:]):
        raise InputError(
            "Expected `runs` to have the same given labels of their holdout, got different ones. "
            "Select among runs on the same labels."
        )
    return _within(known[0], ballot)


def votes_of_neighbors(candidates: Candidates, runs: set[str], ballot: Ballot) -> Floats | None:
    """Those of a run that has nobody else to vote, if they are recorded and fit the holdout."""
    if len(runs) > 1:
        return None
    found = candidates.table.neighbor_votes(min(runs))
    is_fitting = found is not None and found.shape == (ballot.samples, ballot.num_classes)
    return np.asarray(found, dtype=np.float64) if is_fitting else None


def _checked(clean: Integers, ballot: Ballot) -> Integers:
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


def _within(labels: Integers, ballot: Ballot) -> Integers:
    return np.where((labels < 0) | (labels >= ballot.num_classes), UNKNOWN, labels)


def _row_of_integers(labels: Sequence[int]) -> tuple[int, ...]:
    found = np.asarray(labels)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise InputError(
            "Expected `clean_labels` to be a row of integers, one for each sample of the holdout, "
            f"got {found.dtype} of shape {found.shape}. Write -1 where none is known."
        )
    return tuple(found.tolist())


def _by_estimate(candidates: Candidates, found: Estimate, warnings: tuple[str, ...]) -> Verdict:
    ballot = found.ballot
    accuracy = np.full(len(candidates), np.nan)
    accuracy[ballot.voters] = found.accuracy
    pick = candidates.best(accuracy, _steady(candidates, ballot))
    interval, confidence = found.resampled(int(np.searchsorted(ballot.voters, pick)))
    others = ballot.num_runs - 1
    votes = {0: "the nearest training samples", 1: "the other run"}.get(
        others, f"the other {others} runs"
    )
    what = (
        f"The pick, {candidates.name(pick)}, has the highest estimated clean accuracy of "
        f"{len(ballot.voters)} checkpoints: {accuracy[pick]:.1%} ({interval[0]:.1%} to "
        f"{interval[1]:.1%} at 95%); the median is {np.median(found.accuracy):.1%}."
    )
    why = (
        f"It is estimated from the votes of {votes} and {found.labels.known} labels, of which "
        f"about {found.noise_rate:.0%} are taken to be wrong; with {confidence:.0%} probability "
        "the pick is within 1 point of the best."
    )
    reasons = (what, why, *_dip(candidates, accuracy, pick), BLIND)
    return Verdict(
        pick,
        reasons,
        warnings=(*warnings, *_hints(found)),
        score=accuracy,
        interval=interval,
        columns={"estimated_accuracy": accuracy},
        findings=Findings(found.noise_rate, _matrix(found), confidence, found.suspects()),
    )


def _steady(candidates: Candidates, ballot: Ballot) -> Integers:
    """The voters that are on no dip of training accuracy; all of them, if each is."""
    found = ballot.voters[candidates.steady[ballot.voters]]
    return found if len(found) else ballot.voters


def _dip(candidates: Candidates, score: Floats, pick: int) -> Iterator[str]:
    highest = int(np.nanargmax(score))
    if score[highest] > score[pick]:
        yield (
            f"Left out is {candidates.name(highest)}, with {score[highest]:.1%}: its training "
            "accuracy dropped at this step."
        )


def _matrix(found: Estimate) -> tuple[tuple[float, ...], ...] | None:
    if found.belief.weights[1:].sum() <= 0.5:
        return None
    return tuple(tuple(row) for row in found.belief.matrix.tolist())


def _hints(found: Estimate) -> Iterator[str]:
    """Signs of errors that can be predicted from the inputs."""
    if found.surprise() > _SURE:
        yield (
            "Votes and given labels miss more of the clean labels than they should: many errors "
            "can be predicted from the inputs, and the estimated accuracy is too high."
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
            f"A checkpoint predicts {agreed:.0%} of given labels that it has not seen, and only "
            f"{1 - labels.noise_rate:.0%} are right: many wrong labels can be predicted from the "
            "inputs, and the estimated accuracy is too high."
        )
    elif labels.noise_rate is None and found.noise_rate < _NEARLY_NONE:
        yield (
            f"Only {found.noise_rate:.1%} of the given labels look wrong: either they are right, "
            "or their errors can be predicted from the inputs, which nothing here can tell apart. "
            "A few labels that are known to be right (clean_labels=) can."
        )


def _by_labels_alone(
    candidates: Candidates, ballot: Ballot, labels: Labels, why: str, warnings: tuple[str, ...]
) -> Verdict:
    label = labels.best
    is_known = label != UNKNOWN
    score = np.full(len(candidates), np.nan)
    for part, rows in ballot.by_run():
        score[ballot.voters[part]] = (rows == label)[:, is_known].mean(axis=1)
    pick = candidates.best(score, _steady(candidates, ballot))
    reason = (
        f"{why}; the pick, {candidates.name(pick)}, has the highest accuracy on the {labels.known} "
        f"labels that are known: {score[pick]:.1%}."
    )
    interval = wilson_interval(float(score[pick]), labels.known)
    reasons = (reason, *_dip(candidates, score, pick))
    return Verdict(pick, reasons, warnings=warnings, score=score, interval=interval)
