"""The checkpoints that a rule compares, as arrays sorted by run and step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from rote.arguments import check_choice
from rote.errors import InputError
from rote.records import ZETAS, Column, find_column

if TYPE_CHECKING:
    import polars as pl

    from rote.store import RunTable

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]

ZETA = "zeta"
"""The name in rules for the chosen ζ, whichever of the four columns it is."""

DIP = 0.05
"""A training accuracy counts as dropped if it is this far below an earlier one of its run."""

_LARGEST = 1e140


class KnownRange(NamedTuple):
    """Of the known values of a column; there is at least one."""

    median: float
    best: float


@dataclass(frozen=True)
class Candidates:
    """Checkpoints by run, then step.

    Attributes:
        table: the table that they come from.
        column: the column of ζ, one of four.
        runs: the names of the runs, sorted.
        run: the position of each checkpoint's run in ``runs``.
        step: the step of each checkpoint, in units of training.
        row: the index of the reading in its run.
        position: the row in the table's frame.

    Example:
        >>> import polars as pl
        >>> from rote.store import RunTable
        >>> frame = pl.DataFrame({"run": ["a", "a"], "row": [0, 1], "step": [1, 2],
        ...     "susceptibility": [0.1, 0.2], "train_accuracy": [0.5, 0.9]})
        >>> candidates = make_candidates(RunTable(frame, {"a": {}}), "susceptibility")
        >>> candidates.name(candidates.best(candidates.values("train_accuracy")))
        'step 2 of a'
    """

    table: RunTable
    column: str
    runs: tuple[str, ...]
    run: Integers
    step: Integers
    row: Integers
    position: Integers
    # Of the whole table, and therefore shared by all subsets of it.
    _columns: dict[str, Floats] = field(default_factory=dict, repr=False, compare=False)
    _values: dict[str, Floats] = field(default_factory=dict, init=False, repr=False, compare=False)
    _ranges: dict[str, KnownRange] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __len__(self) -> int:
        return len(self.run)

    def values(self, name: str) -> Floats:
        """Return the recorded values of a column, NaN where unknown.

        ζ of a network whose loss is no longer finite is unknown: the recorded value is that of
        earlier readings.

        Args:
            name: the name of any column, or ``zeta`` for the chosen column of ζ.
        """
        name = self.column if name == ZETA else name
        if name not in self._columns:
            self._columns[name] = _read_column(self.table.frame, self.describe(name))
        if name not in self._values:
            column = self._columns[name]
            self._values[name] = column if self._is_table else column[self.position]
        return self._values[name]

    def find_range(self, name: str) -> KnownRange:
        """Return where the known values of a column lie; every rule asks, and it is found once."""
        if name not in self._ranges:
            self._ranges[name] = find_range(self.values(name))
        return self._ranges[name]

    @property
    def zeta(self) -> Floats:
        """The values of the chosen column of ζ."""
        return self.values(ZETA)

    def describe(self, name: str) -> Column:
        """Return what a column means: as rote or the runs describe it."""
        name = self.column if name == ZETA else name
        return self.table.columns.get(name) or find_column(name)

    @cached_property
    def _is_table(self) -> bool:
        """Whether they are all rows of the table, in its order."""
        rows = len(self.table.frame)
        return len(self) == rows and bool((self.position == np.arange(rows)).all())

    @cached_property
    def num_runs(self) -> int:
        """The number of runs that they come from."""
        return int(np.count_nonzero(np.diff(self.run))) + 1 if len(self) else 0

    @property
    def label(self) -> str:
        """The label of ζ in sentences."""
        return "ζ" if self.column == ZETAS[0] else f"ζ (`{self.column}`)"

    def name(self, index: int) -> str:
        """Return the name of a checkpoint in sentences."""
        return f"step {self.step[index]} of {self.runs[self.run[index]]}"

    def known(self, *names: str) -> Booleans:
        """Return which of them have finite values in all of some columns."""
        found = np.ones(len(self), dtype=np.bool_)
        for name in names:
            found &= np.isfinite(self.values(name))
        return found

    def take(self, chosen: Booleans | Integers) -> Candidates:
        """Return some of the candidates."""
        arrays = ("run", "step", "row", "position")
        return replace(self, **{name: getattr(self, name)[chosen] for name in arrays})

    def by_run(self) -> Iterator[slice]:
        """Return the slice of every run, in order."""
        starts = np.flatnonzero(np.diff(self.run, prepend=-1))
        ends = np.append(starts[1:], len(self))
        return map(slice, starts.tolist(), ends.tolist())

    def last(self) -> Integers:
        """Return the last checkpoint of every run, in order."""
        return np.flatnonzero(np.diff(self.run, append=-1))

    @cached_property
    def steady(self) -> Booleans:
        """Which of them have no drop: a training accuracy far below an earlier one of the run."""
        accuracy = self.values("train_accuracy")
        found = np.ones(len(self), dtype=np.bool_)
        for part in self.by_run():
            highest = np.fmax.accumulate(accuracy[part])
            found[part] = ~(accuracy[part] < highest - DIP)
        return found

    def best(self, score: Floats, among: Booleans | Integers | None = None) -> int:
        """Return the one with the highest score.

        Ties are broken by lower ζ, then the earlier step, then the first name of a run.

        Args:
            score: one number per candidate; NaN loses.
            among: consider only these.
        """
        left = np.arange(len(self)) if among is None else np.arange(len(self))[among]
        left = _find_lowest(left, -score)
        left = _find_lowest(left, self.zeta)
        return int(_find_lowest(left, self.step.astype(np.float64))[0])


def make_candidates(table: RunTable, column: str) -> Candidates:
    """Return all checkpoints of a table.

    Raises:
        InputError: if there is no such ζ.
    """
    check_choice("column", column, ZETAS)
    frame = table.frame
    lengths = frame["run"].rle()
    names = lengths.struct.field("value").to_list()
    runs = tuple(sorted(set(names)))
    codes = {name: code for code, name in enumerate(runs)}
    run = np.repeat(
        np.array([codes[name] for name in names], dtype=np.int64),
        lengths.struct.field("len").to_numpy(),
    )
    step = frame["step"].to_numpy().astype(np.int64, copy=False)
    row = frame["row"].to_numpy().astype(np.int64, copy=False)
    return _sort(Candidates(table, column, runs, run, step, row, np.arange(len(frame))))


def find_range(values: Floats) -> KnownRange:
    """Return the positions of the known values."""
    known = values[np.isfinite(values)]
    return KnownRange(float(np.median(known)), float(known.max()))


def as_shares(table: RunTable) -> RunTable:
    """Divide by 100 every column of shares that goes beyond 1, in all runs.

    Raises:
        InputError: if none does.
    """
    import polars as pl

    high = [
        name
        for name, column in table.columns.items()
        if column.unit == "share"
        and np.fmax.reduce(convert_to_numbers(table.frame[name]), initial=0) > 1
    ]
    if not high:
        raise InputError(
            "`percent` has nothing to convert: all accuracies are shares from 0 to 1. Leave it out."
        )
    return replace(table, frame=table.frame.with_columns([pl.col(name) / 100 for name in high]))


def convert_to_numbers(series: pl.Series) -> Floats:
    """Return a column of numbers; values that are missing, not finite or not numbers are NaN.

    So are values so large that sums of squares would overflow.
    """
    if not (series.dtype.is_numeric() or series.dtype == bool):
        return np.full(len(series), np.nan)
    values = series.to_numpy().astype(np.float64, copy=False)
    is_too_large = np.abs(values) > _LARGEST
    return np.where(is_too_large, np.nan, values) if is_too_large.any() else values


def _sort(candidates: Candidates) -> Candidates:
    keys = (candidates.run, candidates.step, candidates.row)
    undecided = np.ones(max(len(candidates) - 1, 0), dtype=np.bool_)
    for key in keys:
        difference = np.diff(key)
        if (undecided & (difference < 0)).any():
            return candidates.take(np.lexsort(keys[::-1]))
        undecided &= difference == 0
    return candidates


def _read_column(frame: pl.DataFrame, column: Column) -> Floats:
    # A metric with a reserved name has a prefix in the table.
    found = [name for name in (column.name, f"metric:{column.name}") if name in frame.columns]
    if not found:
        return np.full(len(frame), np.nan)
    values = convert_to_numbers(frame[found[0]])
    return np.where(_is_broken(frame), np.nan, values) if column.kind == "zeta" else values


def _is_broken(frame: pl.DataFrame) -> Booleans:
    """Find networks whose loss is not finite; their ζ is that of earlier readings."""
    if not {"flags", "loss_before"}.issubset(frame.columns):
        return np.zeros(len(frame), dtype=np.bool_)
    is_flagged = frame["flags"].list.contains("non_finite").fill_null(value=False).to_numpy()
    return np.asarray(is_flagged & np.isnan(convert_to_numbers(frame["loss_before"])))


def _find_lowest(left: Integers, score: Floats) -> Integers:
    values = np.where(np.isnan(score[left]), np.inf, score[left])
    return np.asarray(left[values == values.min()])
