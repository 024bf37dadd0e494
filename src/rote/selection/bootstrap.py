"""Correlations with confidence intervals from the bootstrap over runs.

Checkpoints of one run are not independent; so whole runs are drawn, with replacement. A draw is a
row of weights, one per run: how often it was drawn. Every measure takes all draws at once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from rote.selection.candidates import Booleans, Floats, Integers

_FEWEST_RUNS = 5
_MOST_ROWS = 2_000
_MOST_RUNS = 4_000
_ROUNDING = 1e-12

Measure = Callable[[Floats, Floats, Integers, Floats], Floats]
"""From two values per checkpoint, the unit of each, and how often every unit counts (units × draws)
to one number per draw. Units are runs, or checkpoints where not all of a run count."""


@dataclass(frozen=True)
class Estimate:
    """A number with its confidence interval.

    Attributes:
        value: the number over all checkpoints; None if it is not defined.
        low: the lower end of the interval.
        high: the upper end.
        reason: why there is no value or no interval.

    Example:
        >>> Estimate(0.8, low=0.7, high=0.9).value
        0.8
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Draws:
    """Settings of the bootstrap over runs.

    Attributes:
        resamples: the number of resamples.
        confidence: the share of resamples inside an interval.
        seed: the seed of the generator.

    Example:
        >>> Draws(resamples=10).counts(runs=5).shape
        (10, 5)
    """

    resamples: int = 1_000
    confidence: float = 0.95
    seed: int = 0

    def counts(self, runs: int) -> Floats:
        """Return how often each run is drawn, draws × runs."""
        return _count_draws(self.seed, self.resamples, runs)

    def interval(self, values: Floats) -> tuple[float, float] | None:
        """Return the middle of the draws, None if most of them have no value."""
        known = values[np.isfinite(values)]
        if 2 * len(known) < len(values):
            return None
        tail = (1 - self.confidence) / 2
        low, high = np.quantile(known, [tail, 1 - tail])
        return float(low), float(high)

    def estimate(self, value: float, drawn: Floats) -> Estimate:
        """Return a value with its interval, given its values in every draw."""
        interval = self.interval(drawn)
        if interval is None:
            return Estimate(value, reason="In most draws of runs it is not defined.")
        return Estimate(value, *interval)


@lru_cache(maxsize=2)
def _count_draws(seed: int, resamples: int, runs: int) -> Floats:
    """Draw runs once for many measures of the same runs: counts of shape (draws, runs)."""
    even = np.full(runs, 1 / runs)
    found = np.random.default_rng(seed).multinomial(runs, even, size=resamples).astype(float)
    found.flags.writeable = False
    return found


def explain_too_few(runs: int) -> str | None:
    """Return why this number of runs has no interval, None if it has one."""
    if runs < _FEWEST_RUNS:
        return f"{runs} runs are too few for an interval; it takes {_FEWEST_RUNS}."
    return None


def resample(
    measure: Measure, x: Floats, y: Floats, run: Integers, draws: Draws, zeta: Floats | None = None
) -> Floats | str:
    """Return a measure in every draw of runs, or why it is not drawn.

    Beyond 2,000 checkpoints, only as many, evenly spaced within their runs, are looked at: it is
    the runs that vary.

    Args:
        measure: the measure to compute.
        x: one value per checkpoint.
        y: another value per checkpoint.
        run: the run of each checkpoint.
        draws: how runs are drawn.
        zeta: if given, only the half with lower ζ counts, found again in every draw.
    """
    runs = len(np.unique(run))
    if (reason := explain_too_few(runs)) is not None:
        return reason
    if runs > _MOST_RUNS:
        return f"More than {_MOST_RUNS} runs: no interval is computed."
    run = np.unique(run, return_inverse=True)[1]
    chosen = _choose_evenly(run)
    unit, weights = run[chosen], np.ascontiguousarray(draws.counts(runs).T)
    if zeta is not None:
        weights = weights[unit] * _find_lower_half(zeta[chosen], unit, weights)
        unit = np.arange(len(unit))
    return measure(x[chosen], y[chosen], unit, weights)


def pearson(x: Floats, y: Floats, unit: Integers, weights: Floats) -> Floats:
    """Return the weighted Pearson correlation, from variation within units and between means."""
    size = np.bincount(unit)
    mean_x, mean_y = (np.bincount(unit, v) / size for v in (x, y))
    dx, dy = x - mean_x[unit], y - mean_y[unit]
    often = weights * size[:, None]
    with np.errstate(invalid="ignore"):  # a draw may contain no row that counts
        ax, ay = (m[:, None] - m @ often / often.sum(axis=0) for m in (mean_x, mean_y))
    xx = weights * np.bincount(unit, dx * dx)[:, None] + often * ax * ax
    yy = weights * np.bincount(unit, dy * dy)[:, None] + often * ay * ay
    xy = np.bincount(unit, dx * dy) @ weights + np.einsum("ud,ud,ud->d", often, ax, ay)
    least = [_ROUNDING * parts.max(initial=0.0) for parts in (xx, yy)]
    return _divide_covariance(xx.sum(axis=0), yy.sum(axis=0), xy, *least)


def spearman(x: Floats, y: Floats, unit: Integers, weights: Floats) -> Floats:
    """Return weighted Spearman correlation: Pearson of the ranks within each draw."""
    x, y, often = _compute_ranks(x, unit, weights), _compute_ranks(y, unit, weights), weights[unit]
    pairs = ((x, x), (y, y), (x, y))
    return _divide_covariance(
        *(np.einsum("cd,cd,cd->d", often, one, other) for one, other in pairs)
    )


def _divide_covariance(
    xx: Floats, yy: Floats, xy: Floats, least_xx: float = 0.0, least_yy: float = 0.0
) -> Floats:
    """Return the covariance by both variances; NaN where one of these is rounding."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where((xx > least_xx) & (yy > least_yy), xy / np.sqrt(xx * yy), np.nan)


def kendall(x: Floats, y: Floats, unit: Integers, weights: Floats) -> Floats:
    """Return weighted Kendall τ-b: concordant minus discordant pairs, per untied pairs."""
    order = np.argsort(unit, kind="stable")
    x, y, unit = x[order], y[order], unit[order]
    starts = np.flatnonzero(np.diff(unit, prepend=-1))
    signs = _compute_signs(x) * _compute_signs(y)
    # Sums of whole numbers, far below the 2²⁴ to which 32 bits hold them all.
    between = np.add.reduceat(signs, starts, axis=0, dtype=np.float32)
    between = np.add.reduceat(between, starts, axis=1)
    pairs = ((between @ weights.astype(np.float32)) * weights).sum(axis=0)
    free = (np.bincount(unit) @ weights) ** 2
    untied = [free - (_sum_by_value(v, unit, weights)[0] ** 2).sum(axis=0) for v in (x, y)]
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(pairs / np.sqrt(untied[0] * untied[1]))


def _compute_signs(values: Floats) -> npt.NDArray[np.int8]:
    """Return which of every two values is the larger: 1, −1, or 0 if none is."""
    each = values[:, None]
    return np.asarray((each > values).view(np.int8) - (each < values).view(np.int8))


def _sum_by_value(values: Floats, unit: Integers, weights: Floats) -> tuple[Floats, Integers]:
    """Return the weight of every distinct value in each draw, and which one each checkpoint has."""
    from scipy.sparse import csr_array

    distinct, which = np.unique(values, return_inverse=True)
    shape = (len(distinct), len(weights))
    return csr_array((np.ones(len(values)), (which, unit)), shape=shape) @ weights, which


def _compute_ranks(values: Floats, unit: Integers, weights: Floats) -> Floats:
    """Return the rank of every checkpoint in each draw, less the mean rank."""
    among, which = _sum_by_value(values, unit, np.eye(len(weights)))
    among = among.cumsum(axis=0) - (among + among.sum(axis=0)) / 2
    return np.asarray(among[which] @ weights)


def _find_lower_half(zeta: Floats, unit: Integers, weights: Floats) -> Booleans:
    """Return whether ζ is at most its median in a draw."""
    weight, which = _sum_by_value(zeta, unit, weights)
    middle = (weight.sum(axis=0) - 1) // 2
    median = (weight.cumsum(axis=0) <= middle).sum(axis=0)
    return np.asarray(which[:, None] <= median)


def _choose_evenly(run: Integers) -> Integers:
    """Return at most ``_MOST_ROWS`` checkpoints, but at least the last one of each run."""
    stride = -(-len(run) // _MOST_ROWS)
    order = np.argsort(run, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(run[order])), len(run) - 1)
    to_end = ends[run[order]] - np.arange(len(run))
    return np.sort(order[to_end % stride == 0])
