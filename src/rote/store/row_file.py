"""Numbers per sample, one row of fixed size per reading: ``predictions.bin`` and its like."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError

PREDICTIONS = "predictions"
"""The rows that a run describes by its pool; all others stand under ``rows`` in ``run.json``."""


def smallest_type(num_classes: int) -> str:
    """The smallest unsigned integer type that can name every class."""
    return str(np.min_scalar_type(max(num_classes, 2) - 1))


@dataclass(frozen=True)
class RowLayout:
    """What one row of a file is.

    Attributes:
        dtype: of its numbers.
        shape: of the row.
    """

    dtype: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """The bytes of a row."""
        return self.dtype.itemsize * math.prod(self.shape)


def row_path(run: Path, name: str) -> Path:
    """Where the rows of a name lie in a run's directory."""
    return run / f"{name}.bin"


def row_layouts(description: Mapping[str, Any]) -> dict[str, RowLayout]:
    """The row files of a run, by name.

    Raises:
        InputError: if it describes rows that cannot be.

    Example:
        >>> row_layouts({"rows": {"aum": {"dtype": "float32", "shape": [4500]}}})["aum"].size
        18000
    """
    layouts = {}
    shape = (description.get("pool") or {}).get(PREDICTIONS)
    if shape is not None:
        dtype = np.dtype(smallest_type(int(description["num_classes"])))
        layouts[PREDICTIONS] = RowLayout(dtype, tuple(shape))
    rows = description.get("rows") or {}
    if not isinstance(rows, Mapping):
        raise InputError(f"Expected rows per sample to have names, got {rows!r}.")
    return layouts | {name: _layout(name, row) for name, row in rows.items()}


def _layout(name: str, row: Mapping[str, Any]) -> RowLayout:
    if not name.isidentifier() or name == PREDICTIONS:
        raise InputError(
            f"Expected rows per sample to have a plain name other than {PREDICTIONS!r}, got "
            f"{name!r}."
        )
    try:
        layout = RowLayout(np.dtype(row["dtype"]), tuple(int(size) for size in row["shape"]))
    except (TypeError, ValueError, KeyError) as error:
        raise InputError(
            f"Expected rows {name!r} to have a dtype and a shape, got {row!r}."
        ) from error
    if layout.dtype.kind not in "biuf" or layout.size <= 0:
        raise InputError(f"Expected rows {name!r} to hold numbers, got {row!r}.")
    return layout


class RowFile:
    """Writes rows by number, so that a resumed run overwrites what it repeats.

    Args:
        path: the file; created if absent.
        layout: of a row.
    """

    def __init__(self, path: Path, layout: RowLayout) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._layout = layout
        self._name = path.stem

    def write(self, row: int, values: np.ndarray) -> None:
        """Write one row.

        Raises:
            InputError: if it has another shape.
        """
        if np.shape(values) != self._layout.shape:
            raise InputError(
                f"Expected a row of {self._name!r} to have shape {self._layout.shape}, got "
                f"{np.shape(values)}."
            )
        data = np.ascontiguousarray(values, dtype=self._layout.dtype).tobytes()
        at = row * self._layout.size
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)


def map_rows(path: Path, layout: RowLayout) -> np.ndarray | None:
    """All whole rows of a file, shape (rows, *shape), read when looked at; None if there are none.

    Some may belong to readings that do not count.
    """
    count = path.stat().st_size // layout.size if path.is_file() else 0
    # An empty file cannot be mapped.
    return np.memmap(path, layout.dtype, "r", shape=(count, *layout.shape)) if count else None
