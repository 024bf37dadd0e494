"""The true classes as votes foretell them: p(y) = softmax(b · log(V + c) + a), and its fit.

An exponential family: class y of a sample has the statistics (log(V_y + c), one-hot of y), and the
likelihood, its gradient and its curvature are sums and products of their means.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rote.selection.candidates import Floats

_RIDGE = 1.0
_STEPS = 3
_HALVINGS = 8
_CONVERGED = 1e-5
_FARTHEST = 100.0
"""A step of log b goes no further: it is halved until it helps, but not a number helps nobody."""


@dataclass(frozen=True)
class VotePrior:
    """The prior of some samples, at one sharpness b and one bias a per class.

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
        """What is believed of b and a beforehand: a Gaussian."""
        return float(_RIDGE * (self.at @ self.at) / 2)

    def statistics(self, truth: Floats) -> Floats:
        """Return the sums of log votes and of classes, if those are the true classes."""
        return np.append(np.vdot(truth, self.log_votes), truth.sum(axis=1))

    def value(self, wanted: Floats) -> float:
        """Σ q log p less the penalty, of a truth q that has such statistics."""
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
        """That of the value, negated (Fisher's): the same for every truth."""
        found = self._moments[1].copy()
        found[0] *= self.sharpness
        found[:, 0] *= self.sharpness
        found.flat[:: len(found) + 1] += _RIDGE
        return found

    @cached_property
    def _moments(self) -> tuple[Floats, Floats]:
        """Of the statistics, summed over samples: their means, and their covariance."""
        weighed = self.p * self.log_votes
        means = np.concatenate((weighed.sum(axis=0, keepdims=True), self.p))
        covariance = -(means @ means.T)
        covariance[0, 0] += np.vdot(weighed, self.log_votes)
        covariance[0, 1:] += weighed.sum(axis=1)
        covariance[1:, 0] = covariance[0, 1:]
        sums = means.sum(axis=1)
        covariance.flat[len(covariance) + 1 :: len(covariance) + 1] += sums[1:]
        return sums, covariance

    def fitted(self, truth: Floats) -> VotePrior:
        """Take a few Newton steps on log b and a toward a truth, each halved until it helps."""
        wanted = self.statistics(truth)
        found, value = self, self.value(wanted)
        for _ in range(_STEPS):
            step = np.linalg.solve(found.curvature, found.gradient(wanted))
            if np.abs(step).max() < _CONVERGED:
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
