"""Correlations, regions and groups of the checkpoints of a pool, shared by several studies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import Draws, correlate, percentile
from rote.studies.selector import TRUTH

if TYPE_CHECKING:
    import numpy.typing as npt

    from rote.selection import Booleans, Candidates, Estimate, Floats
    from rote.studies.pool import Pool
    from rote.workloads import RunSpec

ZETA, PLAIN = "susceptibility", "susceptibility_plain_relative"
"""The paper's ζ, and the ζ that is comparable across optimizers."""

NOISY = "noisy_accuracy"
DRAWS = Draws(resamples=300)
MOST_DRAWN = 80

FEWEST = 20
"""Regions with fewer checkpoints are not judged."""

ALL_RUNS, NORM, NO_NORM = "all runs", "batch norm", "no batch norm"
_DIVERGED = 10.0
"""Only a diverged loss has a ζ this high: the loss of guessing among ten classes is 2.3."""


def list_values(estimate: Estimate) -> list[float | None]:
    """Return value, low and high as plain numbers."""
    return [estimate.value, estimate.low, estimate.high]


def correlate_columns(
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
        zeta: if given, only checkpoints in the lower half of this column count.
        among: only these count.
    """
    known = candidates.known(one, other, *([] if zeta is None else [zeta]))
    known &= True if among is None else among
    half = None if zeta is None else candidates.values(zeta)[known]
    x, y = candidates.values(one)[known], candidates.values(other)[known]
    return list_values(correlate(x, y, candidates.run[known], kind, DRAWS, half))


def find_regions(
    candidates: Candidates,
    low: str,
    high: str,
    thresholds: tuple[float, float] | None = None,
) -> npt.NDArray[np.int64]:
    """Return the region of every checkpoint: 1 where one column is low and the other is high.

    2 means high only, 3 low only, 4 neither, and 0 that one of the values is unknown.

    Args:
        candidates: the checkpoints.
        low: the column that should be low: ζ, or the oracle's accuracy on wrong labels.
        high: the column that should be high.
        thresholds: a percentile of each column as its threshold; by default, the means. The
            percentile of the second column is counted from the top, as in the paper: its 100th
            percentile is the minimum, so Region 1 grows with either percentile.
    """
    known = candidates.known(low, high)
    x, y = candidates.values(low), candidates.values(high)
    if not known.any():
        return np.zeros(len(x), dtype=np.int64)
    if thresholds is None:
        at = (float(x[known].mean()), float(y[known].mean()))
    else:
        at = (percentile(x[known], thresholds[0]), percentile(y[known], 100 - thresholds[1]))
    return _divide(x, y, known, at)


def _divide(
    x: Floats, y: Floats, known: Booleans, at: tuple[float, float]
) -> npt.NDArray[np.int64]:
    return np.where(known, 1 + (x > at[0]) + 2 * (y < at[1]), 0)


def find_staged_regions(candidates: Candidates) -> npt.NDArray[np.int64]:
    """Return the regions of the rule ``staged``, numbered as by ``find_regions``.

    The threshold of training accuracy is its mean among checkpoints whose ζ is at most the mean.
    """
    known = candidates.known(ZETA, "train_accuracy")
    x, y = candidates.values(ZETA), candidates.values("train_accuracy")
    if not known.any():
        return np.zeros(len(x), dtype=np.int64)
    mean = float(x[known].mean())
    return _divide(x, y, known, (mean, float(y[known & (x <= mean)].mean())))


def average_regions(candidates: Candidates, region: npt.NDArray[np.int64]) -> list[dict[str, Any]]:
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


def get_stated_mean(region: Mapping[str, Any]) -> float | None:
    """Return the mean of a region, or None if it has too few checkpoints for a statement."""
    return region["mean"] if region["count"] >= FEWEST else None


def is_best_resistant(candidates: Candidates, zeta: str = ZETA) -> bool | None:
    """Return whether the checkpoint of the highest test accuracy is in the lower half of ζ."""
    known = candidates.known(zeta, TRUTH)
    if not known.any():
        return None
    x, truth = candidates.values(zeta)[known], candidates.values(TRUTH)[known]
    return bool(x[int(truth.argmax())] <= percentile(x, 50))


def has_batch_norm(spec: RunSpec) -> bool:
    """Return whether a network has batch norm: all but mlp do, unless an option removes it."""
    architecture = spec.architecture
    return bool(dict(architecture.options).get("batch_norm", architecture.name != "mlp"))


def describe_recipe(spec: RunSpec) -> str:
    """Return optimizer, schedule and augmentation of a run, in words."""
    optimizer, schedule, data = spec.optimizer, spec.schedule, spec.data
    parts = [f"{optimizer.name} {optimizer.lr:g}", schedule.name]
    if hasattr(optimizer, "momentum"):
        parts[0] += f" momentum {optimizer.momentum:g}"
    if (length := getattr(schedule, "t_max", None)) is not None:
        parts[1] += f" {length}"
    if data.crop or data.flip:
        parts.append(" and ".join(["crops"] * bool(data.crop) + ["flips"] * data.flip))
    return ", ".join(parts)


def find_diverged(candidates: Candidates) -> Booleans:
    """Return for each run whether its loss ever diverged; its ζ never recovers from that."""
    zeta = candidates.values(ZETA)
    largest = [np.nanmax(np.abs(zeta[part]), initial=0.0) for part in candidates.by_run()]
    return np.asarray(np.array(largest) >= _DIVERGED)


def group_runs(pool: Pool, candidates: Candidates) -> dict[str, Booleans]:
    """Return by name the checkpoints of all runs, of those with batch norm, and of the others.

    Diverged runs are in the first group only; a group without runs is left out.
    """
    normal = ~find_diverged(candidates)
    specs = [pool.specs.get(run) for run in candidates.runs]
    norm = np.array([spec is None or has_batch_norm(spec) for spec in specs])
    groups = {ALL_RUNS: np.ones(len(norm), bool), NORM: norm & normal, NO_NORM: ~norm & normal}
    return {name: runs[candidates.run] for name, runs in groups.items() if runs.any()}


def correlate_by_group(
    pool: Pool,
    candidates: Candidates,
    one: str,
    other: str,
    *,
    kind: str = "pearson",
    zeta: str | None = None,
) -> dict[str, list[float | None]]:
    """Return the correlation of two columns in every group of runs."""
    groups = group_runs(pool, candidates)
    return {
        name: correlate_columns(candidates, one, other, kind=kind, zeta=zeta, among=among)
        for name, among in groups.items()
    }


def sample(
    candidates: Candidates,
    columns: Mapping[str, str],
    most: int = MOST_DRAWN,
    *,
    pool: Pool | None = None,
    among: Booleans | None = None,
) -> list[dict[str, Any]]:
    """Choose a few checkpoints for a figure, evenly spaced.

    Args:
        candidates: the checkpoints.
        columns: by name in the result, the column to round and copy.
        most: the maximum number of checkpoints.
        pool: its specs give the ``architecture`` of each checkpoint; omitted if None.
        among: only these count.
    """
    known = candidates.known(*columns.values())
    known &= True if among is None else among
    places = np.flatnonzero(known)
    if not len(places):
        return []
    chosen = places[np.linspace(0, len(places) - 1, min(most, len(places))).astype(int)]
    arrays = {name: candidates.values(column)[chosen] for name, column in columns.items()}
    found: list[dict[str, Any]] = [
        {name: float(f"{array[row]:.4g}") for name, array in arrays.items()}
        for row in range(len(chosen))
    ]
    if pool is not None:
        for point, place in zip(found, chosen, strict=True):
            run = candidates.runs[candidates.run[place]]
            point["architecture"] = pool.specs[run].architecture.name
    return found


def average_known(numbers: Sequence[float | None]) -> float | None:
    """Return the mean of the known values."""
    known = [number for number in numbers if number is not None]
    return float(np.mean(known)) if known else None


def round_column(values: Floats) -> list[float]:
    """Return numbers for a record, rounded to four digits."""
    return [float(f"{value:.4g}") for value in values]
