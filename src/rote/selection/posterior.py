"""The posterior of the pool's true classes, from votes and from given labels that may be wrong.

Votes give a prior, p(y) = softmax(b · log(V + c) + a), with one sharpness b and a bias a per class;
given labels follow P(ỹ = l | y = k) = T_kl. All of it is fitted by expectation maximization on the
given labels, for three kinds of noise, which are then weighed by how well they predict labels that
they have not seen. Kin: Dawid and Skene 1979, CROWDLAB (Goh et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.selection.candidates import Floats, Integers

KINDS = ("symmetric", "one-rate", "free")
"""Noise that knows no classes; one rate, but wrong labels as it likes; a rate for every class."""

UNKNOWN = -1
_FOLDS = 4
_ROUNDS = 15
_NEWTON_STEPS = 3
_RIDGE = 1.0
_RATE = 0.3
_RATE_WORTH = 100.0
"""The rate of wrong labels is believed to be 0.3, as if that had been seen in so many samples."""

_SURE = 2.0
"""By how many standard errors votes must predict better than the classes' frequencies."""


@dataclass(frozen=True)
class Evidence:
    """What is known about the samples of a pool.

    Attributes:
        log_votes: log(V + c), samples × classes.
        given: the given labels, −1 where there is none.
        clean: labels that are known to be right, −1 where there is none.
    """

    log_votes: Floats
    given: Integers
    clean: Integers

    def take(self, chosen: npt.NDArray[np.bool_]) -> Evidence:
        """Some of the samples."""
        return Evidence(self.log_votes[chosen], self.given[chosen], self.clean[chosen])


@dataclass(frozen=True)
class Noise:
    """One kind of noise, fitted.

    Attributes:
        kind: which.
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
        return _softmax(self.sharpness * log_votes + self.bias)

    def posterior(self, evidence: Evidence) -> Floats:
        """p(y | ỹ), samples × classes; a sample without a label keeps its prior."""
        joint = self.prior(evidence.log_votes) * self._of_given(evidence.given)
        found = joint / joint.sum(axis=1, keepdims=True)
        is_clean = evidence.clean != UNKNOWN
        found[is_clean] = np.eye(found.shape[1])[evidence.clean[is_clean]]
        return np.asarray(found)

    def likelihood(self, evidence: Evidence) -> Floats:
        """p(ỹ) of every sample."""
        joint = self.prior(evidence.log_votes) * self._of_given(evidence.given)
        return np.asarray(joint.sum(axis=1))

    def _of_given(self, given: Integers) -> Floats:
        columns = self.matrix[:, np.maximum(given, 0)].T
        return np.where(given[:, None] == UNKNOWN, 1.0, columns)


@dataclass(frozen=True)
class Belief:
    """The kinds of noise, weighed.

    Attributes:
        noises: one fit of each kind.
        weights: how far each is believed; they sum to 1.
        gain: by how much votes predict a given label better than frequencies do, in nats.
        gain_error: its standard error.
    """

    noises: tuple[Noise, ...]
    weights: Floats
    gain: float
    gain_error: float

    @property
    def votes_carry(self) -> bool:
        """Whether votes say anything about the given labels."""
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

    def posterior(self, evidence: Evidence) -> Floats:
        """p(y | ỹ), samples × classes."""
        parts = [
            weight * noise.posterior(evidence)
            for weight, noise in zip(self.weights, self.noises, strict=True)
            if weight > 0
        ]
        return np.asarray(sum(parts))

    def symmetric_only(self) -> Belief:
        """The same, where class-dependent noise is not believed."""
        return Belief(self.noises[:1], np.ones(1), self.gain, self.gain_error)


def fit_belief(evidence: Evidence, noise_rate: float | None = None) -> Belief:
    """Fit every kind of noise and weigh them by cross-validation over samples.

    Args:
        evidence: votes of all runs, and the given labels.
        noise_rate: the share of wrong labels, if it is known.
    """
    rate = _RATE if noise_rate is None else noise_rate
    labelled = np.flatnonzero(evidence.given != UNKNOWN)
    fold = np.full(len(evidence.given), UNKNOWN)
    fold[labelled] = np.random.default_rng(0).permutation(len(labelled)) % _FOLDS
    found = np.zeros((len(evidence.given), len(KINDS)))
    by_frequency = np.zeros(len(evidence.given))
    for number in range(_FOLDS):
        seen, unseen = fold != number, fold == number
        for column, kind in enumerate(KINDS):
            noise = fit_noise(evidence.take(seen), kind, rate)
            found[unseen, column] = np.log(noise.likelihood(evidence.take(unseen)))
        by_frequency[unseen] = _log_frequencies(evidence.take(seen))[evidence.given[unseen]]
    found, by_frequency = found[labelled], by_frequency[labelled]
    weights = _stacked(found)
    gains = np.log(np.exp(found) @ weights) - by_frequency
    return Belief(
        tuple(fit_noise(evidence, kind, rate) for kind in KINDS),
        weights,
        float(gains.mean()),
        float(gains.std(ddof=1) / np.sqrt(len(gains))),
    )


def fit_noise(evidence: Evidence, kind: str, rate: float) -> Noise:
    """Fit sharpness, bias and noise by expectation maximization.

    Args:
        evidence: votes and given labels; samples without a label say nothing here.
        kind: of noise.
        rate: where the share of wrong labels is believed to be.
    """
    known = evidence.take((evidence.given != UNKNOWN) | (evidence.clean != UNKNOWN))
    classes = known.log_votes.shape[1]
    noise = Noise(kind, 1.0, np.zeros(classes), rate, _symmetric(rate, classes))
    for _ in range(_ROUNDS):
        truth = noise.posterior(known)
        share, matrix = _fitted_matrix(known.given, truth, kind, rate)
        sharpness, bias = _fitted_prior(known.log_votes, truth, noise)
        noise = Noise(kind, sharpness, bias, share, matrix)
    return noise


def _fitted_matrix(
    given: Integers, truth: Floats, kind: str, believed: float
) -> tuple[float, Floats]:
    classes = truth.shape[1]
    labelled = given != UNKNOWN
    counts = np.zeros((classes, classes))
    np.add.at(counts.T, given[labelled], truth[labelled])
    wrong = counts.sum() - np.trace(counts)
    rate = float((wrong + _RATE_WORTH * believed) / (counts.sum() + _RATE_WORTH))
    even = _symmetric(rate, classes)
    if kind == "symmetric":
        return rate, even
    if kind == "free":
        rows = counts + even
        matrix = rows / rows.sum(axis=1, keepdims=True)
        share = counts.sum(axis=1) / counts.sum()
        return float(1 - share @ np.diag(matrix)), matrix
    away = counts + 1 / (classes - 1)
    np.fill_diagonal(away, 0.0)
    matrix = rate * away / away.sum(axis=1, keepdims=True)
    np.fill_diagonal(matrix, 1 - rate)
    return rate, matrix


def _fitted_prior(log_votes: Floats, truth: Floats, start: Noise) -> tuple[float, Floats]:
    """A few Newton steps on log b and a, each halved until it helps."""
    at = np.append(np.log(start.sharpness), start.bias)
    value, gradient, curvature = _objective(log_votes, truth, at)
    for _ in range(_NEWTON_STEPS):
        step = np.linalg.solve(curvature, gradient)
        for _ in range(8):
            found = _objective(log_votes, truth, at + step)
            if found[0] >= value:
                at, (value, gradient, curvature) = at + step, found
                break
            step /= 2
        else:
            break
    return float(np.exp(at[0])), at[1:]


def _objective(log_votes: Floats, truth: Floats, at: Floats) -> tuple[float, Floats, Floats]:
    """Σ q log p less the penalties, its gradient, and its negated curvature (Fisher's)."""
    b, bias = np.exp(at[0]), at[1:]
    logits = b * log_votes + bias
    p = _softmax(logits)
    logs = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
    value = float((truth * logs).sum() - _RIDGE * (bias @ bias) / 2 - at[0] ** 2 / 2)
    rest = truth - p
    gradient = np.append(b * (rest * log_votes).sum() - at[0], rest.sum(axis=0) - _RIDGE * bias)
    centred = log_votes - (p * log_votes).sum(axis=1, keepdims=True)
    cross = b * (p * centred).sum(axis=0)
    curvature = np.empty((len(at), len(at)))
    curvature[0, 0] = b * b * (p * centred * centred).sum() + 1
    curvature[0, 1:] = curvature[1:, 0] = cross
    curvature[1:, 1:] = np.diag(p.sum(axis=0)) - p.T @ p + _RIDGE * np.eye(len(bias))
    return value, gradient, curvature


def _stacked(log_likelihood: Floats) -> Floats:
    """The mixture of kinds with the highest likelihood of labels that none has seen."""
    likelihood = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
    weights = np.full(likelihood.shape[1], 1 / likelihood.shape[1])
    for _ in range(200):
        shares = likelihood * weights
        weights = (shares / shares.sum(axis=1, keepdims=True)).mean(axis=0)
    return np.asarray(weights)


def _log_frequencies(evidence: Evidence) -> Floats:
    classes = evidence.log_votes.shape[1]
    counts = np.bincount(evidence.given[evidence.given != UNKNOWN], minlength=classes) + 1.0
    return np.asarray(np.log(counts / counts.sum()))


def _symmetric(rate: float, classes: int) -> Floats:
    matrix = np.full((classes, classes), rate / (classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
