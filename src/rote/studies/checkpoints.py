"""What several studies ask of the checkpoints of a pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import Draws, correlation_of, percentile
from rote.studies.selector import TRUTH

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection import Booleans, Candidates, Estimate, Floats

ZETA, PLAIN = "susceptibility", "susceptibility_plain_relative"
"""The paper's ζ, and the one that compares runs of different optimizers."""

NOISY = "noisy_accuracy"
DRAWS = Draws(resamples=300)
MOST_DRAWN = 80


def values_of(estimate: Estimate) -> list[float | None]:
    """As plain numbers: value, low, high."""
    return [estimate.value, estimate.low, estimate.high]


def correlation(
    candidates: Candidates,
    one: str,
    other: str,
    *,
    kind: str = "pearson",
    zeta: str | None = None,
    among: Booleans | None = None,
) -> list[float | None]:
    """Return the correlation of two columns, with an interval over runs.

    Args:
        candidates: the checkpoints.
        one: a column.
        other: another.
        kind: ``pearson``, ``spearman`` or ``kendall``.
        zeta: a column of which only the lower half counts.
        among: only these count.
    """
    known = candidates.known(one, other, *([] if zeta is None else [zeta]))
    known &= True if among is None else among
    half = None if zeta is None else candidates.values(zeta)[known]
    x, y = candidates.values(one)[known], candidates.values(other)[known]
    return values_of(correlation_of(x, y, candidates.run[known], kind, DRAWS, half))


def regions(
    candidates: Candidates,
    low: str,
    high: str,
    thresholds: tuple[float, float] | None = None,
) -> npt.NDArray[np.int64]:
    """Return the region of every checkpoint: 1 where one column is low and the other is high.

    2 is high only, 3 low only, 4 neither, and 0 where one of them is not known.

    Args:
        candidates: the checkpoints.
        low: the column that should be low: ζ, or what the oracle knows in its place.
        high: the column that should be high.
        thresholds: percentiles of both that divide; their means by default.
    """
    known = candidates.known(low, high)
    x, y = candidates.values(low), candidates.values(high)
    if not known.any():
        return np.zeros(len(x), dtype=np.int64)
    if thresholds is None:
        at = (float(x[known].mean()), float(y[known].mean()))
    else:
        at = (percentile(x[known], thresholds[0]), percentile(y[known], thresholds[1]))
    return np.where(known, 1 + (x > at[0]) + 2 * (y < at[1]), 0)


def region_means(candidates: Candidates, region: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
    """Return the test accuracy in Regions 1 to 4: mean, spread and how many."""
    truth = candidates.values(TRUTH)
    found = []
    for number in range(1, 5):
        inside = truth[(region == number) & np.isfinite(truth)]
        has_any = len(inside) > 0
        found.append(
            {
                "mean": float(inside.mean()) if has_any else None,
                "spread": float(inside.std()) if has_any else None,
                "count": len(inside),
            }
        )
    return found


def sample(
    candidates: Candidates, columns: Mapping[str, str], most: int = MOST_DRAWN
) -> list[dict[str, float]]:
    """Return a few checkpoints for a figure, evenly spaced: from a name to its rounded value."""
    known = np.flatnonzero(candidates.known(*columns.values()))
    if not len(known):
        return []
    chosen = known[np.linspace(0, len(known) - 1, min(most, len(known))).astype(int)]
    arrays = {name: candidates.values(column)[chosen] for name, column in columns.items()}
    return [
        {name: float(f"{array[row]:.4g}") for name, array in arrays.items()}
        for row in range(len(chosen))
    ]


def mean_of(numbers: Sequence[float | None]) -> float | None:
    """Return the mean of those that are known."""
    known = [number for number in numbers if number is not None]
    return float(np.mean(known)) if known else None


def column_of(values: Floats) -> list[float]:
    """Numbers for a record, with four digits."""
    return [float(f"{value:.4g}") for value in values]
