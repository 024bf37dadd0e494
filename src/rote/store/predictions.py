"""Predicted classes of the pool: one fixed-size row of small integers per reading."""

import os
from pathlib import Path

import numpy as np


def smallest_type(num_classes: int) -> str:
    """The smallest unsigned integer type that can name every class."""
    return str(np.min_scalar_type(max(num_classes, 2) - 1))


class PredictionRows:
    """Writes rows by number, so that a resumed run overwrites what it repeats.

    Args:
        path: the file; created if absent.
        dtype: the integer type, from ``smallest_type``.
    """

    def __init__(self, path: Path, dtype: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
        self._dtype = dtype

    def write(self, row: int, predictions: np.ndarray) -> None:
        """Write one row."""
        data = np.ascontiguousarray(predictions, dtype=self._dtype).tobytes()
        at = row * len(data)
        while data:
            written = os.pwrite(self._file, data, at)
            data, at = data[written:], at + written

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)


def read_rows(path: Path, dtype: str, shape: tuple[int, ...], count: int) -> np.ndarray:
    """The first ``count`` rows, shape (count, *shape); rows that were never written are absent."""
    size = int(np.prod(shape))
    flat = np.fromfile(path, dtype=dtype, count=count * size)
    return flat[: len(flat) // size * size].reshape(-1, *shape)
