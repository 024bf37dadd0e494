"""The noise of given labels, fitted together with what votes say about the true classes.

Votes give a prior, p(y) = softmax(b · log(V + c) + a), with one sharpness b and a bias a per class;
given labels follow P(ỹ = l | y = k) = T_kl. All of it is fitted by expectation maximization on the
given labels. Kin: Dawid and Skene 1979.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from rote.selection.candidates import Floats, Integers

KINDS = ("symmetric", "one-rate", "free")
"""Noise that knows no classes; one rate, but wrong labels as it likes; a rate for every class."""

UNKNOWN = -1
RATE = 0.3
"""The rate of wrong labels is believed to be this, as if it had been seen in so many samples."""

_RATE_WORTH = 100.0
_ROUNDS = 60
_CONVERGED = 1e-4
_NEWTON_STEPS = 3
_RIDGE = 1.0
TINY = 1e-12
_WIDEST = 5.0
_FARTHEST = 100.0
"""A step of log b goes no further: it is halved until it helps, but not a number helps nobody."""


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

    @property
    def label(self) -> Integers:
        """The given label, or else the clean one, or else −1."""
        return np.where(self.given == UNKNOWN, self.clean, self.given)

    def take(self, chosen: npt.NDArray[np.bool_]) -> Evidence:
        """Some of the samples."""
        return Evidence(self.log_votes[chosen], self.given[chosen], self.clean[chosen])

    def digest(self) -> bytes:
        """The same for the same evidence, and for no other."""
        arrays = (self.log_votes, self.given, self.clean)
        shape = repr([(array.shape, array.dtype.str) for array in arrays]).encode()
        return blake2b(b"".join((shape, *(array.tobytes() for array in arrays)))).digest()

    def without_clean(self) -> Evidence:
        """The same, as if no clean label were known."""
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

    def posterior(self, evidence: Evidence) -> Floats:
        """p(y | ỹ), samples × classes; a sample without a label keeps its prior."""
        # In logarithms: a rate of 0 and sharp votes that contradict a label are no 0 / 0.
        of_given = np.log(np.maximum(self._of_given(evidence.given), TINY))
        found = _softmax(self.sharpness * evidence.log_votes + self.bias + of_given)
        is_clean = evidence.clean != UNKNOWN
        found[is_clean] = np.eye(found.shape[1])[evidence.clean[is_clean]]
        return found

    def likelihood(self, evidence: Evidence) -> Floats:
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
        """The opposite."""
        classes = len(self.bias)
        logs = row[1 + classes :].reshape(classes, classes)
        sharpness = float(np.exp(np.clip(row[0], -_WIDEST, _WIDEST)))
        return replace(self, sharpness=sharpness, bias=row[1 : 1 + classes], matrix=_softmax(logs))


def fit_noise(
    evidence: Evidence, kind: str, rate: float | None, start: Noise | None = None
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
    for _ in range(_ROUNDS):
        first = _round(noise, known, rate)
        second = _round(first, known, rate)
        step, turn = _steps(noise, first, second)
        if np.abs(step).max() < _CONVERGED:
            return second
        length = max(1.0, float(np.linalg.norm(step)) / max(float(np.linalg.norm(turn)), TINY))
        far = noise.unpacked(noise.packed() + 2 * length * step + length**2 * turn)
        far = _round(far, known, rate)
        noise = far if _value(far, known, rate) >= _value(second, known, rate) else second
    return noise


def _first_guess(kind: str, classes: int, rate: float) -> Noise:
    return Noise(kind, 1.0, np.zeros(classes), rate, _symmetric(rate, classes))


def _round(noise: Noise, known: Evidence, rate: float | None) -> Noise:
    truth = noise.posterior(known)
    share, matrix = noise.rate, noise.matrix
    if rate is not None:
        share, matrix = _fitted_matrix(known.given, truth, noise.kind, rate)
    sharpness, bias = _fitted_prior(known.log_votes, truth, noise)
    return Noise(noise.kind, sharpness, bias, share, matrix)


def _steps(noise: Noise, first: Noise, second: Noise) -> tuple[Floats, Floats]:
    """From the noise to the first, and by how much the next step differs from that one."""
    before, between, after = noise.packed(), first.packed(), second.packed()
    return between - before, after - 2 * between + before


def _value(noise: Noise, known: Evidence, rate: float | None) -> float:
    """The logarithm of the likelihood with what is believed beforehand."""
    believed = 0.0
    if rate is not None and noise.kind != "free":
        wrong, right = max(noise.rate, TINY), max(1 - noise.rate, TINY)
        believed = _RATE_WORTH * (rate * np.log(wrong) + (1 - rate) * np.log(right))
    likelihood = np.where(
        known.clean == UNKNOWN, noise.likelihood(known), _joint_of_clean(noise, known)
    )
    penalty = _RIDGE * (noise.bias @ noise.bias) + np.log(noise.sharpness) ** 2
    return float(np.log(np.maximum(likelihood, TINY)).sum() + believed - penalty / 2)


def _joint_of_clean(noise: Noise, known: Evidence) -> Floats:
    """p(y, ỹ) where y is known."""
    clean = np.maximum(known.clean, 0)
    of_given = np.where(known.given == UNKNOWN, 1.0, noise.matrix[clean, known.given])
    return np.asarray(noise.prior(known.log_votes)[np.arange(len(clean)), clean] * of_given)


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
        share = rows.sum(axis=1) / rows.sum()
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
        if np.abs(step).max() < _CONVERGED / 10:
            break
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
    b, bias = np.exp(min(at[0], _FARTHEST)), at[1:]
    logits = b * log_votes + bias
    logits -= logits.max(axis=1, keepdims=True)
    p = np.exp(logits)
    total = p.sum(axis=1, keepdims=True)
    p /= total
    logs = logits - np.log(total)
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


def _symmetric(rate: float, classes: int) -> Floats:
    matrix = np.full((classes, classes), rate / (classes - 1))
    np.fill_diagonal(matrix, 1 - rate)
    return matrix


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))
