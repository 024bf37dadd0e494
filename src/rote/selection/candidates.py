"""The checkpoints that a rule compares: arrays, in an order that no directory listing decides."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from rote.errors import InputError
from rote.records import ZETAS

if TYPE_CHECKING:
    import polars as pl

    from rote.store import RunTable

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Candidates:
    """Checkpoints by run, then step. What is not known of one is NaN.

    Attributes:
        table: where they come from.
        column: which of the four ζ ``susceptibility`` is.
        runs: the names of the runs, sorted.
        run: the position in ``runs``.
        step: after how many units of training.
        row: which reading of its run.
        position: the row of the table's frame.
        susceptibility: ζ.
        train_accuracy: on the training set, with its given labels.
        test_accuracy: on a clean test set, if there is one.
        validation_accuracy: on the pool, with its given labels.
    """

    table: RunTable
    column: str
    runs: tuple[str, ...]
    run: Integers
    step: Integers
    row: Integers
    position: Integers
    susceptibility: Floats
    train_accuracy: Floats
    test_accuracy: Floats
    validation_accuracy: Floats

    def __len__(self) -> int:
        return len(self.run)

    @property
    def num_runs(self) -> int:
        """How many runs they come from."""
        return int(np.count_nonzero(np.diff(self.run))) + 1 if len(self) else 0

    @property
    def label(self) -> str:
        """How sentences call ζ."""
        return "ζ" if self.column == ZETAS[0] else f"ζ (`{self.column}`)"

    def name(self, index: int) -> str:
        """How sentences call a checkpoint."""
        return f"step {self.step[index]} of {self.runs[self.run[index]]}"

    def take(self, chosen: Booleans | Integers) -> Candidates:
        """Some of them."""
        arrays = ("run", "step", "row", "position", *VALUES)
        return replace(self, **{name: getattr(self, name)[chosen] for name in arrays})

    def by_run(self) -> Iterator[slice]:
        """The stretch of every run, in order."""
        starts = np.flatnonzero(np.diff(self.run, prepend=-1))
        ends = np.append(starts[1:], len(self))
        yield from (slice(int(a), int(b)) for a, b in zip(starts, ends, strict=True))

    def best(self, score: Floats, among: Booleans | Integers | None = None) -> int:
        """The one with the highest score.

        Ties are broken by lower ζ, then the earlier step, then the first name of a run.

        Args:
            score: one number per candidate; NaN loses.
            among: consider these only.
        """
        left = np.arange(len(self)) if among is None else np.arange(len(self))[among]
        left = _lowest(left, -score)
        left = _lowest(left, self.susceptibility)
        return int(_lowest(left, self.step.astype(np.float64))[0])


VALUES = ("susceptibility", "train_accuracy", "test_accuracy", "validation_accuracy")
"""What rules may need."""


def candidates_of(table: RunTable, column: str) -> Candidates:
    """All checkpoints of a table.

    Raises:
        InputError: if there is no such ζ.
    """
    if column not in ZETAS:
        raise InputError(f"Expected `column` to be one of {', '.join(ZETAS)}, got {column!r}.")
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
    everything = Candidates(
        table,
        column,
        runs,
        run,
        step,
        row,
        np.arange(len(frame)),
        np.where(_is_broken(frame), np.nan, _numbers(frame, column)),
        *(_numbers(frame, name) for name in VALUES[1:]),
    )
    return _ordered(everything)


def _ordered(candidates: Candidates) -> Candidates:
    keys = (candidates.run, candidates.step, candidates.row)
    undecided = np.ones(max(len(candidates) - 1, 0), dtype=np.bool_)
    for key in keys:
        difference = np.diff(key)
        if (undecided & (difference < 0)).any():
            return candidates.take(np.lexsort(keys[::-1]))
        undecided &= difference == 0
    return candidates


def _numbers(frame: pl.DataFrame, name: str) -> Floats:
    if name not in frame.columns:
        return np.full(len(frame), np.nan)
    values = frame[name].to_numpy().astype(np.float64, copy=False)
    return np.where(np.isinf(values), np.nan, values)


def _is_broken(frame: pl.DataFrame) -> Booleans:
    """Networks whose loss is not finite. Their ζ is that of the readings before they broke."""
    if not {"flags", "loss_before"}.issubset(frame.columns):
        return np.zeros(len(frame), dtype=np.bool_)
    is_flagged = frame["flags"].list.contains("non_finite").fill_null(value=False).to_numpy()
    return np.asarray(is_flagged & np.isnan(_numbers(frame, "loss_before")))


def _lowest(left: Integers, score: Floats) -> Integers:
    values = np.where(np.isnan(score[left]), np.inf, score[left])
    return np.asarray(left[values == values.min()])
