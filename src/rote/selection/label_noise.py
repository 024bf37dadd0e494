"""The noise of given labels, fitted together with what votes say about the true classes.

Votes give a prior, p(y) = softmax(b · log(V + c) + a), with one sharpness b and a bias a per class;
given labels follow P(ỹ = l | y = k) = T_kl. All of it is fitted by expectation maximization on the
given labels. Related work: Dawid and Skene 1979.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from rote.selection.candidates import Floats, Integers
from rote.selection.vote_prior import VotePrior

KINDS = ("symmetric", "one-rate", "free")
"""Noise that knows no classes; one rate, but wrong labels as it likes; a rate for every class."""

UNKNOWN = -1
RATE = 0.3
"""The rate of wrong labels is believed to be this, as if it had been seen in so many samples."""

_RATE_WORTH = 100.0
_ROUNDS = 60
_CONVERGED = 1e-4
TINY = 1e-12
_WIDEST = 5.0


@dataclass(frozen=True)
class Observations:
    """What is known about the samples of a holdout.

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

    def posterior(self, evidence: Observations) -> Floats:
        """p(y | ỹ), samples × classes; a sample without a label keeps its prior."""
        # In logarithms: a rate of 0 and sharp votes that contradict a label are no 0 / 0.
        of_given = np.log(np.maximum(self._of_given(evidence.given), TINY))
        found = _softmax(self.sharpness * evidence.log_votes + self.bias + of_given)
        is_clean = evidence.clean != UNKNOWN
        found[is_clean] = np.eye(found.shape[1])[evidence.clean[is_clean]]
        return found

    def likelihood(self, evidence: Observations) -> Floats:
        """How probable the label of every sample is: the given one, or else the clean one."""
        prior = self.prior(evidence.log_votes)
        joint = (prior * self._of_given(evidence.given)).sum(axis=1)
        of_clean = prior[np.arange(len(prior)), np.maximum(evidence.clean, 0)]
        return np.where(evidence.given == UNKNOWN, of_clean, joint)

    def _of_given(self, given: Integers) -> Floats:
        columns = self.matrix[:, np.maximum(given, 0)].T
        return np.where(given[:, None] == UNKNOWN, 1.0, columns)

    def packed(self) -> Floats:
        """Everything in one row, where it can be extrapolated."""
        logs = np.log(np.maximum(self.matrix, TINY)).ravel()
        return np.concatenate(([np.log(self.sharpness)], self.bias, logs))

    def unpacked(self, row: Floats) -> Noise:
        """Return the noise of a row of ``packed``."""
        classes = len(self.bias)
        logs = row[1 + classes :].reshape(classes, classes)
        sharpness = float(np.exp(np.clip(row[0], -_WIDEST, _WIDEST)))
        return replace(self, sharpness=sharpness, bias=row[1 : 1 + classes], matrix=_softmax(logs))


def fit_noise(
    evidence: Observations, kind: str, rate: float | None, start: Noise | None = None
) -> Noise:
    """Fit sharpness, bias and noise by expectation maximization.

    Sharpness and rate pull at each other, and plain rounds creep: after every two, the way of both
    is extrapolated (SQUAREM, Varadhan and Roland 2008), if that does not lower the likelihood.

    Args:
        evidence: votes and given labels; samples without a label say nothing here.
        kind: of noise.
        rate: where the share of wrong labels is believed to be; None to keep the noise of `start`.
        start: where to begin.
    """
    known = evidence.take(evidence.label != UNKNOWN)
    noise = start or _first_guess(kind, known.log_votes.shape[1], RATE if rate is None else rate)
    samples = _Samples.of(known)
    guess = _Guess.of(samples, noise)
    for _ in range(_ROUNDS):
        first = guess.improved(rate)
        second = first.improved(rate)
        step, turn = _steps(guess.noise, first.noise, second.noise)
        if np.abs(step).max() < _CONVERGED:
            return second.noise
        length = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(turn)), TINY))
        way = 2 * length * step + length**2 * turn
        far = _Guess.of(samples, guess.noise.unpacked(guess.noise.packed() + way)).improved(rate)
        guess = far if far.value(rate) >= second.value(rate) else second
    return guess.noise


def _first_guess(kind: str, classes: int, rate: float) -> Noise:
    return Noise(kind, 1.0, np.zeros(classes), rate, symmetric_matrix(rate, classes))


def _steps(noise: Noise, first: Noise, second: Noise) -> tuple[Floats, Floats]:
    """From the noise to the first, and by how much the next step differs from that one."""
    before, between, after = noise.packed(), first.packed(), second.packed()
    return between - before, after - 2 * between + before


@dataclass(frozen=True)
class _Samples:
    """Samples with labels, as a fit goes over them again and again.

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
    """A noise on the way to the fit, and what it says about the samples.

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
        return np.asarray(self.prior.p * _columns(self.noise.matrix, self.samples.given))

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

    def improved(self, rate: float | None) -> _Guess:
        """Run one round of expectation maximization."""
        truth, noise = self.truth(), self.noise
        share, matrix = noise.rate, noise.matrix
        if rate is not None:
            share, matrix = fit_matrix(truth @ self.samples.one_hot, noise.kind, rate)
        prior = self.prior.fitted(truth)
        at = prior.at
        found = Noise(noise.kind, float(np.exp(at[0])), at[1:], share, matrix)
        return _Guess(self.samples, found, prior)

    def value(self, rate: float | None) -> float:
        """Return the logarithm of the likelihood with what is believed beforehand."""
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
    even = symmetric_matrix(rate, classes)
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


def _columns(matrix: Floats, given: Integers) -> Floats:
    """P(ỹ | y), classes × samples; 1 for a sample without a given label."""
    # Not quite 0: a rate of 0 and sharp votes that contradict a label would be 0 / 0.
    of_given = np.ones((len(matrix), len(matrix) + 1))
    np.maximum(matrix, TINY, out=of_given[:, :-1])
    return of_given.take(given, axis=1)


def symmetric_matrix(rate: float, classes: int) -> Floats:
    """Return the noise matrix in which every wrong class is as probable as another."""
    matrix = np.full((classes, classes), rate / (classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
