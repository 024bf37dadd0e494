"""The table of runs: their last readings and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.records import COLUMNS, Column
from rote.selection import read_settings

if TYPE_CHECKING:
    from rote.selection import Candidates, Floats, Integers

_BEST = Column("best_test_accuracy", "best test accuracy", "truth", "share", heading="Best test")
MOST_SETTINGS = 8
"""The most columns for settings that differ."""


@dataclass(frozen=True)
class RunRow:
    """One run; unknown values are None.

    Attributes:
        name: of the run.
        checkpoints: how many.
        step: the last one.
        values: at the last step, in the order of ``RunList.columns``.
        settings: those that differ between runs, in the order of ``RunList.varying``.
        susceptibility: ζ at the last step.
        train_accuracy: at the last step.
    """

    name: str
    checkpoints: int
    step: int
    values: tuple[float | None, ...]
    settings: tuple[str | None, ...]
    susceptibility: float | None
    train_accuracy: float | None


@dataclass(frozen=True)
class RunList:
    """All runs, or the most relevant of many.

    Attributes:
        rows: one per run with checkpoints that is listed.
        total: the number of runs that have checkpoints.
        columns: the known ones with a heading.
        varying: the names of the settings that differ.
        left_out: how many more differ, and have no column.
        shared: the settings that are the same everywhere.
        empty: names of runs without any checkpoint.
    """

    rows: tuple[RunRow, ...]
    total: int
    columns: tuple[Column, ...]
    varying: tuple[str, ...]
    left_out: int
    shared: Mapping[str, str]
    empty: tuple[str, ...]


def list_runs(
    candidates: Candidates, workloads: Mapping[str, Mapping[str, Any]], listed: Integers
) -> RunList:
    """Make the table of runs from their checkpoints and settings.

    Args:
        candidates: all checkpoints.
        workloads: by run.
        listed: the codes of the runs that have a row.
    """
    descriptions = candidates.table.descriptions
    settings = {
        name: read_settings(descriptions.get(name, {}), workloads.get(name, {}))
        for name in candidates.runs
    }
    names = list(dict.fromkeys(name for found in settings.values() for name in found))
    values = {name: {found.get(name) for found in settings.values()} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    # Settings that only some runs have come last.
    varying.sort(key=lambda name: len(values[name] - {None}) < 2)
    shown = tuple(varying[:MOST_SETTINGS])
    columns = _find_columns(candidates)
    return RunList(
        rows=tuple(_list_rows(candidates, settings, shown, columns, set(listed.tolist()))),
        total=candidates.num_runs,
        columns=columns,
        varying=shown,
        left_out=len(varying) - len(shown),
        shared={name: next(iter(values[name])) or "" for name in names if name not in varying},
        empty=tuple(sorted(set(descriptions) - {*candidates.runs, ""})),  # "" describes all runs
    )


def _find_columns(candidates: Candidates) -> tuple[Column, ...]:
    """Return the columns with a heading and a value, and the best test accuracy."""
    described = candidates.table.columns
    ordered = {**{name: described.get(name, COLUMNS[name]) for name in COLUMNS}, **described}
    found = [
        column
        for column in ordered.values()
        if column.heading and np.isfinite(_get_values(candidates, column)).any()
    ]
    has_truth = any(column.name == _BEST.name.removeprefix("best_") for column in found)
    return (*found, *([_BEST] if has_truth else []))


def _get_values(candidates: Candidates, column: Column) -> Floats:
    """Return the values of a column; those of ζ are the selected ones."""
    return candidates.zeta if column.kind == "zeta" else candidates.values(column.name)


def _list_rows(
    candidates: Candidates,
    settings: Mapping[str, Mapping[str, str]],
    shown: tuple[str, ...],
    columns: tuple[Column, ...],
    listed: set[int],
) -> list[RunRow]:
    arrays = {column.name: _get_values(candidates, column) for column in columns if column != _BEST}
    train = candidates.values("train_accuracy")
    test = candidates.values("test_accuracy")
    rows = []
    for part in candidates.by_run():
        last = part.stop - 1
        if int(candidates.run[last]) not in listed:
            continue
        name = candidates.runs[candidates.run[last]]
        values = [_get_value(values, last) for values in arrays.values()]
        rows.append(
            RunRow(
                name=name,
                checkpoints=part.stop - part.start,
                step=int(candidates.step[last]),
                values=(*values, *([_find_highest(test[part])] if _BEST in columns else [])),
                settings=tuple(settings[name].get(field) for field in shown),
                susceptibility=_get_value(candidates.zeta, last),
                train_accuracy=_get_value(train, last),
            )
        )
    return rows


def _get_value(values: Floats, index: int) -> float | None:
    return float(values[index]) if np.isfinite(values[index]) else None


def _find_highest(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
