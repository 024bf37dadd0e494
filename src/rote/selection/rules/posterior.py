"""The highest estimated clean accuracy, from votes and given labels that may be wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from rote.arguments import check_number
from rote.errors import InputError
from rote.selection.posterior import UNKNOWN, Belief, Evidence, fit_belief
from rote.selection.rule import Verdict
from rote.selection.rules.noisy_validation import wilson_interval
from rote.selection.votes import Ballot, same_pool

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats, Integers

_FLOOR = 0.001
_ROUNDS = 2
_DRAWS = 500
_RIVALS = 200
"""How many of the best are drawn to see how sure the pick is; the others never win."""

_NEAR = 0.01


@dataclass(frozen=True)
class Estimate:
    """What is believed about the voters of a ballot.

    Attributes:
        accuracy: the estimated clean accuracy of each.
        belief: how it was found.
        truth: the posterior of the true class, samples × classes.
    """

    accuracy: Floats
    belief: Belief
    truth: Floats


@dataclass(frozen=True)
class Posterior:
    """The highest estimated clean accuracy: votes of the other runs, and the pool's given labels.

    The votes of the other runs give a prior of each sample's true class; how sharp it is, a bias
    per class and the noise of the given labels are fitted by likelihood on the given labels. A
    checkpoint scores the mean posterior of what it predicts. Where the votes say nothing about the
    given labels, it is noisy validation. What it cannot see: errors that votes and labels share,
    such as labels from a rule that can be read off the inputs.

    Attributes:
        noise_rate: the share of wrong labels, if it is known.

    Raises:
        InputError: if it is no share.
    """

    noise_rate: float | None = None
    name: ClassVar[str] = "posterior"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = True
    not_redrawn: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 250

    def __post_init__(self) -> None:
        if self.noise_rate is not None:
            check_number("noise_rate", self.noise_rate, least=0, most=1)

    def judge(self, candidates: Candidates) -> Verdict:
        """The highest estimate.

        Raises:
            InputError: if there are no two runs with predictions on the same pool, or the pool has
                no given labels.
        """
        voters, warnings = same_pool(candidates)
        ballot = Ballot.of(candidates, voters)
        given = _given(candidates, voters, ballot)
        found = estimate(ballot, given, self.noise_rate)
        if not found.belief.votes_carry:
            return _by_labels_alone(candidates, ballot, given, warnings)
        accuracy = np.full(len(candidates), np.nan)
        accuracy[ballot.voters] = found.accuracy
        pick = candidates.best(accuracy, ballot.voters)
        interval = wilson_interval(float(accuracy[pick]), ballot.samples)
        what = (
            f"The pick, {candidates.name(pick)}, has the highest estimated clean accuracy of "
            f"{len(ballot.voters)} checkpoints: {accuracy[pick]:.1%} ({interval[0]:.1%} to "
            f"{interval[1]:.1%} at 95 %); the median is {np.median(found.accuracy):.1%}."
        )
        why = (
            f"It is estimated from the votes of {ballot.num_runs} runs and {_count(given)} given "
            f"labels, of which about {found.belief.rate:.0%} are taken to be wrong; with "
            f"{_sureness(ballot, found, accuracy):.0%} probability the pick is within 1 point of "
            "the best."
        )
        return Verdict(
            pick,
            (what, why),
            warnings=warnings,
            score=accuracy,
            interval=interval,
            columns={"estimated_accuracy": accuracy},
        )


def estimate(ballot: Ballot, given: Integers, noise_rate: float | None = None) -> Estimate:
    """The estimated clean accuracy of every voter, each judged by the other runs' votes."""
    weight = np.ones(len(ballot.voters))
    clean = np.full(len(given), UNKNOWN)
    accuracy = np.zeros(len(ballot.voters))
    for _ in range(_ROUNDS):
        everybody = Evidence(np.log(ballot.shares(weight) + _FLOOR), given, clean)
        belief = fit_belief(everybody, noise_rate)
        if not belief.votes_carry:
            break  # later weights have seen the labels, and could not be judged by them any more
        alone = belief.symmetric_only()
        even = np.zeros(len(ballot.voters))
        for part, rows, shares in ballot.shares_of_others(weight):
            evidence = Evidence(np.log(shares + _FLOOR), given, clean)
            accuracy[part] = _mean_of(belief.posterior(evidence), rows)
            even[part] = _mean_of(alone.posterior(evidence), rows)
        # Noise of classes cannot be told from errors of classes where the votes are weak.
        if even.max() < 0.5:
            accuracy, belief = even, alone
        weight = ballot.weights(accuracy)
        if not weight.any():
            break
    return Estimate(accuracy, belief, belief.posterior(everybody))


def _mean_of(truth: Floats, rows: npt.NDArray[np.unsignedinteger]) -> Floats:
    flat = np.arange(truth.shape[0]) * truth.shape[1]
    return np.asarray(truth.ravel()[flat + rows].mean(axis=1))


def _given(candidates: Candidates, runs: set[str], ballot: Ballot) -> Integers:
    found = [candidates.table.given_labels(run) for run in sorted(runs)]
    known = [labels for labels in found if labels is not None and len(labels) == ballot.samples]
    if not known or not (known[0] >= 0).any():
        raise InputError(
            "Expected `runs` to record the given labels of their pool for rule 'posterior', got "
            "none. Pass given_labels= to rote.track, or use rule `consensus`."
        )
    if any(not np.array_equal(known[0], labels) for labels in known[1:]):
        raise InputError(
            "Expected `runs` to have the same given labels of their pool, got different ones. "
            "Select among runs on the same labels."
        )
    return np.where((known[0] < 0) | (known[0] >= ballot.num_classes), UNKNOWN, known[0])


def _count(given: Integers) -> int:
    return int((given != UNKNOWN).sum())


def _by_labels_alone(
    candidates: Candidates, ballot: Ballot, given: Integers, warnings: tuple[str, ...]
) -> Verdict:
    is_known = given != UNKNOWN
    score = np.full(len(candidates), np.nan)
    for part, rows in ballot.by_run():
        score[ballot.voters[part]] = (rows == given)[:, is_known].mean(axis=1)
    pick = candidates.best(score, ballot.voters)
    reason = (
        f"The votes of the runs say nothing about the given labels; the pick, "
        f"{candidates.name(pick)}, has the highest accuracy on these: {score[pick]:.1%}."
    )
    interval = wilson_interval(float(score[pick]), _count(given))
    return Verdict(pick, (reason,), warnings=warnings, score=score, interval=interval)


def _sureness(ballot: Ballot, found: Estimate, accuracy: Floats) -> float:
    """How often the pick is within a point of the best, if samples and true labels are redrawn."""
    best = np.argsort(-found.accuracy, kind="stable")[:_RIVALS]
    predicted = np.empty((len(best), ballot.samples), dtype=np.int64)
    for part, rows in ballot.by_run():
        inside = (best >= part.start) & (best < part.stop)
        predicted[inside] = rows[best[inside] - part.start]
    rng = np.random.default_rng(0)
    edges = found.truth.cumsum(axis=1)
    pick = int(np.argmax(accuracy[ballot.voters][best]))
    hits = 0
    for _ in range(_DRAWS):
        chosen = rng.integers(ballot.samples, size=ballot.samples)
        drawn = (rng.random(ballot.samples)[:, None] > edges[chosen]).sum(axis=1)
        right = (predicted[:, chosen] == drawn).mean(axis=1)
        hits += right[pick] >= right.max() - _NEAR
    return hits / _DRAWS
