"""The table of runs: their last readings and the settings in which they differ."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import settings_of

if TYPE_CHECKING:
    from rote.selection import Candidates, Floats, Integers

MOST_SETTINGS = 8
"""The most columns for settings that differ."""


@dataclass(frozen=True)
class RunRow:
    """One run; unknown values are None.

    Attributes:
        name: of the run.
        checkpoints: how many.
        step: the last one.
        susceptibility: ζ there.
        train_accuracy: there.
        noisy_accuracy: on the noisy subset, there.
        test_accuracy: there.
        best_test_accuracy: of all its checkpoints.
        settings: those that differ between runs, in the order of ``RunList.varying``.
    """

    name: str
    checkpoints: int
    step: int
    susceptibility: float | None
    train_accuracy: float | None
    noisy_accuracy: float | None
    test_accuracy: float | None
    best_test_accuracy: float | None
    settings: tuple[str | None, ...]


@dataclass(frozen=True)
class RunList:
    """All runs, or the most relevant of many.

    Attributes:
        rows: one per run with checkpoints that is listed.
        total: how many runs have checkpoints.
        varying: the names of the settings that differ.
        left_out: how many more differ, and have no column.
        shared: the settings that are the same everywhere.
        empty: names of runs without any checkpoint.
    """

    rows: tuple[RunRow, ...]
    total: int
    varying: tuple[str, ...]
    left_out: int
    shared: Mapping[str, str]
    empty: tuple[str, ...]

    def has(self, field: str) -> bool:
        """Return whether any run has a value."""
        return any(getattr(row, field) is not None for row in self.rows)


def run_list(
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
        name: settings_of(descriptions.get(name, {}), workloads.get(name, {}))
        for name in candidates.runs
    }
    names = list(dict.fromkeys(name for found in settings.values() for name in found))
    values = {name: {found.get(name) for found in settings.values()} for name in names}
    varying = [name for name in names if len(values[name]) > 1]
    # Settings that only some runs have come last.
    varying.sort(key=lambda name: len(values[name] - {None}) < 2)
    shown = tuple(varying[:MOST_SETTINGS])
    return RunList(
        rows=tuple(_list_rows(candidates, settings, shown, set(listed.tolist()))),
        total=candidates.num_runs,
        varying=shown,
        left_out=len(varying) - len(shown),
        shared={name: next(iter(values[name])) or "" for name in names if name not in varying},
        empty=tuple(sorted(set(descriptions) - set(candidates.runs))),
    )


def _list_rows(
    candidates: Candidates,
    settings: Mapping[str, Mapping[str, str]],
    shown: tuple[str, ...],
    listed: set[int],
) -> list[RunRow]:
    train, test = candidates.values("train_accuracy"), candidates.values("test_accuracy")
    noisy = candidates.values("noisy_accuracy")
    rows = []
    for part in candidates.by_run():
        last = part.stop - 1
        if int(candidates.run[last]) not in listed:
            continue
        name = candidates.runs[candidates.run[last]]
        rows.append(
            RunRow(
                name=name,
                checkpoints=part.stop - part.start,
                step=int(candidates.step[last]),
                susceptibility=_value_at(candidates.zeta, last),
                train_accuracy=_value_at(train, last),
                noisy_accuracy=_value_at(noisy, last),
                test_accuracy=_value_at(test, last),
                best_test_accuracy=_find_highest(test[part]),
                settings=tuple(settings[name].get(field) for field in shown),
            )
        )
    return rows


def _value_at(values: Floats, index: int) -> float | None:
    return float(values[index]) if np.isfinite(values[index]) else None


def _find_highest(values: Floats) -> float | None:
    known = values[np.isfinite(values)]
    return float(known.max()) if len(known) else None
