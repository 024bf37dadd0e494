"""Read data passed from Python: frames, datasets, arrays, paths."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rote.errors import InputError
from rote.workloads.data.catalog import CATALOG
from rote.workloads.data.dataset import Array, Dataset
from rote.workloads.data.lookup import load
from rote.workloads.data.npz_file import FileLayout, read_npz
from rote.workloads.data.table import TableLayout, read_table
from rote.workloads.spec import IMAGE_SIZE, AnyData, Data, GivenData, RunSpec

_ARRAYS = ("x_train", "text_train")
_WHAT = (
    "a pandas or polars frame, a Hugging Face dataset, a dict of columns or of arrays (x_train, "
    "y_train, …), or a path"
)


def read_data(
    source: Any,  # noqa: ANN401  # recognized by its type
    *,
    label: str = "label",
    truth: str | None = None,
    columns: tuple[str, ...] = (),
    vocabulary: int | None = None,
    name: str | None = None,
    data_dir: Path | str | None = None,
) -> Dataset:
    """Make a data set of any object that holds samples and labels.

    Args:
        source: a pandas or polars frame, a Hugging Face ``Dataset`` or ``DatasetDict``, an Arrow
            table, a dict of columns, a dict of arrays (``x_train``, ``y_train`` and, if known,
            ``x_test``, ``y_test``), or the path of a table, an ``.npz`` or a folder.
        label: the column of given labels.
        truth: the column of true labels; ``label_clean`` by default, if there is one.
        columns: the columns that are inputs; by default all that are understood.
        vocabulary: the number of words of texts to count.
        name: what to call it; a file is called by its name.
        data_dir: where else to look for a path.

    Returns:
        Samples and labels as arrays; ``train(spec, data=...)`` takes it, or ``source`` itself.

    Raises:
        InputError: if it is nothing of that kind, or cannot be understood.

    Example:
        >>> found = read_data({"size": [1.0, 2.0, 3.0, 4.0], "label": ["cat", "cow"] * 2})
        >>> found.class_names, found.y_train.tolist(), found.x_train.shape
        (('cat', 'cow'), [0, 1, 0, 1], (4, 1))
    """
    if isinstance(source, Dataset):
        return source
    if isinstance(source, str | Path):
        named = None if label == "label" else label
        section = make_data_section(
            source, label=named, truth=truth, columns=columns or None, vocabulary=vocabulary
        )
        return load(section, data_dir)
    if isinstance(source, Mapping) and any(array in source for array in _ARRAYS):
        how = FileLayout(name or "arrays", vocabulary=vocabulary)
        return read_npz(_GivenArrays(source), how)
    layout = TableLayout(name or "frame", "`data`", label, truth, columns, vocabulary)
    if find_package(source) == "datasets":
        return _read_splits(source, layout)
    frame = convert_frame(source)
    if frame is None:
        raise InputError(f"Expected `data` to be {_WHAT}, got {type(source).__name__}.")
    return read_table(frame, layout).dataset


def make_data_section(place: Path | str, *, label: str | None = None, **more: object) -> Data:
    """Return the data section of a spec for a set by name, or for a path by its suffix.

    Args:
        place: the name or the path.
        label: the labels to train on: a column of a table, or ``y_train_<label>`` of an ``.npz``.
        **more: further fields of the section; None keeps the default.

    Raises:
        FieldError: if such data do not have one of the fields.
    """
    text = str(place)
    is_array = text in CATALOG or text.lower().endswith(".npz")
    fields_told = {
        "name" if text in CATALOG else "path": text,
        "labels" if is_array else "label": label,
        **more,
    }
    known = {name: value for name, value in fields_told.items() if value is not None}
    return RunSpec.from_dict({"data": known}).data


def make_given_section(data: AnyData, dataset: Dataset) -> GivenData:
    """Return the data section of a run on data passed from Python; seed and sizes are kept."""
    kept = {entry.name: getattr(data, entry.name) for entry in fields(AnyData)}
    return GivenData(fingerprint=fingerprint_dataset(dataset), **kept)


def fingerprint_dataset(dataset: Dataset) -> str:
    """Hash all samples and labels, so that other data are recognized as such."""
    code = hashlib.sha256()
    for entry in ("x_train", "y_train", "truth", "x_test", "y_test"):
        array = getattr(dataset, entry)
        if array is not None:
            code.update(f"{entry} {array.dtype} {array.shape}".encode())
            code.update(np.ascontiguousarray(array).data)
    return code.hexdigest()[:16]


class _GivenArrays:
    """Arrays by name, with the interface of a file of arrays."""

    path = "`data`"

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        self._arrays = {name: np.asarray(values) for name, values in arrays.items()}
        self.names = sorted(self._arrays)

    def __contains__(self, name: str) -> bool:
        return name in self._arrays

    def read(self, name: str) -> Array:
        """One array.

        Raises:
            InputError: if it is missing, or holds Python objects.
        """
        found = self._arrays.get(name)
        if found is None:
            raise InputError(f"`data` has no array `{name}`. It holds: {', '.join(self.names)}.")
        if found.dtype.hasobject:
            raise InputError(
                f"Expected `{name}` to hold numbers or texts, got {found.dtype} of shape "
                f"{found.shape}. Samples must have the same shape."
            )
        return found


def _read_splits(source: Any, how: TableLayout) -> Dataset:  # noqa: ANN401
    """Read a Hugging Face dataset of one or several splits: images, texts or numbers."""
    splits = dict(source) if isinstance(source, dict) else {"train": source}
    strange = {type(split).__name__ for split in splits.values()} - {"Dataset"}
    if strange or not splits:  # a stream has no length
        raise InputError(
            "Expected `data` to be a Dataset or a DatasetDict of them, got "
            f"{', '.join(strange) or 'an empty one'}. Load it without streaming."
        )
    features = next(iter(splits.values())).features
    names = getattr(features.get(how.label), "names", None) or ()
    how = replace(how, classes=tuple(names))
    pictures = [name for name, kind in features.items() if type(kind).__name__ == "Image"]
    if pictures:
        return _read_images(splits, pictures[0], how)
    frame = stack_splits(splits)
    return read_table(frame if len(splits) > 1 else frame.drop("split"), how).dataset


def _read_images(splits: dict[str, Any], column: str, how: TableLayout) -> Dataset:
    used = {part: splits[part] for part in ("train", "test") if part in splits} or splits
    samples = stack_images([split[column] for split in used.values()])
    frame = stack_splits({part: split.remove_columns(column) for part, split in used.items()})
    return read_table(frame if len(splits) > 1 else frame.drop("split"), how, samples).dataset


def convert_frame(source: Any) -> pl.DataFrame | None:  # noqa: ANN401  # recognized by its package
    """Convert a frame of another library, or columns by name, to polars; None for other types.

    Raises:
        InputError: if polars cannot take it.
    """
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, pl.DataFrame):
        return source
    package = find_package(source)
    try:
        if package == "pandas" and type(source).__name__ == "DataFrame":
            return pl.from_pandas(source)
        if package == "pyarrow":
            return pl.DataFrame(pl.from_arrow(source))
        if isinstance(source, dict):
            return pl.DataFrame(source)
    except Exception as error:  # whatever a foreign frame holds
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(
            f"Cannot convert `data` ({type(source).__name__}) to a table: {reason}. Pass columns "
            "of numbers and texts with different names."
        ) from error
    return None


def find_package(source: object) -> str:
    """Return the package of an object's type, so that the package need not be imported."""
    return type(source).__module__.partition(".")[0]


def stack_splits(splits: dict[str, Any]) -> pl.DataFrame:
    """Stack the splits of a Hugging Face dataset, with a column ``split``."""
    frames = []
    for name, split in splits.items():
        frame = pl.DataFrame(pl.from_arrow(split.with_format("arrow")[:]))
        frames.append(frame.with_columns(pl.lit(name).alias("split")))
    return pl.concat(frames, how="diagonal_relaxed")


def stack_images(columns: Sequence[Sequence[Any]]) -> Array:
    """Return Pillow's images as bytes, column after column.

    As they are if all are squares of one size, otherwise scaled; gray ones have one channel if all
    are gray.
    """
    sizes = {image.size for column in columns for image in column}
    modes = {image.mode for column in columns for image in column}
    first = next(iter(sizes), (0, 1))
    side = first[0] if len(sizes) == 1 and first[0] == first[1] else IMAGE_SIZE
    mode, channels = ("L", ()) if modes <= {"L", "1"} else ("RGB", (3,))
    pixels = np.empty((sum(map(len, columns)), side, side, *channels), dtype=np.uint8)
    for place, image in enumerate(image for column in columns for image in column):
        pixels[place] = np.asarray(image.convert(mode).resize((side, side)))
    return pixels
