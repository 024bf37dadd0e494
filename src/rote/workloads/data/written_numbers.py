"""Numbers as people write them into tables: plain, in per cent, as money, with commas."""

import re

import polars as pl

from rote.errors import InputError

_ABSENT = ("na", "n/a", "nan", "null", "none", "?")
_SIGNS = r"^[$€£¥]\s*|\s*[%$€£¥]$"
_WAYS = {
    r"^[+-]?\d+(\.\d+)?$": ("", "."),
    r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$": (",", "."),
    r"^[+-]?\d+(,\d+)?$": ("", ","),
    r"^[+-]?(0|[1-9]\d{0,2}(\.\d{3})*)(,\d+)?$": (".", ","),
}
"""By pattern: what stands between thousands, and before decimals; a column is of one way."""


def numbers_in(values: pl.Series, source: str) -> tuple[pl.Series, str] | None:
    """A column as numbers, missing ones as None, and how they were read where that is not plain.

    Args:
        values: the column.
        source: what errors call the table.

    Returns:
        None if it holds something else.

    Raises:
        InputError: if most of it are numbers, and something is not, or one is infinite.
    """
    kind = values.dtype
    if kind.is_numeric() or kind == pl.Boolean:
        numbers, how = values.cast(pl.Float64), ""
    elif kind == pl.String:
        known = values.set(values.str.to_lowercase().is_in(_ABSENT).fill_null(value=False), None)
        if known.is_empty() or known.null_count() == len(known):
            return None
        found = _plain(known, source) or _written(known)
        if found is None:
            return None
        numbers, how = found
    else:
        return None
    if numbers.is_infinite().any():
        at = int(numbers.is_infinite().arg_max() or 0)
        raise InputError(
            f"Expected column {values.name!r} of {source} to hold finite numbers, got "
            f"{numbers[at]} in row {at + 1}."
        )
    return numbers.fill_nan(None), how


def _plain(texts: pl.Series, source: str) -> tuple[pl.Series, str] | None:
    numbers = texts.cast(pl.Float64, strict=False)
    is_odd = numbers.is_null() & texts.is_not_null()
    if 2 * int(is_odd.sum()) > len(texts) - texts.null_count():
        return None
    if is_odd.any():
        written = _written(texts)
        if written is not None:
            return written
        at = int(is_odd.arg_max() or 0)
        raise InputError(
            f"Expected column {texts.name!r} of {source} to hold numbers, as most of it does, got "
            f"{texts[at]!r} in row {at + 1}. Write all of them in one way; leave empty what is "
            "missing."
        )
    return numbers, ""


def _written(texts: pl.Series) -> tuple[pl.Series, str] | None:
    """Numbers with signs or commas, if all of them are written in one way."""
    bare = texts.str.replace_all(_SIGNS, "")
    for pattern, (thousands, decimal) in _WAYS.items():
        is_so = bare.str.contains(pattern).all()
        if is_so and (
            thousands != "." or bare.str.contains(",").any()
        ):  # or an address: 10.200.100
            plain = bare.str.replace_all(thousands, "", literal=True) if thousands else bare
            numbers = plain.str.replace(decimal, ".", literal=True).cast(pl.Float64)
            is_odd = texts.cast(pl.Float64, strict=False).is_null() & texts.is_not_null()
            at = int(is_odd.arg_max() or 0)
            return numbers, f" ({texts[at]!r} is read as {numbers[at]:g})"
    return None


_DATE = re.compile(r"\d{4}-\d\d?-\d\d?([T ]\d\d?:\d\d.*)?|\d{1,4}[./]\d\d?[./]\d{1,4}( \d.*)?")


def are_dates(values: pl.Series) -> bool:
    """Whether a column holds dates or times, as such or as texts like 2026-01-31 or 31.1.2026."""
    if values.dtype.is_temporal():
        return True
    return values.dtype == pl.String and all(_DATE.fullmatch(text) for text in values.head(1000))
