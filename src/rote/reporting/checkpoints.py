"""The checkpoints that charts draw: which ones, and their values."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.formatting import escape_invisible
from rote.selection import convert_to_numbers, is_resistant, percentile

if TYPE_CHECKING:
    import polars as pl

    from rote.selection import Booleans, Candidates, Floats, Integers

MOST_DRAWN = 10_000
"""The most points of a scatter plot; more make a browser slow and show nothing new."""

MOST_RUNS = 1_000
"""The most lines of a chart; more cannot be distinguished."""

MOST_LISTED = 200
"""The most rows of the table of runs, if not all runs have one."""

_NEAR = 50


@dataclass(frozen=True)
class Sample:
    """The checkpoints and runs that the page shows.

    Attributes:
        positions: the candidates that are drawn, in order.
        runs: the codes of their runs, increasing.
        listed: the codes of the runs that have a row in the table, increasing.
    """

    positions: Integers
    runs: Integers
    listed: Integers


def choose_sample(
    candidates: Candidates,
    always: Collection[int] = (),
    listed: Integers | None = None,
    *,
    most: int = MOST_DRAWN,
) -> Sample:
    """Choose which checkpoints are drawn: all of them, unless there are too many.

    Of too many runs, take every n-th in the order of their last ζ, so that slow and fast ones are
    represented in proportion. Of each, take its first and last checkpoint and evenly spaced ones
    between them.

    Args:
        candidates: all checkpoints.
        always: positions that are always drawn, such as selected checkpoints.
        listed: codes of the runs that the table lists, which are also drawn. By default, all.
        most: about how many checkpoints are drawn.
    """
    runs = np.unique(candidates.run)
    if len(runs) > MOST_RUNS:
        ends = np.flatnonzero(np.diff(candidates.run, append=-1))
        order = runs[np.argsort(candidates.zeta[ends], kind="stable")]
        spaced = order[np.linspace(0, len(order) - 1, MOST_RUNS).round().astype(np.int64)]
        more: list[int] = [] if listed is None else listed.tolist()
        runs = np.unique([*spaced, *candidates.run[list(always)], *more])
    is_shown = np.isin(candidates.run, runs)
    keep = _space_evenly(candidates, is_shown, most)
    keep[list(always)] = True
    return Sample(np.flatnonzero(keep), runs, runs if listed is None else listed)


def find_notable(candidates: Candidates, thresholds: Mapping[str, float]) -> list[int]:
    """Return the extremes of ζ and accuracies, and the points of Region 1 near its thresholds."""
    found: list[int] = []
    for name in ("zeta", "train_accuracy", "test_accuracy", "noisy_accuracy"):
        values = candidates.values(name)
        if np.isfinite(values).any():
            found += [int(np.nanargmin(values)), int(np.nanargmax(values))]
    inside = _find_region_one(candidates, thresholds)
    for name, bar in (("zeta", "susceptibility"), ("train_accuracy", "train_accuracy")):
        if len(inside):
            apart = np.abs(candidates.values(name)[inside] - thresholds[bar])
            nearest = np.argpartition(apart, min(_NEAR, len(inside)) - 1)[:_NEAR]
            found += inside[nearest].tolist()
    return found


def choose_listed(
    candidates: Candidates, picks: Collection[int], thresholds: Mapping[str, float]
) -> Integers:
    """Choose the runs to list: those of selected checkpoints, then those with most of Region 1.

    Without regions, choose those whose last ζ is lowest.
    """
    ends = np.flatnonzero(np.diff(candidates.run, append=-1))
    zeta = candidates.zeta[ends]
    inside = np.bincount(
        candidates.run[_find_region_one(candidates, thresholds)], minlength=len(candidates.runs)
    )[candidates.run[ends]]
    order = candidates.run[ends][np.lexsort((np.where(np.isnan(zeta), np.inf, zeta), -inside))]
    ranked = dict.fromkeys([*candidates.run[list(picks)].tolist(), *order.tolist()])
    return np.sort(np.array(list(ranked)[:MOST_LISTED], dtype=np.int64))


def _find_region_one(candidates: Candidates, thresholds: Mapping[str, float]) -> Integers:
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        return np.zeros(0, dtype=np.int64)
    is_resistant = candidates.zeta <= thresholds["susceptibility"]
    is_trainable = candidates.values("train_accuracy") >= thresholds["train_accuracy"]
    return np.flatnonzero(is_resistant & is_trainable)


def _space_evenly(candidates: Candidates, is_shown: Booleans, most: int) -> Booleans:
    """Keep every n-th checkpoint from the end of a run, and its first: about ``most`` in total."""
    stride = -(-int(is_shown.sum()) // most)
    ends = np.flatnonzero(np.diff(candidates.run, append=-1))
    lengths = np.diff(ends, prepend=-1)
    to_end = np.repeat(ends, lengths) - np.arange(len(candidates))
    keep = to_end % max(stride, 1) == 0
    keep[ends - lengths + 1] = True
    return np.asarray(keep & is_shown)


MOST_SIGNALS = 20
"""The most signals with a chart of their own."""

_MOST_VALUES = 800_000
_FEWEST_METRICS = 40
"""The most metrics of a page with many checkpoints; more would make it too large."""

_DIGITS = 4
_NOT_MEASURED = {"run", "row", "step", "region", "score"}
_FIRST = (
    "estimated_accuracy",
    "zeta",
    "train_accuracy",
    "test_accuracy",
    "validation_accuracy",
    "noisy_accuracy",
    "clean_accuracy",
)
_HINTED = 4
"""Metrics in a tooltip: with the step, five lines."""


@dataclass(frozen=True)
class ZetaFilter:
    """The checkpoints that the filter keeps, of those with ζ, training and test accuracy.

    Attributes:
        threshold: the median of ζ.
        known: which checkpoints have all three.
        kept: which of those the filter keeps.
    """

    threshold: float
    known: Booleans
    kept: Booleans


@dataclass(frozen=True)
class Metric:
    """One measured column.

    Attributes:
        field: its name in charts, without dots, brackets or quotes.
        name: its name in the journal.
    """

    field: str
    name: str


@dataclass(frozen=True)
class Checkpoints:
    """The values that are drawn of every checkpoint; unknown values are None.

    Attributes:
        positions: which candidates are drawn, in order.
        total: the number of candidates.
        columns: by field, one value per drawn checkpoint: ``run`` (its name), ``run_key`` (its
            number, to group by), ``step``, ``zeta``, ``train``, ``test``, ``noisy``, whether the
            filter ``kept`` it, the metrics, and whether ``zeta``, ``noisy`` and signals have no
            known neighbor that a line could connect them with.
        metrics: the measured columns, the most informative first.
        left_out: how many more metrics are recorded.
    """

    positions: Integers
    total: int
    columns: dict[str, list[Any]]
    metrics: tuple[Metric, ...]
    left_out: int = 0

    @property
    def is_thinned(self) -> bool:
        """Whether some checkpoints are not drawn."""
        return len(self.positions) < self.total

    @property
    def hinted(self) -> tuple[Metric, ...]:
        """The metrics of a tooltip."""
        return self.metrics[:_HINTED]

    @property
    def signals(self) -> tuple[Metric, ...]:
        """The metrics with a chart of their own."""
        return tuple(m for m in self.metrics if f"{m.field}_alone" in self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """Return one record per checkpoint."""
        names = list(self.columns)
        return [
            dict(zip(names, values, strict=True))
            for values in zip(*self.columns.values(), strict=True)
        ]

    def has(self, field: str) -> bool:
        """Return whether any drawn checkpoint has a value."""
        return any(value is not None for value in self.columns[field])


def collect_checkpoints(
    candidates: Candidates,
    positions: Integers | None = None,
    kept: ZetaFilter | None = None,
) -> Checkpoints:
    """Collect the values that are drawn.

    Args:
        candidates: all checkpoints.
        positions: which of them are drawn, in order; by default, all.
        kept: the result of the filter.
    """
    positions = np.arange(len(candidates)) if positions is None else positions
    shown = candidates.take(positions)
    frame = candidates.table.frame[shown.position]
    noisy = shown.values("noisy_accuracy")
    recorded = _list_metrics(frame, candidates)
    is_bare = not candidates.known("zeta").any()  # without ζ, every recorded column has a chart
    signals = [m.name for m in recorded if is_bare or candidates.describe(m.name).kind == "signal"]
    metrics = recorded[: max(_MOST_VALUES // max(len(positions), 1), _FEWEST_METRICS)]
    columns: dict[str, list[Any]] = {
        "run": list_names(candidates, shown.run),
        # Vega groups by keys of plain objects, where a run named `constructor` is never new.
        "run_key": shown.run.tolist(),
        "step": shown.step.tolist(),
        "zeta": round_values(shown.zeta, _DIGITS + 1),
        "train": round_values(shown.values("train_accuracy"), _DIGITS + 1),
        "test": round_values(shown.values("test_accuracy")),
        "noisy": round_values(noisy),
        "kept": [None] * len(positions) if kept is None else kept.kept[positions].tolist(),
        "zeta_alone": _is_isolated(shown, shown.zeta).tolist(),
        "noisy_alone": _is_isolated(shown, noisy).tolist(),
    }
    for metric in metrics:
        values = convert_to_numbers(frame[metric.name])
        columns[metric.field] = round_values(values)
        if metric.name in signals[:MOST_SIGNALS]:  # these have a chart of their own
            columns[f"{metric.field}_alone"] = _is_isolated(shown, values).tolist()
    return Checkpoints(positions, len(candidates), columns, metrics, len(recorded) - len(metrics))


def list_names(candidates: Candidates, codes: Integers) -> list[str]:
    """Return the names of runs as charts show them, with invisible characters spelled out."""
    names = {code: escape_invisible(candidates.runs[code]) for code in np.unique(codes).tolist()}
    return [names[code] for code in codes.tolist()]


def apply_zeta_filter(candidates: Candidates) -> ZetaFilter | None:
    """Apply the paper's filter; return None if no checkpoint has all three values."""
    known = candidates.known("zeta", "train_accuracy", "test_accuracy")
    if not known.any():
        return None
    threshold = percentile(candidates.zeta[known], 50)
    return ZetaFilter(threshold, known, known & is_resistant(candidates, threshold))


def round_values(values: Floats, digits: int = _DIGITS) -> list[float | None]:
    """Round values to significant digits; unknown values become None.

    Example:
        >>> round_values(np.array([0.123456, np.nan, 250.0]))
        [0.1235, None, 250.0]
    """
    return [
        float(f"{value:.{digits}g}") if known else None
        for value, known in zip(values.tolist(), np.isfinite(values).tolist(), strict=True)
    ]


def _list_metrics(frame: pl.DataFrame, candidates: Candidates) -> tuple[Metric, ...]:
    names = [
        name
        for name, kind in frame.schema.items()
        if kind.is_numeric() and name not in _NOT_MEASURED and frame[name].count()
    ]
    first = [candidates.column if name == "zeta" else name for name in _FIRST]
    ordered = [name for name in first if name in names]
    others = [name for name in names if name not in first]
    # If not all metrics fit, those with a chart come first.
    ordered += sorted(others, key=lambda name: candidates.describe(name).kind != "signal")
    return tuple(Metric(f"m{number}", name) for number, name in enumerate(ordered))


def _is_isolated(candidates: Candidates, values: Floats) -> Booleans:
    """Return whether a value is known while both neighbors in its run are not."""
    known = np.isfinite(values)
    same = candidates.run[1:] == candidates.run[:-1]
    joined = known[1:] & known[:-1] & same
    return np.asarray(known & ~np.append(False, joined) & ~np.append(joined, False))
