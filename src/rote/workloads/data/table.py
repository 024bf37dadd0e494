"""A table as a data set: which column is the label, which rows are for testing."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeAlias, TypeVar

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rote.errors import InputError, did_you_mean
from rote.store import read_cells
from rote.workloads.data.arrays import IN_MEMORY_BYTES
from rote.workloads.data.dataset import Array, Dataset, Labels, as_images, order_class_names
from rote.workloads.data.table_inputs import (
    MOST_CATEGORIES,
    TEXT,
    Inputs,
    format_count,
    format_names,
    is_input,
)
from rote.workloads.spec import FieldError, InputKind

_LIKE_LABELS = 0.6
"""A column that agrees with the labels in at least this share of rows probably holds labels."""

_LABEL_LIKE = ("labels", "target", "class", "category", "y")
_MOST_NAMED = 5
_NUMBER = re.compile(r"[+-]?\d+[.,]\d+")
_PARTS = {"train": "train", "training": "train", "test": "test"}
Frame: TypeAlias = pl.DataFrame
_Any = TypeVar("_Any", bound=np.generic)


@dataclass(frozen=True)
class TableLayout:
    """The meaning of the columns of a table.

    Attributes:
        name: the name of the data set.
        source: where it was found; errors call it so.
        label: the column of given labels.
        truth: the column of true labels; ``label_clean`` by default, if there is one.
        columns: the inputs; by default all that are understood.
        vocabulary: the number of words to count.
        classes: what the numbers in the column of labels stand for, where that is known.
    """

    name: str
    source: str
    label: str = "label"
    truth: str | None = None
    columns: tuple[str, ...] = ()
    vocabulary: int | None = None
    classes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReadTable:
    """A table that was understood.

    Attributes:
        dataset: samples and labels.
        columns: by name, what each column was taken for.
    """

    dataset: Dataset
    columns: dict[str, str]


def read_table(frame: Frame, how: TableLayout, samples: Array | None = None) -> ReadTable:
    """Make a data set of a table with one row per sample.

    Rows without a label are left out. A column ``split`` says which rows are ``train`` and
    ``test``; without it all are for training. Numbers are taken as they are, the mean of the
    training rows where one is missing; texts of several words become weighted word counts; few
    different texts one column each; further columns of labels, dates and lists are no inputs.

    Args:
        frame: the table.
        how: what its columns mean.
        samples: images, one per row, instead of columns.

    Raises:
        InputError: if a column is missing, or holds what it must not.
    """
    given, truth = _find_label_columns(frame, how)
    if frame.is_empty():
        raise InputError(f"{how.source} has no rows.")
    said: dict[str, str] = {}
    labeled = _find_labeled(frame[given], said, is_numbered=bool(how.classes))
    frame = frame.filter(labeled)
    rows = _find_parts(frame, how.source, said)
    train, test = rows
    names, labels = _read_labels(frame, how, given, truth)
    if samples is None:
        kind, x_train, x_test = _read_inputs(frame, how, said, rows, {given, truth, "split"})
    else:
        images = as_images("image", samples[labeled.to_numpy()])
        kind, (x_train, x_test) = "images", _divide(images, train, test)
    said[given] = f"the label: {len(names)} classes{said.get(given, '')}"
    if truth is not None and truth != given:
        _check_truth(labels[truth][train], truth, how.source)
        said[truth] = "the true label, not used for training"
    y_train, y_test = _divide(labels[truth or given], train, test)
    dataset = Dataset(
        name=how.name,
        source=how.source,
        inputs=kind,
        x_train=x_train,
        y_train=y_train if truth in (None, given) else labels[given][train],
        truth=None if truth is None else y_train,
        x_test=x_test,
        y_test=y_test,
        num_classes=len(names),
        class_names=names,
        table_rows=np.flatnonzero(labeled.to_numpy())[train],
        remarks=()
        if samples is not None
        else (*_remark_on_texts(said, x_train), *_remark_on_truth(frame, given, said, names)),
    )
    return ReadTable(dataset, {name: said[name] for name in frame.columns if name in said})


def encode_rows(frame: Frame, new: Frame, how: TableLayout) -> Array:
    """Encode rows without labels exactly as the training rows of a table were.

    Args:
        frame: the table that was trained on.
        new: further rows; their labels, if there are any, are ignored.
        how: what the columns of the first table mean.

    Returns:
        The inputs of the new rows, in their order.

    Raises:
        InputError: if a column is missing, or holds what it must not.
    """
    given, truth = _find_label_columns(frame, how)
    taken = read_table(frame, how).columns
    inputs = [name for name, what in taken.items() if is_input(what)]
    missing = [name for name in inputs if name not in new.columns]
    if missing:
        raise InputError(
            f"The new rows have no {format_names(missing)}, which the model takes as input. Their "
            f"columns: {format_names(new.columns)}."
        )
    part = pl.lit("train") if "split" not in frame.columns else pl.col("split").cast(pl.String)
    is_test = part.str.to_lowercase() == "test"
    old = frame.with_columns(pl.when(is_test).then(pl.lit("")).otherwise(part).alias("split"))
    label = frame[given].drop_nulls()[0]
    labels = {name: pl.lit(label).alias(name) for name in {given, truth or given}}
    rows = new.select(inputs).with_columns(pl.lit("test").alias("split"), *labels.values())
    kept = [*inputs, "split", *labels]
    both = pl.concat([old.select(kept), rows.select(kept)], how="vertical_relaxed")
    found = read_table(both, replace(how, columns=tuple(inputs))).dataset.x_test
    assert found is not None  # every new row is a test row
    return found


def read_frame(path: Path, label: str) -> pl.DataFrame:
    """Read a table from a file; the cells of CSV are texts.

    Args:
        path: the file, CSV unless it ends in ``.parquet``.
        label: the column of labels.

    Raises:
        InputError: if it cannot be read, or is too large.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise InputError(f"{path} is a folder or a pipe, not a table.")
    if size > IN_MEMORY_BYTES:
        raise InputError(
            f"{path} is too large to read at once: {size / 2**30:.1f} GiB, at most "
            f"{IN_MEMORY_BYTES / 2**30:g} GiB. Keep fewer rows, or save arrays as .npy files in "
            "a folder, which are not read whole."
        )
    if path.suffix.lower() != ".parquet":
        return read_cells(path, label)
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"Cannot read {path} as Parquet: {reason}.") from error


def _find_label_columns(frame: Frame, how: TableLayout) -> tuple[str, str | None]:
    for column, of in ((how.label, "label"), (how.truth, "truth")):
        if column is not None and column not in frame.columns:
            raise InputError(
                f"{how.source} has no column {column!r}.{_suggest_label(frame, column, of)}"
            )
    clean = "label_clean"
    found = clean if clean in frame.columns and how.label != clean else None
    return how.label, how.truth or found


def _suggest_label(frame: Frame, column: str, of: str) -> str:
    """Say which columns may be meant: one with a usual name, or those with few distinct values."""
    if any(map(_NUMBER.fullmatch, frame.columns)):
        return (
            f" The first line must name the columns; this one looks like a sample: "
            f"{format_names(frame.columns)}."
        )
    likely = next((name for name in _LABEL_LIKE if name in frame.columns), None)
    guess = f" Did you mean {likely!r}?" if likely else did_you_mean(column, frame.columns)
    most = min(MOST_CATEGORIES, max(2, len(frame) // 2))
    counts = {name: frame[name].drop_nulls().n_unique() for name in frame.columns}
    by_count = sorted(counts.items(), key=lambda item: item[1])
    few = [f"{name} ({count})" for name, count in by_count if 2 <= count <= most]
    found = (
        f"Columns with few distinct values: {format_names(few)}."
        if few
        else f"Columns: {format_names(frame.columns)}."
    )
    return f'{guess} {found} Name it: --{of} COLUMN, or {of}="COLUMN".'


def _find_labeled(values: pl.Series, said: dict[str, str], *, is_numbered: bool) -> pl.Series:
    """Return which rows have a label."""
    missing = values.is_null()
    if values.dtype.is_float():
        missing = missing | values.is_nan().fill_null(value=True)
    if is_numbered:
        missing = missing | (values == -1).fill_null(value=True)
    count = int(missing.sum())
    if count:
        said[values.name] = f"; {format_count(count, 'row')} without one left out"
    return ~missing


def _find_parts(frame: Frame, source: str, said: dict[str, str]) -> tuple[Labels, Labels | None]:
    """Return places of the rows for training, and of those for testing, if there are any."""
    if "split" not in frame.columns:
        return np.arange(len(frame)), None
    told = frame["split"].cast(pl.String).str.to_lowercase().fill_null("")
    named = told.replace_strict(_PARTS, default=None, return_dtype=pl.String).to_numpy()
    found = {part: np.flatnonzero(named == part) for part in ("train", "test")}
    if not len(found["train"]):
        raise InputError(
            f"Expected column 'split' of {source} to say 'train' and 'test', got "
            f"{format_names(told.unique().sort().to_list())}."
        )
    rest = len(frame) - sum(map(len, found.values()))
    counts = ", ".join(f"{len(places):,} {part}" for part, places in found.items())
    said["split"] = f"the split: {counts}" + (f", {rest:,} others left out" if rest else "")
    return found["train"], found["test"] if len(found["test"]) else None


def _read_labels(
    frame: Frame, how: TableLayout, given: str, truth: str | None
) -> tuple[tuple[str, ...], dict[str, Labels]]:
    """Return the class names, and the label columns as class numbers."""
    found = [frame[name] for name in {given, truth or given}]
    names = how.classes or order_class_names(
        name for values in found for name in _as_texts(values).drop_nulls().unique()
    )
    many = len(names) > MOST_CATEGORIES and len(names) > len(frame) / 2
    if (many and not how.classes) or len(names) < 2:
        raise InputError(
            f"Expected column {given!r} of {how.source} to hold at least 2 classes with several "
            f"rows each, got {format_count(len(names), 'different value')} in "
            f"{format_count(len(frame), 'row')}. Name the column of labels: --label COLUMN, or "
            'label="COLUMN".'
        )
    return names, {values.name: _number_classes(values, names, how) for values in found}


def _as_texts(values: pl.Series) -> pl.Series:
    """Return classes as texts; a whole number is the same class in every type."""
    if values.dtype.is_float() and (values.drop_nulls() == values.drop_nulls().round()).all():
        values = values.cast(pl.Int64)
    if values.dtype.is_nested() or values.dtype == pl.Binary:
        return values.map_elements(str, return_dtype=pl.String)
    return values.cast(pl.String)


def _number_classes(values: pl.Series, names: tuple[str, ...], how: TableLayout) -> Labels:
    if how.classes:
        codes = values.cast(pl.Int64, strict=False).fill_null(-1)
        if ((codes < -1) | (codes >= len(names))).any():
            raise InputError(
                f"Expected {values.name!r} of {how.source} to lie between 0 and {len(names) - 1}, "
                f"got {values.max()!r}."
            )
        return codes.to_numpy().astype(np.int64)
    numbers = pl.Series(range(len(names)), dtype=pl.Int64)
    known = _as_texts(values).replace_strict(pl.Series(names), numbers, default=-1)
    return known.to_numpy().astype(np.int64)


def _remark_on_texts(said: dict[str, str], inputs: Array) -> tuple[str, ...]:
    """Say aloud that text columns became many inputs."""
    texts = [name for name, what in said.items() if what.startswith(TEXT)]
    if not texts:
        return ()
    taken = [name for name, what in said.items() if is_input(what)]
    return (
        f"{format_count(len(texts), 'text column')} ({format_names(texts)}) became word counts: "
        f"{format_count(len(taken), 'input column')} became {inputs.shape[1]:,} inputs. To leave "
        "texts out, name the inputs (data.columns); to count fewer words, lower data.vocabulary.",
    )


def _remark_on_truth(
    frame: Frame, given: str, said: dict[str, str], names: tuple[str, ...]
) -> Iterator[str]:
    """Point out inputs that look like a second column of labels, and would give them away."""
    labels = _as_texts(frame[given])
    for name, what in said.items():
        if name == given or not is_input(what) or frame[name].n_unique() > len(names) + 1:
            continue
        values = _as_texts(frame[name])
        agreement = int((values == labels).sum()) / len(labels)
        if set(values.drop_nulls()) == set(names) and agreement >= _LIKE_LABELS:
            yield (
                f"Column {name!r} is used as an input, although it has the classes of {given!r} "
                f"and agrees with it in {agreement:.1%} of the rows. If it holds the "
                f"true labels, add --truth {name}; rote then does not train on it."
            )


def _check_truth(right: Labels, truth: str, source: str) -> None:
    unknown = int((right < 0).sum())
    if unknown:
        raise InputError(
            f"Column {truth!r} of {source} (true labels) has no value in "
            f"{format_count(unknown, 'training row')}. Fill them in, or rename the column."
        )


def _divide(
    values: NDArray[_Any], train: Labels, test: Labels | None
) -> tuple[NDArray[_Any], NDArray[_Any] | None]:
    return values[train], None if test is None else values[test]


def _read_inputs(
    frame: Frame,
    how: TableLayout,
    said: dict[str, str],
    rows: tuple[Labels, Labels | None],
    others: set[str | None],
) -> tuple[InputKind, Array, Array | None]:
    """Build the inputs of both parts from all columns that are not ``others``."""
    candidates = [name for name in frame.columns if name not in others]
    for name in how.columns:
        if name not in candidates:
            raise FieldError(
                "data.columns",
                f"to name inputs of {how.source} ({format_names(candidates)}), got {name!r}.",
            )
    inputs = Inputs(how.source, rows[0])
    for name in candidates:
        if how.columns and name not in how.columns:
            said[name] = "left out: not among data.columns"
        elif not how.columns and (name == "label" or name.startswith("label_")):
            said[name] = "left out: another column of labels"
        else:
            said[name] = inputs.take(frame[name], is_asked_for=bool(how.columns))
    if inputs.is_empty:
        found = "; ".join(f"{name}: {said[name]}" for name in candidates[:_MOST_NAMED])
        raise InputError(
            f"{how.source} has no column of numbers or texts beside the labels. Columns: "
            f"{found or 'none'}."
        )
    return inputs.join(rows[1], how.vocabulary)
