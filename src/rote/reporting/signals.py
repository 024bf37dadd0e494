"""What each recorded signal would keep, and how far signals agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rote.records import COLUMNS, ZETAS
from rote.selection import find_rule, usable_for

if TYPE_CHECKING:
    from rote.records import Column
    from rote.selection import Candidates, Floats, Integers

MOST_COMPARED = 20
"""Signals: the numbers of more would be too small for a phone."""

TRUTH = "test_accuracy"
_FIRST = ("estimated_accuracy", "validation_accuracy")


@dataclass(frozen=True)
class SignalPick:
    """What one signal would keep.

    Attributes:
        column: what the signal is.
        rule: the rule that keeps it: ``max:COLUMN`` or ``min:COLUMN``.
        run: the name of the run.
        step: after how many units of training.
        position: which candidate it is.
        value: of the signal there.
        estimated: the estimated accuracy there; None if nobody estimates it.
        test: the test accuracy there; None if it is not known.
    """

    column: Column
    rule: str
    run: str
    step: int
    position: int
    value: float
    estimated: float | None
    test: float | None

    @property
    def knows(self) -> bool:
        """Whether it goes by what only those know who know which labels are right."""
        return _knows(self.column)


def signal_columns(candidates: Candidates) -> tuple[Column, ...]:
    """The signals to compare, ζ first, those that know the truth last; fewer than two are none.

    A signal is a column of which it is known which way is better, and that differs between
    checkpoints: the ζ that is selected by, none of the other three, and no truth that rote records
    by itself.

    Args:
        candidates: all checkpoints, with ``estimated_accuracy`` where it is known.
    """
    recorded = candidates.table.columns
    others = {*ZETAS, *(name for name, column in COLUMNS.items() if column.kind == "truth")}
    ordered = dict.fromkeys([*_FIRST, *recorded])
    names = [candidates.column, *(name for name in ordered if name not in others)]
    found = [recorded[n] for n in names if n in recorded and recorded[n].better]
    found = [column for column in found if _differs(candidates.values(column.name))]
    return tuple(sorted(found, key=_knows)) if len(found) > 1 else ()


def _knows(column: Column) -> bool:
    return column.kind == "truth"


def _differs(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and known.min() < known.max())


def signal_pick(candidates: Candidates, column: Column) -> SignalPick:
    """What a signal would keep.

    Args:
        candidates: all checkpoints, with ``estimated_accuracy`` where it is known.
        column: the signal.
    """
    rule = find_rule(f"{'max' if column.better == 'higher' else 'min'}:{column.name}")
    usable = usable_for(rule, candidates)
    pick = rule.judge(usable).pick
    at = int(np.flatnonzero(candidates.position == usable.position[pick])[0])
    return SignalPick(
        column,
        rule.name,
        candidates.runs[candidates.run[at]],
        int(candidates.step[at]),
        at,
        float(candidates.values(column.name)[at]),
        _known(candidates.values("estimated_accuracy")[at]),
        _known(candidates.values(TRUTH)[at]),
    )


def agreement_of(
    candidates: Candidates, columns: Sequence[Column], positions: Integers
) -> tuple[tuple[float | None, ...], ...]:
    """Kendall's τ-b of every two columns, each signed so that a higher value is a better one.

    Args:
        candidates: all checkpoints.
        columns: which are compared.
        positions: over which checkpoints; those count that have both values.

    Returns:
        Columns × columns; None where one is the same everywhere, or fewer than 2 have both.
    """
    values = [_signed(candidates, column)[positions] for column in columns]
    found: list[list[float | None]] = [[1.0] * len(values) for _ in values]
    for i, one in enumerate(values):
        for j in range(i):
            found[i][j] = found[j][i] = _kendall(one, values[j])
    return tuple(map(tuple, found))


def _signed(candidates: Candidates, column: Column) -> Floats:
    values = candidates.values(column.name)
    return -values if column.better == "lower" else values


def _kendall(one: Floats, other: Floats) -> float | None:
    from scipy import stats

    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < 2 or np.ptp(one[both]) == 0 or np.ptp(other[both]) == 0:
        return None
    return float(stats.kendalltau(one[both], other[both]).statistic)


def _known(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None
