"""Mapping of a user's metric names to those of rote: ``susceptibility=my_metric``."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rote.errors import InputError, did_you_mean
from rote.records import COLUMNS
from rote.store.journal import is_reserved

if TYPE_CHECKING:
    import polars as pl

_COUNTED = ("run", "step")
"""Columns of a CSV file that may also have another name."""

_HIDDEN = ("run", "row", "step", "flags")

_HELD_OUT = {"val", "valid", "validation", "eval", "dev"}
_ACCURACY = {"acc", "accuracy", "acc1", "top1"}
_ALIKE: dict[str, tuple[set[str], set[str]]] = {
    "susceptibility": ({"zeta", "ζ", "susceptibility"}, set()),
    "validation_accuracy": (_ACCURACY, _HELD_OUT),
    "test_accuracy": (_ACCURACY, {"test"}),
    "train_accuracy": (_ACCURACY, {"train", "training"}),
}
"""By rote's name: a matching name contains a word of the first set and one of the second."""


def find_foreign_metrics(frame: pl.DataFrame) -> tuple[str, ...]:
    """Return the metrics of a table that rote has no name for, by their own names."""
    known = [name for name in frame.columns if name not in (*_HIDDEN, *COLUMNS)]
    return tuple(sorted(n.removeprefix("metric:") for n in known if frame[n].count()))


def guess_mapping(metrics: Iterable[str], missing: Iterable[str]) -> dict[str, str]:
    """Return which metrics probably correspond to rote's names.

    Args:
        metrics: the names of the metrics.
        missing: rote's names that have no metric yet.

    Example:
        >>> guess_mapping(["Accuracy/train", "eval_acc", "f1"], COLUMNS)
        {'validation_accuracy': 'eval_acc', 'train_accuracy': 'Accuracy/train'}
    """
    words = {name: set(re.findall(r"[^\W_]+", name.lower())) for name in metrics}
    wanted = set(missing)
    found: dict[str, str] = {}
    for own, (kinds, parts) in _ALIKE.items():
        alike = [
            name for name, said in words.items() if said & kinds and (said & parts or not parts)
        ]
        if own == "train_accuracy":  # a plain `acc` is usually that of training
            alike += [name for name, said in words.items() if said and said <= kinds]
        if own in wanted and alike:
            found[own] = alike[0]
    return found


def check_mapping(mapping: Mapping[str, str], recorded: Iterable[str] = ()) -> None:
    """Check that all names are rote's, or those of columns that the runs have or describe.

    Raises:
        InputError: if one of them is not.
    """
    known = [*COLUMNS, *(name for name in recorded if name not in _HIDDEN)]
    for name in mapping:
        if name not in (*known, *_COUNTED):
            raise InputError(
                f"Expected `mapping` to go from names of rote's ({', '.join(COLUMNS)}; for csv: "
                "also run, step), or of columns that the runs have or describe, got "
                f"{name!r}.{did_you_mean(name, known)}"
            )


def apply_mapping(frames: list[pl.DataFrame], mapping: Mapping[str, str]) -> list[pl.DataFrame]:
    """Give metrics the names that rote knows, in every source (one frame each) that has them.

    A renamed metric is no longer shown under its old name.

    Raises:
        InputError: if no source has a metric.
    """
    import polars as pl

    wanted = {name: metric for name, metric in mapping.items() if name not in _COUNTED}
    known = sorted({column for frame in frames for column in frame.columns} - set(_HIDDEN))
    for metric in wanted.values():
        if not {metric, name_column(metric)} & set(known):
            names = [name.removeprefix("metric:") for name in known]
            raise InputError(
                f"Expected `mapping` to name a metric of the runs, got {metric!r}; there are: "
                f"{', '.join(names)}.{did_you_mean(metric, names)}"
            )
    mapped = []
    for frame in frames:
        columns = {name: _find_column(frame, metric) for name, metric in wanted.items()}
        found = [pl.col(column).alias(name) for name, column in columns.items() if column]
        theirs = {column for column in columns.values() if column and column not in COLUMNS}
        mapped.append(frame.with_columns(found).drop(theirs) if found else frame)
    return mapped


def _find_column(frame: pl.DataFrame, metric: str) -> str | None:
    candidates = (metric, name_column(metric))
    return next((name for name in candidates if name in frame.columns), None)


def name_column(name: str) -> str:
    """Return the column of a foreign metric, with ``metric:`` before it if a table needs its name.

    Example:
        >>> name_column("accuracy"), name_column("score")
        ('accuracy', 'metric:score')
    """
    is_taken = is_reserved(name) and name not in COLUMNS
    return f"metric:{name}" if is_taken else name
