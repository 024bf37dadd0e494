"""The noise of given labels, fitted together with the true classes that votes suggest.

Votes give a prior, p(y) = softmax(b · log(V + c) + a), with one sharpness b and a bias a per class;
given labels follow P(ỹ = l | y = k) = T_kl. All of it is fitted by expectation maximization on the
given labels. Three kinds of noise are fitted, and weighted by how well they predict labels that
they have not seen. Related work: Dawid and Skene 1979, CROWDLAB (Goh et al. 2022).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from rote.selection.candidates import Floats, Integers

_RIDGE = 1.0
_STEPS = 3
_HALVINGS = 8
_PRIOR_CONVERGED = 1e-5
_FARTHEST = 100.0
"""The largest step of log b. Steps are halved until they help, which fails on NaN."""


@dataclass(frozen=True)
class VotePrior:
    """The prior of some samples, at one sharpness b and one bias a per class.

    An exponential family: class y of a sample has the statistics (log(V_y + c), one-hot of y), and
    the likelihood, its gradient and its curvature are sums and products of their means.

    Attributes:
        log_votes: log(V + c), classes × samples: sums over classes add whole rows.
        at: log b, then a.
        sharpness: b.
        p: p(y), classes × samples.
        log_total: Σ log Σ exp(b · log(V + c) + a), over samples and classes.
    """

    log_votes: Floats
    at: Floats
    sharpness: float
    p: Floats
    log_total: float

    @classmethod
    def of(cls, log_votes: Floats, at: Floats) -> VotePrior:
        """Return the prior at log b and a.

        Args:
            log_votes: classes × samples, none above 0 and the highest of every sample 0: else
                likelihoods cancel out in rounding where b is large.
            at: log b, then a.
        """
        sharpness = math.exp(min(at[0], _FARTHEST))
        p = sharpness * log_votes
        p += at[1:, None]
        top = p.max(axis=0)
        p -= top
        np.exp(p, out=p)
        total = p.sum(axis=0)
        p /= total
        return cls(log_votes, at, sharpness, p, float(top.sum() + np.log(total).sum()))

    @property
    def penalty(self) -> float:
        """The prior of b and a, a Gaussian."""
        return float(_RIDGE * (self.at @ self.at) / 2)

    def statistics(self, truth: Floats) -> Floats:
        """Return the sums of log votes and of classes, if those are the true classes."""
        return np.append(np.vdot(truth, self.log_votes), truth.sum(axis=1))

    def value(self, wanted: Floats) -> float:
        """Return Σ q log p minus the penalty, for a truth q with such statistics."""
        likelihood = self.sharpness * wanted[0] + self.at[1:] @ wanted[1:] - self.log_total
        return float(likelihood - self.penalty)

    def gradient(self, wanted: Floats) -> Floats:
        """Return the gradient of that value by log b and a."""
        found = wanted - self._moments[0]
        found[0] *= self.sharpness
        found -= _RIDGE * self.at
        return np.asarray(found)

    @cached_property
    def curvature(self) -> Floats:
        """Return the negative curvature of the value (Fisher's), the same for every truth."""
        found = self._moments[1].copy()
        found[0] *= self.sharpness
        found[:, 0] *= self.sharpness
        found.flat[:: len(found) + 1] += _RIDGE
        return found

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Return the means and the covariance of the statistics, summed over samples."""
        weighed = self.p * self.log_votes
        means = np.concatenate((weighed.sum(axis=0, keepdims=True), self.p))
        covariance = -(means @ means.T)
        covariance[0, 0] += np.vdot(weighed, self.log_votes)
        covariance[0, 1:] += weighed.sum(axis=1)
        covariance[1:, 0] = covariance[0, 1:]
        sums = means.sum(axis=1)
        covariance.flat[len(covariance) + 1 :: len(covariance) + 1] += sums[1:]
        return sums, covariance

    def fit(self, truth: Floats) -> VotePrior:
        """Take a few Newton steps on log b and a toward a truth, each halved until it helps."""
        wanted = self.statistics(truth)
        found, value = self, self.value(wanted)
        for _ in range(_STEPS):
            step = np.linalg.solve(found.curvature, found.gradient(wanted))
            if np.abs(step).max() < _PRIOR_CONVERGED:
                break
            for _ in range(_HALVINGS):
                there = VotePrior.of(self.log_votes, found.at + step)
                if (reached := there.value(wanted)) >= value:
                    found, value = there, reached
                    break
                step /= 2
            else:
                break
        return found


KINDS = ("symmetric", "one-rate", "free")
"""Kinds of noise: uniform; one rate with any confusion of classes; one rate per class."""

UNKNOWN = -1
RATE = 0.3
"""The prior of the noise rate, with the weight of this many samples."""

_RATE_WORTH = 100.0
_ROUNDS = 60
_CONVERGED = 1e-4
TINY = 1e-12
_WIDEST = 5.0


@dataclass(frozen=True)
class Observations:
    """Votes and labels of the samples of a holdout.

    Attributes:
        log_votes: log(V + c), samples × classes.
        given: the given labels, −1 where there is none.
        clean: labels that are known to be right, −1 where there is none.
    """

    log_votes: Floats
    given: Integers
    clean: Integers

    @property
    def label(self) -> Integers:
        """The given label, or else the clean one, or else −1."""
        return np.where(self.given == UNKNOWN, self.clean, self.given)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Observations:
        """Return some of the samples."""
        return Observations(self.log_votes[chosen], self.given[chosen], self.clean[chosen])

    def digest(self) -> bytes:
        """Return a key that is equal for equal evidence only."""
        arrays = (self.log_votes, self.given, self.clean)
        shape = repr([(array.shape, array.dtype.str) for array in arrays]).encode()
        return blake2b(b"".join((shape, *(array.tobytes() for array in arrays)))).digest()

    def without_clean(self) -> Observations:
        """Return the same evidence without the clean labels."""
        return replace(self, clean=np.full_like(self.clean, UNKNOWN))


@dataclass(frozen=True)
class Noise:
    """The fit of one kind of noise.

    Attributes:
        kind: the kind of noise.
        sharpness: b.
        bias: a, one per class.
        rate: ε, the share of wrong labels.
        matrix: T, true class × given label.
    """

    kind: str
    sharpness: float
    bias: Floats
    rate: float
    matrix: Floats

    def prior(self, log_votes: Floats) -> Floats:
        """p(y), samples × classes."""
        return _compute_softmax(self.sharpness * log_votes + self.bias)

    def posterior(self, evidence: Observations) -> Floats:
        """p(y | ỹ), samples × classes; a sample without a label keeps its prior."""
        # In logarithms: a rate of 0 and sharp votes that contradict a label are no 0 / 0.
        of_given = np.log(np.maximum(self._gather_given(evidence.given), TINY))
        found = _compute_softmax(self.sharpness * evidence.log_votes + self.bias + of_given)
        is_clean = evidence.clean != UNKNOWN
        found[is_clean] = np.eye(found.shape[1])[evidence.clean[is_clean]]
        return found

    def likelihood(self, evidence: Observations) -> Floats:
        """Return the probability of every sample's given label, or else of its clean label."""
        prior = self.prior(evidence.log_votes)
        joint = (prior * self._gather_given(evidence.given)).sum(axis=1)
        of_clean = prior[np.arange(len(prior)), np.maximum(evidence.clean, 0)]
        return np.where(evidence.given == UNKNOWN, of_clean, joint)

    def _gather_given(self, given: Integers) -> Floats:
        columns = self.matrix[:, np.maximum(given, 0)].T
        return np.where(given[:, None] == UNKNOWN, 1.0, columns)

    def pack(self) -> Floats:
        """Return all parameters in one row, in a space where they can be extrapolated."""
        logs = np.log(np.maximum(self.matrix, TINY)).ravel()
        return np.concatenate(([np.log(self.sharpness)], self.bias, logs))

    def unpack(self, row: Floats) -> Noise:
        """Return the noise of a row of ``packed``."""
        classes = len(self.bias)
        logs = row[1 + classes :].reshape(classes, classes)
        sharpness = float(np.exp(np.clip(row[0], -_WIDEST, _WIDEST)))
        return replace(
            self, sharpness=sharpness, bias=row[1 : 1 + classes], matrix=_compute_softmax(logs)
        )


def fit_noise(
    evidence: Observations, kind: str, rate: float | None, start: Noise | None = None
) -> Noise:
    """Fit sharpness, bias and noise by expectation maximization.

    Sharpness and rate pull at each other, and plain rounds creep: after every two, the way of both
    is extrapolated (SQUAREM, Varadhan and Roland 2008), if that does not lower the likelihood.

    Args:
        evidence: votes and given labels; samples without a label say nothing here.
        kind: the kind of noise.
        rate: the prior of the share of wrong labels; None to keep the noise of `start`.
        start: the initial fit.
    """
    known = evidence.take(evidence.label != UNKNOWN)
    noise = start or _make_first_guess(
        kind, known.log_votes.shape[1], RATE if rate is None else rate
    )
    samples = _Samples.of(known)
    guess = _Guess.of(samples, noise)
    for _ in range(_ROUNDS):
        first = guess.improve(rate)
        second = first.improve(rate)
        step, turn = _compute_steps(guess.noise, first.noise, second.noise)
        if np.abs(step).max() < _CONVERGED:
            return second.noise
        length = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(turn)), TINY))
        way = 2 * length * step + length**2 * turn
        far = _Guess.of(samples, guess.noise.unpack(guess.noise.pack() + way)).improve(rate)
        guess = far if far.value(rate) >= second.value(rate) else second
    return guess.noise


def _make_first_guess(kind: str, classes: int, rate: float) -> Noise:
    return Noise(kind, 1.0, np.zeros(classes), rate, make_symmetric_matrix(rate, classes))


def _compute_steps(noise: Noise, first: Noise, second: Noise) -> tuple[Floats, Floats]:
    """Compute the first step from the noise, and how much the next step differs from it."""
    before, between, after = noise.pack(), first.pack(), second.pack()
    return between - before, after - 2 * between + before


@dataclass(frozen=True)
class _Samples:
    """Samples with labels, in the form that every round of a fit uses.

    Attributes:
        log_votes: log(V + c) less its highest of every sample, classes × samples.
        given: the given labels, −1 where there is none.
        one_hot: the same, samples × classes.
        is_clean: which of them have a label that is known to be right.
        clean: these labels.
    """

    log_votes: Floats
    given: Integers
    one_hot: Floats
    is_clean: npt.NDArray[np.bool_]
    clean: Integers

    @classmethod
    def of(cls, known: Observations) -> _Samples:
        classes = known.log_votes.shape[1]
        one_hot = np.eye(classes + 1, classes)[known.given]  # nothing where there is no label
        is_clean = known.clean != UNKNOWN
        log_votes = np.ascontiguousarray(known.log_votes.T)
        return cls(
            log_votes - log_votes.max(axis=0), known.given, one_hot, is_clean, known.clean[is_clean]
        )


@dataclass(frozen=True)
class _Guess:
    """A noise during the fit, with its posterior for the samples.

    Attributes:
        samples: these.
        noise: with the sharpness and bias of ``prior``.
        prior: p(y).
    """

    samples: _Samples
    noise: Noise
    prior: VotePrior

    @classmethod
    def of(cls, samples: _Samples, noise: Noise) -> _Guess:
        at = np.append(np.log(noise.sharpness), noise.bias)
        return cls(samples, noise, VotePrior.of(samples.log_votes, at))

    @cached_property
    def joint(self) -> Floats:
        """p(y, ỹ), classes × samples; of a sample without a given label p(y)."""
        return np.asarray(self.prior.p * _make_columns(self.noise.matrix, self.samples.given))

    @cached_property
    def marginal(self) -> Floats:
        """p(ỹ), which is never 0."""
        return np.asarray(self.joint.sum(axis=0))

    def truth(self) -> Floats:
        """p(y | ỹ), classes × samples."""
        found = self.joint / self.marginal
        if len(self.samples.clean):
            found[:, self.samples.is_clean] = np.eye(len(found))[:, self.samples.clean]
        return np.asarray(found)

    def improve(self, rate: float | None) -> _Guess:
        """Run one round of expectation maximization."""
        truth, noise = self.truth(), self.noise
        share, matrix = noise.rate, noise.matrix
        if rate is not None:
            share, matrix = fit_matrix(truth @ self.samples.one_hot, noise.kind, rate)
        prior = self.prior.fit(truth)
        at = prior.at
        found = Noise(noise.kind, float(np.exp(at[0])), at[1:], share, matrix)
        return _Guess(self.samples, found, prior)

    def value(self, rate: float | None) -> float:
        """Return the log posterior: log likelihood plus log prior."""
        believed = 0.0
        if rate is not None and self.noise.kind != "free":
            wrong, right = max(self.noise.rate, TINY), max(1 - self.noise.rate, TINY)
            believed = _RATE_WORTH * (rate * np.log(wrong) + (1 - rate) * np.log(right))
        likelihood = self.marginal
        if len(self.samples.clean):
            likelihood = likelihood.copy()
            of_clean = self.joint[:, self.samples.is_clean]
            which = (self.samples.clean, np.arange(len(self.samples.clean)))
            likelihood[self.samples.is_clean] = of_clean[which]
        return float(np.log(np.maximum(likelihood, TINY)).sum() + believed - self.prior.penalty)


def fit_matrix(counts: Floats, kind: str, believed: float) -> tuple[float, Floats]:
    """Return the rate of wrong labels and the matrix, from counts of true class × given label."""
    classes = len(counts)
    wrong = counts.sum() - np.trace(counts)
    rate = float((wrong + _RATE_WORTH * believed) / (counts.sum() + _RATE_WORTH))
    even = make_symmetric_matrix(rate, classes)
    if kind == "symmetric":
        return rate, even
    if kind == "free":
        rows = counts + even
        matrix = rows / rows.sum(axis=1, keepdims=True)
        share = rows.sum(axis=1) / rows.sum()
        return float(1 - share @ np.diag(matrix)), matrix
    away = counts + 1 / (classes - 1)
    np.fill_diagonal(away, 0.0)
    matrix = rate * away / away.sum(axis=1, keepdims=True)
    np.fill_diagonal(matrix, 1 - rate)
    return rate, matrix


def _make_columns(matrix: Floats, given: Integers) -> Floats:
    """P(ỹ | y), classes × samples; 1 for a sample without a given label."""
    # Not quite 0: a rate of 0 and sharp votes that contradict a label would be 0 / 0.
    of_given = np.ones((len(matrix), len(matrix) + 1))
    np.maximum(matrix, TINY, out=of_given[:, :-1])
    return of_given.take(given, axis=1)


def make_symmetric_matrix(rate: float, classes: int) -> Floats:
    """Return the noise matrix in which every wrong class is as probable as another."""
    matrix = np.full((classes, classes), rate / (classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def _compute_softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


_FOLDS = 4
_FEWEST = 2 * _FOLDS
_PER_CLASS = 5
"""Class-dependent noise is not tried with fewer labels per class than this, on average."""

_LITTLE = 0.01
"""The weight of a kind of noise below which it is not fitted again."""

_SURE = 2.0
"""By how many standard errors votes must predict better than the classes' frequencies."""

_FEWEST_REMEMBERED, _MOST_REMEMBERED = 4, 256
_MOST_CELLS = 1 << 18
"""Of the noise matrices that are remembered, two megabytes for each kind of noise."""

_remembered: dict[tuple[bytes, float], Belief] = {}


@dataclass(frozen=True)
class Belief:
    """The weighted kinds of noise.

    Attributes:
        noises: one fit of each kind.
        weights: the weight of each kind; they sum to 1.
        gain: by how much votes predict a given label better than frequencies do, in nats.
        gain_error: its standard error.
    """

    noises: tuple[Noise, ...]
    weights: Floats
    gain: float
    gain_error: float

    @property
    def votes_carry(self) -> bool:
        """Whether votes are informative about the given labels."""
        return self.gain > _SURE * self.gain_error

    @property
    def rate(self) -> float:
        """The estimated share of wrong labels."""
        return float(
            sum(w * noise.rate for w, noise in zip(self.weights, self.noises, strict=True))
        )

    @property
    def matrix(self) -> Floats:
        """The estimated noise matrix, true class × given label."""
        matrices = (w * noise.matrix for w, noise in zip(self.weights, self.noises, strict=True))
        return np.asarray(sum(matrices))

    def posterior(self, evidence: Observations) -> Floats:
        """p(y | ỹ), samples × classes."""
        parts = [
            weight * noise.posterior(evidence)
            for weight, noise in zip(self.weights, self.noises, strict=True)
            if weight > 0
        ]
        return np.asarray(sum(parts))

    def refit(self, evidence: Observations) -> Belief:
        """Return the same noise, with sharpness and bias for other votes, which may be worse."""
        refits = (
            fit_noise(evidence, noise.kind, None, start=noise) if weight > _LITTLE else noise
            for weight, noise in zip(self.weights, self.noises, strict=True)
        )
        return replace(self, noises=tuple(refits))

    def symmetric_only(self) -> Belief:
        """Return the same without class-dependent noise."""
        return Belief(self.noises[:1], np.ones(1), self.gain, self.gain_error)


def fit_belief(evidence: Observations, noise_rate: float | None = None) -> Belief:
    """Fit every kind of noise and weigh them by cross-validation over samples.

    The last fits are remembered: the neighbors' votes are the same for all runs of a pool, and
    several rules and studies ask for the same belief.

    Args:
        evidence: votes of all runs, and the given labels.
        noise_rate: the share of wrong labels, if it is known.
    """
    rate = RATE if noise_rate is None else noise_rate
    asked = (evidence.digest(), rate)
    found = _remembered.pop(asked, None) or _fit_belief(evidence, rate)
    _remembered[asked] = found  # the most recently used entry is dropped last
    affordable = _MOST_CELLS // evidence.log_votes.shape[1] ** 2
    most = min(max(affordable, _FEWEST_REMEMBERED), _MOST_REMEMBERED)
    while len(_remembered) > most:
        _remembered.pop(next(iter(_remembered)), None)
    return found


def _fit_belief(evidence: Observations, rate: float) -> Belief:
    label = evidence.label
    labeled = np.flatnonzero(label != UNKNOWN)
    is_enough = len(labeled) >= _PER_CLASS * evidence.log_votes.shape[1]
    fits = tuple(fit_noise(evidence, kind, rate) for kind in KINDS[: None if is_enough else 1])
    if len(labeled) < _FEWEST:
        return Belief(fits[:1], np.ones(1), 0.0, np.inf)
    fold = np.full(len(label), UNKNOWN)
    fold[labeled] = np.random.default_rng(0).permutation(len(labeled)) % _FOLDS
    found, by_frequency = np.zeros((len(label), len(fits))), np.zeros(len(label))
    for number in range(_FOLDS):
        seen, unseen = evidence.take(fold != number), evidence.take(fold == number)
        for column, fit in enumerate(fits):
            noise = fit_noise(seen, fit.kind, rate, start=fit)
            found[fold == number, column] = np.log(np.maximum(noise.likelihood(unseen), TINY))
        by_frequency[fold == number] = _log_frequencies(seen)[unseen.label]
    found, by_frequency = found[labeled], by_frequency[labeled]
    weights = stack(found)
    gains = np.log(np.exp(found) @ weights) - by_frequency
    error = float(gains.std(ddof=1) / np.sqrt(len(gains)))
    return Belief(fits, weights, float(gains.mean()), error)


def stack(log_likelihood: Floats) -> Floats:
    """Return the mixture of kinds with the highest likelihood of held-out labels."""
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(200):
        shares = likelihood * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(weights)


def _log_frequencies(evidence: Observations) -> Floats:
    classes = evidence.log_votes.shape[1]
    label = evidence.label
    counts = np.bincount(label[label != UNKNOWN], minlength=classes) + 1.0
    return np.asarray(np.log(counts / counts.sum()))
