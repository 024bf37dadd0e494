"""Cells of CSV files: reading them as texts, and escaping those that are written."""

from __future__ import annotations

import csv
import io
import re
from codecs import BOM_UTF16_BE, BOM_UTF16_LE
from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rote.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

_SEPARATORS = (",", ";", "\t")
_FORMULAS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]+)?")
"""A text that is a number, such as the label -1, does nothing in a spreadsheet."""


def make_csv(rows: Iterable[Iterable[object]]) -> str:
    r"""Return rows as the text of a CSV file that is safe to open in a spreadsheet.

    Texts that a spreadsheet would run as formulas get an apostrophe, and so do texts that look
    escaped already, so that ``unescape_cell`` is exact. Numbers stay as they are, also as texts.

    Example:
        >>> make_csv([["name", "score"], ["=1+1", -3]])
        "name,score\n'=1+1,-3\n"
    """
    text = io.StringIO(newline="")
    for row in rows:
        line = io.StringIO(newline="")
        # Before Python 3.13, only a CR that is part of the line's end is put in quotes. Without
        # them, what follows it is the first cell of another line.
        csv.writer(line, lineterminator="\r\n").writerow(map(_escape, row))
        text.write(line.getvalue().removesuffix("\r\n") + "\n")
    return text.getvalue()


def _escape(cell: object) -> object:
    return f"'{cell}" if isinstance(cell, str) and _is_formula(cell) else cell


def unescape_cell(text: str) -> str:
    """Return a text as it was before ``make_csv``.

    Example:
        >>> unescape_cell("'=1+1"), unescape_cell("'s")
        ('=1+1', "'s")
    """
    return text[1:] if text.startswith("'") and _is_formula(text) else text


def _is_formula(text: str) -> bool:
    bare = text.lstrip("'")
    return bare.startswith(_FORMULAS) and not _NUMBER.fullmatch(bare)


def read_cells(path: Path, column: str) -> pl.DataFrame:
    """Return all cells of a file with a header, stripped; None where a cell is empty.

    Args:
        path: the file.
        column: a column of the header, which identifies the separator (comma, semicolon, tab).

    Raises:
        InputError: if it is no CSV file, or its rows do not fit its header.
    """
    import polars as pl

    try:
        _check_encoding(path)
        separator = _find_separator(path, column)
        _check_cells(path, separator, of_header=True)
        frame = pl.read_csv(path, infer_schema=False, separator=separator).rename(str.strip)
        if frame.width and frame[:, -1].null_count():
            _check_cells(path, separator)
    except (pl.exceptions.PolarsError, OSError, csv.Error) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"{path} is not a CSV file with a header: {reason}.{_advise(reason)}"
        ) from error
    stripped = frame.with_columns(pl.all().str.strip_chars())
    return stripped.with_columns(pl.all().replace("", None))


def _check_encoding(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(2)
    if start in (BOM_UTF16_LE, BOM_UTF16_BE):
        raise InputError(f"{path} is text in UTF-16. Save it as UTF-8.")


def _advise(reason: str) -> str:
    if "more fields" in reason:
        return " Write decimal points, not commas; put texts with separators into quotes."
    return " Save it as UTF-8." if "utf-8" in reason else ""


def _find_separator(path: Path, column: str) -> str:
    """Return the separator of cells with which the header has the column."""
    columns: dict[str, list[str]] = {}
    for separator in _SEPARATORS:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
            header = next((row for row in csv.reader(file, delimiter=separator) if row), [])
        columns[separator] = [name.strip() for name in header]
    return max(_SEPARATORS, key=lambda found: (column in columns[found], len(columns[found])))


def _check_cells(path: Path, separator: str, *, of_header: bool = False) -> None:
    """Check that column names differ and that every line has a cell for each."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        rows = csv.reader(file, delimiter=separator)
        header = [name.strip() for name in next(filter(None, rows), [])]
        for name, count in Counter(header).items():
            if count > 1 and name:
                raise InputError(
                    f"{path} has {count} columns with the name {name!r}. Rename or remove all but "
                    "one."
                )
        for row in () if of_header else rows:
            if row and len(row) < len(header):
                raise InputError(
                    f"Line {rows.line_num} of {path} has {len(row)} cells, and its header has "
                    f"{len(header)}. Leave empty what is missing, between two separators."
                )
