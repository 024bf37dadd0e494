"""Numbers per sample, one row of fixed size per reading: ``predictions.bin`` and its like."""

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast
from zlib import crc32

import numpy as np

from rote.errors import InputError, StoreError
from rote.store.files import HeldFile
from rote.store.posix_calls import write_at

PREDICTIONS = "predictions"
"""The rows described by the holdout; ``rows`` in ``run.json`` describes all others."""


def find_smallest_type(num_classes: int) -> str:
    """Return the smallest unsigned integer type that can name every class."""
    return str(np.min_scalar_type(max(num_classes, 2) - 1))


@dataclass(frozen=True)
class RowLayout:
    """The layout of one row of a file.

    Attributes:
        dtype: the type of its numbers.
        shape: the shape of the row.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def nothing(self) -> bytes:
        """A row that cannot be mistaken for a measured one: NaN, or the largest number."""
        if self.dtype.kind == "b":
            return bytes(self.size)  # no other value is free
        value = np.nan if self.dtype.kind == "f" else np.iinfo(self.dtype).max
        return np.full(self.shape, value, self.dtype).tobytes()


def get_row_path(run: Path, name: str) -> Path:
    """Return where the rows of a name lie in a run's directory."""
    return run / f"{name}.bin"


def parse_row_layouts(description: Mapping[str, Any]) -> dict[str, RowLayout]:
    """Return the row files of a run, by name.

    Raises:
        InputError: if it describes impossible rows.

    Example:
        >>> parse_row_layouts({"rows": {"aum": {"dtype": "float32", "shape": [4500]}}})["aum"].size
        18000
    """
    layouts = {}
    holdout = description.get("holdout")
    shape = holdout.get(PREDICTIONS) if isinstance(holdout, Mapping) else None
    if shape is not None:
        layouts[PREDICTIONS] = _parse_predictions_layout(description.get("num_classes"), shape)
    rows = description.get("rows") or {}
    if not isinstance(rows, Mapping):
        raise InputError(f"Expected rows per sample to have names, got {rows!r}.")
    return layouts | {name: _parse_layout(name, row) for name, row in rows.items()}


def _parse_predictions_layout(num_classes: object, shape: object) -> RowLayout:
    is_count = type(num_classes) is int and 0 < num_classes < 2**63
    sizes = shape if isinstance(shape, list | tuple) else ()
    if not is_count or not sizes or not all(type(size) is int and size > 0 for size in sizes):
        raise InputError(
            "Expected predictions to have a number of classes and a shape, got "
            f"{num_classes!r:.80} and {shape!r:.80}."
        )
    return RowLayout(np.dtype(find_smallest_type(cast("int", num_classes))), tuple(sizes))


def _parse_layout(name: str, row: Mapping[str, Any]) -> RowLayout:
    if not name.isidentifier() or name == PREDICTIONS:
        raise InputError(
            f"Expected rows per sample to have a plain name other than {PREDICTIONS!r}, got "
            f"{name!r}."
        )
    try:
        layout = RowLayout(np.dtype(row["dtype"]), tuple(int(size) for size in row["shape"]))
    except (TypeError, ValueError, KeyError, OverflowError) as error:
        raise InputError(
            f"Expected rows {name!r} to have a dtype and a shape, got {row!r}."
        ) from error
    if layout.dtype.kind not in "biuf" or min(layout.shape, default=1) <= 0:
        raise InputError(f"Expected rows {name!r} to hold numbers, got {row!r}.")
    return layout


class RowFile:
    """Writes rows by number, so that a resumed run overwrites what it repeats.

    Args:
        path: the file; created if absent.
        layout: the layout of a row.
    """

    def __init__(self, path: Path, layout: RowLayout) -> None:
        self._file = HeldFile(path)
        self._layout = layout
        self._name = path.stem
        self._size = self._measure_size()

    def write(self, row: int, values: np.ndarray) -> int:
        """Write one row; ``sync`` waits until it is on the disk.

        Returns:
            Its checksum.

        Raises:
            InputError: if it has another shape.
            StoreError: if the file was removed, replaced or shortened meanwhile.
        """
        self._check()
        if np.shape(values) != self._layout.shape:
            raise InputError(
                f"Expected a row of {self._name!r} to have shape {self._layout.shape}, got "
                f"{np.shape(values)}."
            )
        data = np.ascontiguousarray(values, dtype=self._layout.dtype).tobytes()
        at, check = row * self._layout.size, crc32(data)
        whole = self._size - self._size % self._layout.size
        if whole < at:  # readings that were filled in from a state have no rows
            data, at = self._layout.nothing * (row - whole // self._layout.size) + data, whole
        while data:
            written = write_at(self._file.number, data, at)
            data, at = data[written:], at + written
        self._size = self._measure_size()
        return check

    def sync(self) -> None:
        """Wait until all rows are on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _check(self) -> None:
        self._file.check()
        size = self._measure_size()
        if size < self._size:  # the rows before this one would be zeros
            raise StoreError(
                f"{self._file.path} was changed while this run writes it: it has {size} bytes "
                f"instead of {self._size}. Restore it from a copy, or start a new run."
            )

    def _measure_size(self) -> int:
        return os.fstat(self._file.number).st_size


def map_rows(path: Path, layout: RowLayout) -> np.ndarray | None:
    """Map all complete rows of a file, shape (rows, *shape); None if there are none.

    Some may belong to readings that do not count.
    """
    count = path.stat().st_size // layout.size if path.is_file() else 0
    # An empty file cannot be mapped.
    return np.memmap(path, layout.dtype, "r", shape=(count, *layout.shape)) if count else None


def find_damaged_row(
    found: np.ndarray | None, rows: Iterable[int], checks: Iterable[float | None]
) -> int | None:
    """Return the first of some rows that is not as it was written; None if all are.

    Args:
        found: all rows of a file, or None.
        rows: the rows to check.
        checks: their checksums; None where none was written.
    """
    count = 0 if found is None else len(found)
    flat = np.empty(0, np.uint8) if found is None else np.ascontiguousarray(found).reshape(-1)
    data = flat.view(np.uint8).data  # a slice of it costs less than a row of an array
    size = len(data) // max(count, 1)
    for row, check in zip(rows, checks, strict=False):
        is_there = check is None or 0 <= row < count
        if not is_there or check not in (None, crc32(data[row * size : (row + 1) * size])):
            return row
    return None


def are_classes(predictions: np.ndarray, description: Mapping[str, Any]) -> bool:
    """Return whether all predictions are classes of the run; their type may hold larger numbers.

    One beyond would be counted as a vote for the first class of the next sample.
    """
    return predictions.size == 0 or int(predictions.max()) < int(description["num_classes"])
