"""The posterior of the holdout's true classes, from votes and from given labels that may be wrong.

Three kinds of noise are fitted to the given labels, and weighed by how well they predict labels
that they have not seen. Related work: CROWDLAB (Goh et al. 2022).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from rote.selection.candidates import Floats
from rote.selection.label_noise import KINDS, RATE, TINY, UNKNOWN, Noise, Observations, fit_noise

_FOLDS = 4
_FEWEST = 2 * _FOLDS
_PER_CLASS = 5
"""Labels per class, on average, below which noise that knows classes is not tried."""

_LITTLE = 0.01
"""The weight of a kind of noise below which it is not fitted anew."""

_SURE = 2.0
"""By how many standard errors votes must predict better than the classes' frequencies."""

_FEWEST_REMEMBERED, _MOST_REMEMBERED = 4, 256
_MOST_CELLS = 1 << 18
"""Of the noise matrices that are remembered, two megabytes for each kind of noise."""

_remembered: dict[tuple[bytes, float], Belief] = {}


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

    def posterior(self, evidence: Observations) -> Floats:
        """p(y | ỹ), samples × classes."""
        parts = [
            weight * noise.posterior(evidence)
            for weight, noise in zip(self.weights, self.noises, strict=True)
            if weight > 0
        ]
        return np.asarray(sum(parts))

    def refitted(self, evidence: Observations) -> Belief:
        """Return the same noise, with sharpness and bias for other votes, which may be worse."""
        refits = (
            fit_noise(evidence, noise.kind, None, start=noise) if weight > _LITTLE else noise
            for weight, noise in zip(self.weights, self.noises, strict=True)
        )
        return replace(self, noises=tuple(refits))

    def symmetric_only(self) -> Belief:
        """Return the same, where class-dependent noise is not believed."""
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
    _remembered[asked] = found  # the last one asked for is the last one forgotten
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
    """Return the mixture of kinds with the highest likelihood of labels that none has seen."""
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
