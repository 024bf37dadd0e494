"""The inputs of a table: what each column is taken for, and how its numbers are read."""

import re

import numpy as np
import polars as pl

from rote.errors import InputError
from rote.workloads.data.arrays import IN_MEMORY_BYTES
from rote.workloads.data.dataset import Array, Labels
from rote.workloads.data.npz_file import DEFAULT_VOCABULARY, count_words
from rote.workloads.spec import FieldError, InputKind

_ABSENT = ("na", "n/a", "nan", "null", "none", "?")
_SIGNS = r"^[$€£¥]\s*|\s*[%$€£¥]$"
_WAYS = {
    r"^[+-]?\d+(\.\d+)?$": ("", "."),
    r"^[+-]?(0|[1-9]\d{0,2}(,\d{3})*)(\.\d+)?$": (",", "."),
    r"^[+-]?\d+(,\d+)?$": ("", ","),
    r"^[+-]?(0|[1-9]\d{0,2}(\.\d{3})*)(,\d+)?$": (".", ","),
}
"""By pattern: what stands between thousands, and before decimals; a column is of one way."""


def read_numbers(values: pl.Series, source: str) -> tuple[pl.Series, str] | None:
    """Read a column as numbers, missing ones as None, and say how where that is not obvious.

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
        found = _read_plain(known, source) or _read_written(known)
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


def _read_plain(texts: pl.Series, source: str) -> tuple[pl.Series, str] | None:
    numbers = texts.cast(pl.Float64, strict=False)
    is_odd = numbers.is_null() & texts.is_not_null()
    if 2 * int(is_odd.sum()) > len(texts) - texts.null_count():
        return None
    if is_odd.any():
        written = _read_written(texts)
        if written is not None:
            return written
        at = int(is_odd.arg_max() or 0)
        raise InputError(
            f"Expected column {texts.name!r} of {source} to hold numbers, as most of it does, got "
            f"{texts[at]!r} in row {at + 1}. Write all of them in one way; leave empty what is "
            "missing."
        )
    return numbers, ""


def _read_written(texts: pl.Series) -> tuple[pl.Series, str] | None:
    """Return numbers with signs or commas, if all of them are written in one way."""
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
    """Return whether a column holds dates or times, also as texts such as 2026-01-31."""
    if values.dtype.is_temporal():
        return True
    return values.dtype == pl.String and all(_DATE.fullmatch(text) for text in values.head(1000))


MOST_CATEGORIES = 20
"""Columns with at most this many distinct texts become one column of 0 and 1 per text."""

TEXT = "text, as word counts"
"""What a column of texts is taken for."""

_ROW_NUMBERS_FROM = 20


def is_input(taken_for: str) -> bool:
    """Tell whether a column is an input, by what ``Inputs.take`` says of it."""
    kinds = ("numbers", TEXT, "1 category")
    return taken_for.startswith(kinds) or " categories: " in taken_for


class Inputs:
    """Columns that were taken as inputs.

    Args:
        source: what errors call the table.
        train: places of the training rows, by which everything is measured.
    """

    def __init__(self, source: str, train: Labels) -> None:
        self._source = source
        self._train = train
        self._numbers: list[Array] = []
        self._texts: list[pl.Series] = []

    def take(self, values: pl.Series, *, is_asked_for: bool = False) -> str:
        """Add a column; one that numbers the rows only if it is asked for.

        Returns:
            What it was taken for, or that it was left out.

        Raises:
            InputError: if most of it are numbers, and something is not.
        """
        if values.dtype in (pl.Categorical, pl.Enum):
            values = values.cast(pl.String)
        known = values[self._train].drop_nulls()
        if known.is_empty():
            return "left out: no training row has a value"
        found = read_numbers(values, self._source)
        if found is not None:
            numbers, how = found
            if not is_asked_for and _is_row_number(numbers):
                return "left out: it numbers the rows"
            return self._take_numbers(numbers, how)
        if are_dates(known):
            return "left out: dates"
        if values.dtype != pl.String:
            return f"left out: {values.dtype} is neither numbers nor text"
        names, several = known.unique().sort(), known.str.contains(r"\S\s+\S").mean() or 0.0
        is_text = values.name == "text"
        if not is_text and len(names) <= min(MOST_CATEGORIES, len(self._train) // 2):
            rows = values.to_numpy()[:, None] == names.to_numpy()[None, :]
            self._numbers.append(rows.astype(np.float32))
            count = format_count(len(names), "category", "categories")
            return f"{count}: {format_names(names.to_list())}"
        if is_text or float(several) >= 0.5:  # type: ignore[arg-type]  # a share
            self._texts.append(values.fill_null(""))
            return TEXT + _describe_missing(values, "an empty text stands in")
        return f"left out: {len(names):,} different names or codes, too many for categories"

    @property
    def is_empty(self) -> bool:
        """Whether no column was taken."""
        return not self._numbers and not self._texts

    def join(
        self, test: Labels | None, vocabulary: int | None
    ) -> tuple[InputKind, Array, Array | None]:
        """Return all columns side by side, of the training rows and of those for testing.

        Numbers alone are left for the normalization of the run; beside words they are normalized
        here.

        Raises:
            InputError: if there are too many.
        """
        words = (vocabulary or DEFAULT_VOCABULARY) if self._texts else 0
        self._check(0 if test is None else len(test), words, vocabulary)
        numbers = np.concatenate(self._numbers, axis=1) if self._numbers else None
        if not self._texts:
            assert numbers is not None  # not empty
            return "features", numbers[self._train], None if test is None else numbers[test]
        texts = np.array([" ".join(row) for row in zip(*self._texts, strict=True)], dtype=object)
        x_train, x_test = count_words(
            texts[self._train], None if test is None else texts[test], words
        )
        if numbers is not None:
            scaled = _standardize(numbers, self._train)
            x_train = np.concatenate([x_train, scaled[self._train]], axis=1)
            if x_test is not None:
                x_test = np.concatenate([x_test, scaled[test]], axis=1)
        return "bag-of-words", x_train, x_test

    def _check(self, tested: int, words: int, vocabulary: int | None) -> None:
        if not self._texts and vocabulary is not None:
            raise FieldError(
                "data.vocabulary", "applies to texts only; this table has numbers only."
            )
        rows = len(self._train) + tested
        width = words + sum(part.shape[1] for part in self._numbers)
        if 4 * rows * width > IN_MEMORY_BYTES:
            raise InputError(
                f"The inputs of {self._source} are too large: {rows:,} rows of {width:,} numbers. "
                f"At most {IN_MEMORY_BYTES / 2**30:g} GiB are read. Lower data.vocabulary, name "
                "fewer data.columns, or save numbers as x_train.npy in a folder."
            )

    def _take_numbers(self, numbers: pl.Series, how: str) -> str:
        mean = numbers[self._train].mean()
        filled = numbers.fill_null(mean or 0.0).to_numpy()  # none: all are NaN
        with np.errstate(over="ignore"):
            filled = filled.astype(np.float32)
        if not np.isfinite(filled).all():
            raise InputError(
                f"Expected column {numbers.name!r} of {self._source} to fit 32-bit numbers, got "
                "larger ones."
            )
        self._numbers.append(filled[:, None])
        return f"numbers{how}" + _describe_missing(numbers, "the training mean stands in")


def _is_row_number(numbers: pl.Series) -> bool:
    if numbers.null_count() or len(numbers) < _ROW_NUMBERS_FROM:
        return False
    span = float(numbers.max()) - float(numbers.min())  # type: ignore[arg-type]
    return span == len(numbers) - 1 and numbers.n_unique() == len(numbers)


def _standardize(numbers: Array, train: Labels) -> Array:
    measured = numbers[train].astype(np.float64)
    deviation = measured.std(axis=0)
    deviation[deviation <= 1e-7 * np.abs(measured.mean(axis=0))] = 1.0
    scaled: Array = ((numbers - measured.mean(axis=0)) / deviation).astype(np.float32)
    return scaled


def _describe_missing(values: pl.Series, what: str) -> str:
    missing = values.null_count()
    return f", {missing:,} missing: {what}" if missing else ""


def format_count(count: int, one: str, many: str | None = None) -> str:
    """Format a number with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def format_names(names: list[str], most: int = 8) -> str:
    """Format the first names, and how many more there are."""
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])
