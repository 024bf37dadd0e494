"""The checkpoints that charts draw, with everything that is shown of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.formatting import visible
from rote.selection import is_resistant, numbers, percentile

if TYPE_CHECKING:
    import polars as pl

    from rote.selection import Booleans, Candidates, Floats, Integers

MOST_SIGNALS = 20
"""Charts of signals; more would be a page that nobody reads to its end."""

_MOST_VALUES = 800_000
_FEWEST_METRICS = 40
"""How many metrics are shown of many checkpoints: more would make the page too large."""

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
"""Metrics that are told of a checkpoint that is pointed at: with its step, five lines."""


@dataclass(frozen=True)
class ZetaFilter:
    """Which checkpoints the filter keeps, of those with ζ, training and test accuracy.

    Attributes:
        threshold: the median of ζ.
        known: which checkpoints have all three.
        kept: which of those stay.
    """

    threshold: float
    known: Booleans
    kept: Booleans


@dataclass(frozen=True)
class Metric:
    """One measured column.

    Attributes:
        field: what charts call it: a name without dots, brackets or quotes.
        name: what its user calls it.
    """

    field: str
    name: str


@dataclass(frozen=True)
class Checkpoints:
    """What is drawn of every checkpoint; a value that is not known is None.

    Attributes:
        positions: which candidates are drawn, in order.
        total: how many candidates there are.
        columns: by field, one value for each that is drawn: ``run``, ``step``, ``zeta``,
            ``train``, ``test``, ``noisy``, whether the filter ``kept`` it, the metrics, and whether
            ``zeta``, ``noisy`` and signals stand alone (a line has nothing to join them to).
        metrics: the measured columns, those that tell most first.
        left_out: how many more are recorded.
    """

    positions: Integers
    total: int
    columns: dict[str, list[Any]]
    metrics: tuple[Metric, ...]
    left_out: int = 0

    @property
    def is_thinned(self) -> bool:
        """Whether some are not drawn."""
        return len(self.positions) < self.total

    @property
    def hinted(self) -> tuple[Metric, ...]:
        """What is told of a checkpoint that is pointed at."""
        return self.metrics[:_HINTED]

    @property
    def signals(self) -> tuple[Metric, ...]:
        """What has a chart of its own."""
        return tuple(m for m in self.metrics if f"{m.field}_alone" in self.columns)

    def rows(self) -> list[dict[str, Any]]:
        """The same as one record per checkpoint."""
        names = list(self.columns)
        return [
            dict(zip(names, values, strict=True))
            for values in zip(*self.columns.values(), strict=True)
        ]

    def has(self, field: str) -> bool:
        """Whether any that is drawn has a value."""
        return any(value is not None for value in self.columns[field])


def checkpoints_of(
    candidates: Candidates,
    positions: Integers | None = None,
    kept: ZetaFilter | None = None,
) -> Checkpoints:
    """What is drawn of candidates.

    Args:
        candidates: all checkpoints.
        positions: which of them are drawn, in order; by default, all.
        kept: what the filter keeps.
    """
    positions = np.arange(len(candidates)) if positions is None else positions
    shown = candidates.take(positions)
    frame = candidates.table.frame[shown.position]
    noisy = shown.values("noisy_accuracy")
    recorded = _metrics(frame, candidates)
    is_bare = not candidates.known("zeta").any()  # then whatever there is has a chart
    signals = [m.name for m in recorded if is_bare or candidates.describe(m.name).kind == "signal"]
    metrics = recorded[: max(_MOST_VALUES // max(len(positions), 1), _FEWEST_METRICS)]
    columns: dict[str, list[Any]] = {
        "run": shown_names(candidates, shown.run),
        "step": shown.step.tolist(),
        "zeta": rounded(shown.zeta, _DIGITS + 1),
        "train": rounded(shown.values("train_accuracy"), _DIGITS + 1),
        "test": rounded(shown.values("test_accuracy")),
        "noisy": rounded(noisy),
        "kept": [None] * len(positions) if kept is None else kept.kept[positions].tolist(),
        "zeta_alone": _stands_alone(shown, shown.zeta).tolist(),
        "noisy_alone": _stands_alone(shown, noisy).tolist(),
    }
    for metric in metrics:
        values = numbers(frame[metric.name])
        columns[metric.field] = rounded(values)
        if metric.name in signals[:MOST_SIGNALS]:  # it gets a chart of its own
            columns[f"{metric.field}_alone"] = _stands_alone(shown, values).tolist()
    return Checkpoints(positions, len(candidates), columns, metrics, len(recorded) - len(metrics))


def shown_names(candidates: Candidates, codes: Integers) -> list[str]:
    """How charts call runs: a sign that shows nothing is no part of an expression."""
    names = {code: visible(candidates.runs[code]) for code in np.unique(codes).tolist()}
    return [names[code] for code in codes.tolist()]


def zeta_filter(candidates: Candidates) -> ZetaFilter | None:
    """The paper's filter, None if no checkpoint has all three values."""
    known = candidates.known("zeta", "train_accuracy", "test_accuracy")
    if not known.any():
        return None
    threshold = percentile(candidates.zeta[known], 50)
    return ZetaFilter(threshold, known, known & is_resistant(candidates, threshold))


def rounded(values: Floats, digits: int = _DIGITS) -> list[float | None]:
    """Numbers with so many significant digits, None for those that are not known.

    Example:
        >>> rounded(np.array([0.123456, np.nan, 250.0]))
        [0.1235, None, 250.0]
    """
    return [
        float(f"{value:.{digits}g}") if known else None
        for value, known in zip(values.tolist(), np.isfinite(values).tolist(), strict=True)
    ]


def _metrics(frame: pl.DataFrame, candidates: Candidates) -> tuple[Metric, ...]:
    names = [
        name
        for name, kind in frame.schema.items()
        if kind.is_numeric() and name not in _NOT_MEASURED and frame[name].count()
    ]
    first = [candidates.column if name == "zeta" else name for name in _FIRST]
    ordered = [name for name in first if name in names]
    others = [name for name in names if name not in first]
    # Where not all are shown, those with a chart are.
    ordered += sorted(others, key=lambda name: candidates.describe(name).kind != "signal")
    return tuple(Metric(f"m{number}", name) for number, name in enumerate(ordered))


def _stands_alone(candidates: Candidates, values: Floats) -> Booleans:
    """Whether a value is known and neither neighbor in its run is."""
    known = np.isfinite(values)
    same = candidates.run[1:] == candidates.run[:-1]
    joined = known[1:] & known[:-1] & same
    return np.asarray(known & ~np.append(False, joined) & ~np.append(joined, False))
