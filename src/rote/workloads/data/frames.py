"""Whatever holds a table, as a polars frame: CSV, Parquet, pandas, Arrow, Hugging Face."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rote.errors import InputError
from rote.store import read_cells
from rote.workloads.data.arrays import IN_MEMORY_BYTES
from rote.workloads.data.dataset import Array

IMAGE_SIZE = 64
"""To which images of different sizes are scaled."""


def read_frame(path: Path, label: str) -> pl.DataFrame:
    """A table from a file; the cells of CSV are texts.

    Args:
        path: the file, CSV unless it ends in ``.parquet``.
        label: the column of labels.

    Raises:
        InputError: if it cannot be read, or not at once.
    """
    size = path.stat().st_size
    if not path.is_file():
        raise InputError(f"Expected {path} to be a table, got a folder or a pipe.")
    if size > IN_MEMORY_BYTES:
        raise InputError(
            f"Expected {path} to take at most {IN_MEMORY_BYTES / 2**30:g} GiB, got "
            f"{size / 2**30:.1f} GiB. Keep fewer rows, or save arrays as .npy files in a folder, "
            "which are not read whole."
        )
    if path.suffix.lower() != ".parquet":
        return read_cells(path, label)
    try:
        return pl.read_parquet(path, glob=False)
    except (pl.exceptions.PolarsError, OSError) as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"Expected {path} to be a whole Parquet file, got: {reason}.") from error


def frame_of(source: Any) -> pl.DataFrame | None:  # noqa: ANN401  # told by its package
    """A frame of another library, or columns by name, as polars has it; None if it is none.

    Raises:
        InputError: if polars cannot take it.
    """
    if isinstance(source, pl.LazyFrame):
        return source.collect()
    if isinstance(source, pl.DataFrame):
        return source
    package = package_of(source)
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
            f"Expected `data` to be columns of numbers and texts with different names, got a "
            f"{type(source).__name__} that polars does not take: {reason}."
        ) from error
    return None


def package_of(source: object) -> str:
    """The package that an object comes from, by which it is told without importing that."""
    return type(source).__module__.partition(".")[0]


def frame_of_splits(splits: dict[str, Any]) -> pl.DataFrame:
    """The splits of a Hugging Face dataset, one below the other, with a column ``split``."""
    frames = []
    for name, split in splits.items():
        frame = pl.DataFrame(pl.from_arrow(split.with_format("arrow")[:]))
        frames.append(frame.with_columns(pl.lit(name).alias("split")))
    return pl.concat(frames, how="diagonal_relaxed")


def images_of(columns: Sequence[Sequence[Any]]) -> Array:
    """Pillow's images as bytes, column after column.

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
