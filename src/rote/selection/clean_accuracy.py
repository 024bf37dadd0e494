"""The estimated clean accuracy of checkpoints, from votes and labels that may be wrong."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.selection.label_noise import UNKNOWN, Belief, Observations, fit_belief
from rote.selection.rule import Suspect

if TYPE_CHECKING:
    from rote.selection.candidates import Floats, Integers
    from rote.selection.votes import Ballot, Votes

Classes = npt.NDArray[np.unsignedinteger]

_FLOOR_OF_RUNS = 0.001
_FLOOR_OF_NEIGHBORS = 0.01
_ROUNDS = 2
_DRAWS = 500
_RIVALS = 200
"""The number of best checkpoints that the confidence is computed from; others never win."""

_MUCH = 0.1
"""If a run has more than this share of all votes, the others are fitted again without it."""

_MODEL_ERROR_OF_RUNS, _MODEL_ERROR_ALONE = 0.09, 0.07
"""How far off the model itself is: a standard deviation, beside what draws show, where other runs
vote and where nearest neighbors do. Chosen, like the correction, with outside pools in view."""

_CORRECTION = (0.02, 0.84, 0.25)
"""For one run alone: the corrected log odds are a + b · logit E₀ + c · logit E₁."""
_CORRECTION_ROUNDS = 60

_WIDENING = 1.5
"""By how much checkpoints differ more than draws show."""

_NEAR = 0.01
_SUSPECT = 0.5


@dataclass(frozen=True)
class Labels:
    """The known labels of a holdout.

    Attributes:
        given: the given labels, −1 where there is none.
        clean: the labels known to be right, −1 where there is none.
        noise_rate: the share of given labels that are wrong, if it is known.
    """

    given: Integers
    clean: Integers
    noise_rate: float | None = None

    @property
    def best(self) -> Integers:
        """The clean label, or else the given one, or else −1."""
        return np.where(self.clean == UNKNOWN, self.given, self.clean)

    @property
    def known(self) -> int:
        """How many there are."""
        return int((self.best != UNKNOWN).sum())

    def with_votes(self, shares: Floats, floor: float) -> Observations:
        """Return what is known about the samples."""
        return Observations(np.log(shares + floor), self.given, self.clean)


@dataclass(frozen=True)
class Spread:
    """The uncertainty of an estimated accuracy.

    Attributes:
        interval: the 95 % interval.
        confidence: the probability to be within a point of the best.
        beats_last: the probability to be better than the last checkpoint; None if it is the last.
        expected_loss: the expected accuracy of the best minus its own.
    """

    interval: tuple[float, float]
    confidence: float
    beats_last: float | None
    expected_loss: float


@dataclass(frozen=True)
class AccuracyEstimate:
    """The fitted model of votes and labels for the voters of a ballot.

    Attributes:
        ballot: the voters.
        labels: the labels of the holdout.
        everybody: the votes and labels of all voters.
        belief: the fitted relation of votes and labels.
        truth: the posterior of the true class, samples × classes, by all votes.
        accuracy: the estimated clean accuracy of each voter.
        votes: of the runs; None where neighbors vote.
        beliefs: the same as ``belief``, by run, for the votes of the others.
    """

    ballot: Ballot
    labels: Labels
    everybody: Observations
    belief: Belief
    truth: Floats
    accuracy: Floats
    votes: Votes | None
    beliefs: tuple[Belief, ...] = ()

    @property
    def noise_rate(self) -> float:
        """The share of given labels that are probably wrong."""
        labeled = np.flatnonzero(self.labels.given != UNKNOWN)
        if not len(labeled):
            return 0.0
        return float(1 - self.truth[labeled, self.labels.given[labeled]].mean())

    def surprise(self) -> float:
        """Return how many standard errors fewer clean labels are guessed than expected."""
        is_clean = self.labels.clean != UNKNOWN
        clean = self.labels.clean[is_clean]
        if not len(clean):
            return 0.0
        guessed = self.everybody.take(is_clean).without_clean()
        truth = self.belief.posterior(guessed)
        sure = truth.max(axis=1)
        missing = float((sure - (truth.argmax(axis=1) == clean)).sum())
        return missing / float(np.sqrt(max(float((sure * (1 - sure)).sum()), 1.0)))

    def suspects(self) -> tuple[Suspect, ...]:
        """Return the samples whose given label is probably wrong, most probable first."""
        given = self.labels.given
        doubt = 1 - self.truth[np.arange(len(given)), np.maximum(given, 0)]
        doubt[given == UNKNOWN] = 0.0
        order = np.argsort(-doubt, kind="stable")
        return tuple(
            Suspect(int(i), int(given[i]), int(self.truth[i].argmax()), float(doubt[i]))
            for i in order[: int((doubt > _SUSPECT).sum())]
        )

    def by_run(self) -> Iterator[tuple[slice, Classes, Floats]]:
        """For every run its voters, what they predict, and the truth as it is held against them."""
        for number, (part, rows) in enumerate(self.ballot.by_run()):
            if self.votes is None:
                yield part, rows, self.truth
            else:
                evidence = self.labels.with_votes(self.votes.shares(number), _FLOOR_OF_RUNS)
                yield part, rows, self.beliefs[number].posterior(evidence)

    def correct(self, pick: int) -> Floats:
        """Correct the accuracies of one run alone for how nearest neighbors err.

        E₀ is the mean posterior of what the selected checkpoint predicts. E₁ is the accuracy α at
        which these posteriors, taken as evidence of right or wrong, reproduce themselves:
        α ← mean(q α / (q α + (1 − q)(1 − α)/(K − 1))), for every kind of noise, weighted as they
        are. The corrected log odds are .02 + .84 logit E₀ + .25 logit E₁. All checkpoints are
        shifted as far as the selected one, so that their order stays.

        Args:
            pick: the position of the selected checkpoint among the voters.

        Returns:
            The accuracies of all voters; as estimated, where other runs vote.
        """
        guessed = float((self.labels.clean == UNKNOWN).mean())
        if self.votes is not None or not guessed:
            return self.accuracy
        predicted, _ = self._score(np.array([pick]))
        rows = np.arange(self.ballot.samples)
        reproduced = 0.0
        for weight, noise in zip(self.belief.weights, self.belief.noises, strict=True):
            q = noise.posterior(self.everybody)[rows, predicted[0]]
            reproduced += float(weight) * _reproduce(q, self.ballot.num_classes)
        constant, of_first, of_second = _CORRECTION
        before = _compute_logit(self.accuracy, self.ballot.samples)
        after = constant + of_first * before[pick]
        after += of_second * float(_compute_logit(np.array(reproduced), self.ballot.samples))
        shifted = before + guessed * (after - before[pick])
        return np.asarray(1 / (1 + np.exp(-shifted)))

    def resample(self, pick: int, last: int | None = None) -> Spread:
        """Estimate how far the accuracy of a voter may be off, and how it compares with others.

        Samples of the holdout are resampled, and true labels drawn from their posterior: what a
        voter gets right is its expectation under the votes of the others, and a deviation from that
        in which all who say the same about a sample agree. Draws trust the model: the
        error of the model comes on top, as far as labels are not known to be right.

        Args:
            pick: a position among the voters.
            last: the position of the last checkpoint; None if it does not vote.

        Returns:
            The 95 % interval, and how probably the voter is better than others.
        """
        best = np.argsort(-self.accuracy, kind="stable")[:_RIVALS]
        best = np.append(best[best != pick], pick)
        if last is not None and last not in best:  # it may be far from the best
            best = np.append(last, best)
        predicted, expected = self._score(best)
        samples = self.ballot.samples
        counts, uniform = _draw_resamples(samples)
        drawn = np.zeros(counts.shape, dtype=predicted.dtype)
        for edge in self.truth.cumsum(axis=1)[:, :-1].T:
            drawn += uniform > edge
        hits = [
            (predicted == truth).astype(np.float32) @ count
            for truth, count in zip(drawn, counts, strict=True)
        ]
        unexplained = expected - self.truth[np.arange(samples), predicted]
        right = (np.array(hits) + counts @ unexplained.T) / samples
        guessed = float((self.labels.clean == UNKNOWN).mean())
        ends = np.quantile(right[:, -1], [0.025, 0.975]) - self.accuracy[pick]
        model_error = _MODEL_ERROR_ALONE if self.votes is None else _MODEL_ERROR_OF_RUNS
        center = self.correct(pick)[pick]
        low, high = center + [-1, 1] * np.hypot(ends, 1.96 * model_error * guessed)
        wide = self.accuracy[best] + (1 + (_WIDENING - 1) * guessed) * (right - self.accuracy[best])
        below = wide.max(axis=1) - wide[:, -1]
        beats_last = None
        if last is not None and last != pick:
            gain = wide[:, -1] - wide[:, np.flatnonzero(best == last)[0]]
            beats_last = float((gain > 0).mean() + (gain == 0).mean() / 2)
        return Spread(
            (max(0.0, float(low)), min(1.0, float(high))),
            float((below <= _NEAR).mean()),
            beats_last,
            float(below.mean()),
        )

    def _score(self, chosen: Integers) -> tuple[Classes, Floats]:
        """Return the predictions of some voters, and the probability that each is right."""
        kind = np.min_scalar_type(self.ballot.num_classes)
        predicted = np.empty((len(chosen), self.ballot.samples), dtype=kind)
        expected = np.empty(predicted.shape)
        for part, rows, truth in self.by_run():
            inside = (chosen >= part.start) & (chosen < part.stop)
            if inside.any():
                predicted[inside] = rows[chosen[inside] - part.start]
                expected[inside] = truth[np.arange(len(truth)), predicted[inside]]
        return predicted, expected


def _reproduce(q: Floats, classes: int) -> float:
    """Return the accuracy that posteriors of the predicted classes reproduce."""
    alpha = 0.5
    for _ in range(_CORRECTION_ROUNDS):
        right = q * alpha
        alpha = float(np.mean(right / (right + (1 - q) * (1 - alpha) / (classes - 1))))
    return alpha


def _compute_logit(share: Floats, samples: int) -> Floats:
    bounded = np.clip(share, 0.5 / samples, 1 - 0.5 / samples)
    return np.asarray(np.log(bounded / (1 - bounded)))


@lru_cache(maxsize=1)
def _draw_resamples(samples: int) -> tuple[npt.NDArray[np.float32], Floats]:
    """Return draws × samples: the count of each sample, and a random number for its label.

    The same for all runs of a pool that are judged one by one, so that the last is remembered.
    """
    rng = np.random.default_rng(0)
    counts = np.empty((_DRAWS, samples), dtype=np.float32)
    uniform = np.empty(counts.shape)
    for draw in range(_DRAWS):
        counts[draw] = np.bincount(rng.integers(samples, size=samples), minlength=samples)
        rng.random(out=uniform[draw])
    counts.flags.writeable = uniform.flags.writeable = False
    return counts, uniform


def estimate_accuracy(
    ballot: Ballot, labels: Labels, neighbors: Floats | None = None
) -> AccuracyEstimate:
    """Return the estimated clean accuracy of every voter.

    Args:
        ballot: the voters; each run is judged by the votes of the others.
        labels: of the holdout.
        neighbors: votes of nearest training samples, samples × classes, in place of the others'.
    """
    if neighbors is not None:
        return _estimate(ballot, labels, labels.with_votes(neighbors, _FLOOR_OF_NEIGHBORS), None)
    weight = np.ones(len(ballot.voters))
    for _ in range(_ROUNDS):
        votes = ballot.votes(weight)
        everybody = labels.with_votes(votes.shares(), _FLOOR_OF_RUNS)
        found = _estimate(ballot, labels, everybody, votes)
        weight = ballot.weights(found.accuracy)
        # Later weights have seen the labels, and could not be judged by them any more.
        if not found.belief.votes_carry or not weight.any():
            break
    return found


def _estimate(
    ballot: Ballot, labels: Labels, everybody: Observations, votes: Votes | None
) -> AccuracyEstimate:
    belief = fit_belief(everybody, labels.noise_rate)
    found = _estimate_by_belief(ballot, labels, everybody, votes, belief.symmetric_only())
    # Noise of classes cannot be told from errors of classes where the votes are weak.
    if len(belief.noises) == 1 or found.accuracy.max() < 0.5:
        return found
    return _estimate_by_belief(ballot, labels, everybody, votes, belief)


def _estimate_by_belief(
    ballot: Ballot, labels: Labels, everybody: Observations, votes: Votes | None, belief: Belief
) -> AccuracyEstimate:
    accuracy = np.zeros(len(ballot.voters))
    beliefs = () if votes is None else tuple(_fit_without_each(belief, labels, votes))
    found = AccuracyEstimate(
        ballot, labels, everybody, belief, belief.posterior(everybody), accuracy, votes, beliefs
    )
    for part, rows, truth in found.by_run():
        flat = np.arange(len(truth)) * truth.shape[1]
        accuracy[part] = truth.ravel().take(flat + rows).mean(axis=1)
    return found


def _fit_without_each(belief: Belief, labels: Labels, votes: Votes) -> Iterator[Belief]:
    """Return what to make of the votes without those of each run."""
    for number, share in enumerate(votes.parts()):
        if share < _MUCH:
            yield belief
        else:
            yield belief.refit(labels.with_votes(votes.shares(number), _FLOOR_OF_RUNS))
