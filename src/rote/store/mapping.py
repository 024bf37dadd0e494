"""Other people's names for what rote calls by its own: ``susceptibility=my_metric``."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from rote.errors import InputError, did_you_mean
from rote.records import COLUMNS
from rote.store.found_runs import column_of

if TYPE_CHECKING:
    import polars as pl

_COUNTED = ("run", "step")
"""Columns of a CSV file that may have another name, too."""

_HIDDEN = ("run", "row", "step", "flags")


def parse_mapping(pairs: Iterable[str]) -> dict[str, str]:
    """Pairs as they are typed, such as ``susceptibility=my_metric``.

    Raises:
        InputError: if one is no pair, or maps a name a second time.

    Example:
        >>> parse_mapping(["susceptibility=zeta", "train_accuracy=acc"])
        {'susceptibility': 'zeta', 'train_accuracy': 'acc'}
    """
    mapping: dict[str, str] = {}
    for pair in pairs:
        name, separator, metric = pair.partition("=")
        if not (name and separator and metric):
            raise InputError(f"Expected `--map` to be NAME=METRIC, got {pair!r}.")
        if name in mapping:
            raise InputError(f"Expected `--map` to give {name!r} once, got it twice.")
        mapping[name] = metric
    return mapping


def check_mapping(mapping: Mapping[str, str], recorded: Iterable[str] = ()) -> None:
    """See whether all names are rote's, or those of columns that the runs have or describe.

    Raises:
        InputError: if one is not.
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

    Raises:
        InputError: if no source has a metric.
    """
    import polars as pl

    wanted = {name: metric for name, metric in mapping.items() if name not in _COUNTED}
    known = sorted({column for frame in frames for column in frame.columns} - set(_HIDDEN))
    for metric in wanted.values():
        if not {metric, column_of(metric)} & set(known):
            names = [name.removeprefix("metric:") for name in known]
            raise InputError(
                f"Expected `mapping` to name a metric of the runs, got {metric!r}; there are: "
                f"{', '.join(names)}.{did_you_mean(metric, names)}"
            )
    mapped = []
    for frame in frames:
        columns = {name: _column(frame, metric) for name, metric in wanted.items()}
        found = [pl.col(column).alias(name) for name, column in columns.items() if column]
        mapped.append(frame.with_columns(found) if found else frame)
    return mapped


def _column(frame: pl.DataFrame, metric: str) -> str | None:
    candidates = (metric, column_of(metric))
    return next((name for name in candidates if name in frame.columns), None)
