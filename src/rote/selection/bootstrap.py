"""Correlations, and how much they would change with other runs: the bootstrap over runs.

Checkpoints of one run are not independent; so whole runs are drawn, with replacement. A draw is a
row of weights, one per checkpoint: how often its run was drawn. Every measure takes all draws at
once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from rote.selection.candidates import Booleans, Floats, Integers

_FEWEST_RUNS = 5
_MOST_ROWS = 2_000
_MOST_RUNS = 4_000
_ROUNDING = 1e-12

Measure = Callable[[Floats, Floats, Floats], Floats]
"""From two values per checkpoint and weights (draws × checkpoints) to one number per draw."""


@dataclass(frozen=True)
class Estimate:
    """A number, and where it may lie.

    Attributes:
        value: over all checkpoints; None if it is not defined.
        low: the lower end of the interval.
        high: the upper end.
        reason: why there is no value, or no interval.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Draws:
    """How the runs are drawn.

    Attributes:
        resamples: how often.
        confidence: the share of draws inside an interval.
        seed: of the generator.
    """

    resamples: int = 1_000
    confidence: float = 0.95
    seed: int = 0

    def counts(self, runs: int) -> Floats:
        """How often each run is drawn, draws × runs."""
        rng = np.random.default_rng(self.seed)
        return rng.multinomial(runs, np.full(runs, 1 / runs), size=self.resamples).astype(float)

    def interval(self, values: Floats) -> tuple[float, float] | None:
        """The middle of the draws, None if most of them have no value."""
        known = values[np.isfinite(values)]
        if 2 * len(known) < len(values):
            return None
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(known, [tail, 1 - tail])
        return float(low), float(high)

    def estimate(self, value: float, drawn: Floats) -> Estimate:
        """A value with the interval of what it is in every draw."""
        interval = self.interval(drawn)
        if interval is None:
            return Estimate(value, reason="In most draws of runs it is not defined.")
        return Estimate(value, *interval)


def too_few(runs: int) -> str | None:
    """Why so many runs have no interval, None if they have."""
    if runs < _FEWEST_RUNS:
        return f"{runs} runs are too few for an interval; it takes {_FEWEST_RUNS}."
    return None


def redrawn(
    measure: Measure, x: Floats, y: Floats, run: Integers, draws: Draws, zeta: Floats | None = None
) -> Floats | str:
    """A measure in every draw of runs, or why it is not drawn.

    Beyond 2,000 checkpoints, only as many, evenly spaced within their runs, are looked at: it is
    the runs that vary.

    Args:
        measure: what is computed.
        x: one value per checkpoint.
        y: another.
        run: the run of each.
        draws: how they are drawn.
        zeta: if given, only the half with lower ζ counts, found anew in every draw.
    """
    runs = len(np.unique(run))
    if (reason := too_few(runs)) is not None:
        return reason
    if runs > _MOST_RUNS:
        return f"More than {_MOST_RUNS} runs: no interval is computed."
    run = np.unique(run, return_inverse=True)[1]
    chosen = _evenly(run)
    weights = draws.counts(runs)[:, run[chosen]]
    if zeta is not None:
        weights = weights * _lower_half(zeta[chosen], weights)
    return measure(x[chosen], y[chosen], weights)


def pearson(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Weighted Pearson correlation; x and y may differ from draw to draw."""
    x, y = np.atleast_2d(x), np.atleast_2d(y)
    total = weights.sum(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        x = x - (weights * x).sum(axis=1, keepdims=True) / total
        y = y - (weights * y).sum(axis=1, keepdims=True) / total
        xx, yy = (weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1)
        value = (weights * x * y).sum(axis=1) / np.sqrt(xx * yy)
    floor = _ROUNDING * np.array([np.abs(weights * v * v).max(initial=0.0) for v in (x, y)])
    return np.where((xx > floor[0]) & (yy > floor[1]), value, np.nan)


def spearman(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Weighted Spearman correlation: Pearson of the ranks within each draw."""
    return pearson(_ranks(x, weights), _ranks(y, weights), weights)


def kendall(x: Floats, y: Floats, weights: Floats) -> Floats:
    """Weighted Kendall τ-b: concordant minus discordant pairs, by the pairs that are not tied."""
    signs = np.sign(x[:, None] - x) * np.sign(y[:, None] - y)
    pairs = ((weights.astype(np.float32) @ signs.astype(np.float32)) * weights).sum(axis=1)
    free = weights.sum(axis=1) ** 2
    untied_x = free - (_by_value(x, weights)[0] ** 2).sum(axis=1)
    untied_y = free - (_by_value(y, weights)[0] ** 2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(pairs / np.sqrt(untied_x * untied_y))


def _by_value(values: Floats, weights: Floats) -> tuple[Floats, Integers]:
    """The weight of every distinct value, and which one each checkpoint has."""
    distinct, which = np.unique(values, return_inverse=True)
    order = np.argsort(which, kind="stable")
    starts = np.searchsorted(which[order], np.arange(len(distinct)))
    return np.add.reduceat(weights[:, order], starts, axis=1), which


def _ranks(values: Floats, weights: Floats) -> Floats:
    weight, which = _by_value(values, weights)
    return np.asarray((weight.cumsum(axis=1) - (weight - 1) / 2)[:, which])


def _lower_half(zeta: Floats, weights: Floats) -> Booleans:
    """Whether ζ is at most its median in a draw."""
    weight, which = _by_value(zeta, weights)
    middle = (weights.sum(axis=1, keepdims=True) - 1) // 2
    median = (weight.cumsum(axis=1) <= middle).sum(axis=1, keepdims=True)
    return np.asarray(which[None, :] <= median)


def _evenly(run: Integers) -> Integers:
    """At most ``_MOST_ROWS`` checkpoints, if there are not more runs; the last of each run."""
    stride = -(-len(run) // _MOST_ROWS)
    order = np.argsort(run, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(run[order])), len(run) - 1)
    to_end = ends[run[order]] - np.arange(len(run))
    return np.sort(order[to_end % stride == 0])
