"""A CSV file, which can be read: one row per checkpoint, one column per metric."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from rote.errors import GuessedNamesWarning, InputError, OddJournalWarning, did_you_mean
from rote.records import COLUMNS, SHARES
from rote.store.csv_cells import read_cells
from rote.store.journal import READING_COLUMNS
from rote.store.logger import Logger
from rote.store.mapping import guess_mapping, name_column
from rote.store.table import FoundRun, SourceRuns

_STEPS = ("epoch", "epochs", "global_step", "iteration", "iter", "steps", "batch", "t")

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from rote.store.logger import Address


def read_csv(address: Address, mapping: Mapping[str, str]) -> SourceRuns:
    """Read a file with the columns ``step``, ``run`` (without it, all rows are one run), metrics.

    Cells are separated by commas, semicolons or tabs, whichever makes columns of the header. Rows
    of one run and step are one checkpoint; of several values in one column, the last counts, with
    an ``OddJournalWarning``.
    Columns of text that are not needed are passed over; ``flags`` may hold flags with spaces or
    semicolons between them.

    ``mapping`` may name other columns for ``run`` and ``step``; what it names must be numbers.

    Raises:
        InputError: if there is no such file, it is no CSV file, has no steps, or holds a text where
            a number is needed.
    """
    import polars as pl

    path = address.path
    if not address.place or not path.is_file():
        what = "Not a file" if path.exists() else "File not found"
        raise InputError(f"{what}: {address.place!r} (csv:FILE). Check the path.")
    texts = _rename_likely(read_cells(path, mapping.get("step", "step")), mapping, path)
    run, step = _check_columns(texts, mapping, path)
    named = pl.lit(path.stem) if run is None else _read_names(texts, run, path)
    flags = pl.lit("") if "flags" not in texts.columns else texts["flags"].fill_null("")
    split = flags.str.replace_all(";", " ").str.extract_all(r"\S+")
    needed = {*READING_COLUMNS, *SHARES, *mapping.values()}
    others = [name for name in texts.columns if name not in (run, step, "flags")]
    numbers = [_read_numbers(texts, name, path, is_needed=name in needed) for name in others]
    kept = [values.alias(name_column(values.name)) for values in numbers if values is not None]
    steps = _read_steps(texts, step, path)
    rows = texts.select(named.alias("run"), steps.alias("step"), split.alias("flags"), *kept)
    if rows.is_empty():
        raise InputError(f"{path} has a header and no checkpoints.")
    return _make_source(path, rows)


def _rename_likely(texts: pl.DataFrame, mapping: Mapping[str, str], path: Path) -> pl.DataFrame:
    """Give columns the names that they probably mean, and say so, unless there is a mapping."""
    if mapping:
        return texts
    columns = texts.columns
    missing = [name for name in COLUMNS if name not in columns]
    others = [name for name in columns if name not in COLUMNS]
    meant = guess_mapping(others, missing)
    if "step" not in columns:
        steps = [name for name in columns if name.lower() in _STEPS]
        if not steps:
            return texts  # refused for want of steps
        meant["step"] = steps[0]
    if not meant:
        return texts
    maps = ", ".join(f"{own}={theirs}" for own, theirs in meant.items())
    warnings.warn(
        GuessedNamesWarning(
            f"Columns of {path} are read by what their names probably mean: {maps}. To change "
            "that, add --map NAME=COLUMN."
        ),
        stacklevel=4,
    )
    return texts.rename({theirs: own for own, theirs in meant.items()})


def _make_source(path: Path, rows: pl.DataFrame) -> SourceRuns:
    import polars as pl

    merged = rows.group_by("run", "step").agg(pl.all().drop_nulls().last()).sort("run", "step")
    if merged.height < rows.height:
        _warn_of_several_values(path, rows)
    runs = merged["run"].unique(maintain_order=True)
    absent = [pl.lit(None, pl.Float64).alias(n) for n in READING_COLUMNS if n not in merged.columns]
    codes = pl.col("run").replace_strict(runs, pl.Series(range(len(runs))), return_dtype=pl.Int64)
    row = pl.int_range(pl.len()).over("run").alias("row")
    frame = merged.with_columns(codes, row, *absent)
    metrics = sorted(set(frame.columns) - {"run", "row", *READING_COLUMNS})
    found = [
        FoundRun(name, path / name, {"name": name}, identity=f"{path.resolve()}\n{name}")
        for name in runs
    ]
    return SourceRuns(found, frame.select("run", "row", *READING_COLUMNS, *metrics))


def _warn_of_several_values(path: Path, rows: pl.DataFrame) -> None:
    import polars as pl

    metrics = pl.exclude("run", "step", "flags")
    counts = rows.group_by("run", "step").agg(metrics.drop_nulls().n_unique()).sort("run", "step")
    several = counts.filter(pl.any_horizontal(metrics > 1))
    if several.height:
        first = several.row(0, named=True)
        message = (
            f"{path} has several values of one metric at {several.height} steps, the first at step "
            f"{first['step']} of {first['run']!r}; the last counts. Give every run its name in a "
            "column `run`, or name the column with --map run=COLUMN."
        )
        warnings.warn(OddJournalWarning(message), stacklevel=4)


def _check_columns(
    texts: pl.DataFrame, mapping: Mapping[str, str], path: Path
) -> tuple[str | None, str]:
    """Return the columns of runs and steps."""
    step, run = mapping.get("step", "step"), mapping.get("run", "run")
    wanted = {"step": step, "run": run} if "run" in mapping else {"step": step}
    for role, name in wanted.items():
        if name not in texts.columns:
            raise InputError(
                f"{path} has no column {name!r}. It has: "
                f"{', '.join(texts.columns)}.{did_you_mean(name, texts.columns)} `--map "
                f"{role}=COLUMN` names another one; commas, semicolons or tabs separate columns."
            )
    return run if run in texts.columns else None, step


def _read_names(texts: pl.DataFrame, column: str, path: Path) -> pl.Series:
    names = texts[column]
    if names.null_count():
        at = int(names.is_null().arg_max() or 0)
        raise InputError(
            f"Expected column {column!r} of {path} to name runs, got nothing in line {at + 2}."
        )
    return names


def _read_steps(texts: pl.DataFrame, column: str, path: Path) -> pl.Series:
    import polars as pl

    steps = texts[column].cast(pl.Float64, strict=False)
    # NaN equals itself here, and no step is so large that a float cannot count it.
    is_odd = steps.is_null() | ~steps.is_between(-(2**53), 2**53) | (steps != steps.round())
    is_odd = is_odd.fill_null(value=True)
    if is_odd.any():
        at = int(is_odd.arg_max() or 0)
        raise InputError(
            f"Expected column {column!r} of {path} to hold whole steps, got "
            f"{texts[column][at] or 'nothing'} in line {at + 2}.{_advise(texts[column][at])}"
        )
    return steps.cast(pl.Int64)


def _read_numbers(
    texts: pl.DataFrame, column: str, path: Path, *, is_needed: bool
) -> pl.Series | None:
    """Return a column of numbers; None if it is of texts, and not needed."""
    import polars as pl

    numbers = texts[column].cast(pl.Float64, strict=False)
    is_text = numbers.is_null() & texts[column].is_not_null()
    if is_text.any() and is_needed:
        at = int(is_text.arg_max() or 0)
        raise InputError(
            f"Expected column {column!r} of {path} to hold numbers, got {texts[column][at]!r} in "
            f"line {at + 2}.{_advise(texts[column][at])}"
        )
    finite = pl.when(numbers.is_finite()).then(numbers).otherwise(None)
    return None if is_text.any() else texts.select(finite.alias(column))[column]


def _advise(cell: str | None) -> str:
    is_decimal = re.fullmatch(r"[+-]?\d*,\d+([eE][+-]?\d+)?", cell or "")
    return " Write decimal points, not commas." if is_decimal else ""


LOGGER = Logger(read=read_csv, is_table=True)
