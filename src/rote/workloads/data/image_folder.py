"""Image files with lists of labels, decoded once into an array."""

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError, shown
from rote.extras import require
from rote.store import whole_file
from rote.workloads.data.arrays import IN_MEMORY_BYTES, cache_folder
from rote.workloads.data.dataset import Array, Dataset, Labels


def read_folder(
    folder: Path, *, name: str, image_size: int, in_memory_bytes: int | None = None
) -> Dataset:
    """Read a folder with ``train.txt`` and, if there is one, ``test.txt``.

    A line of a list is the path of an image, relative to the folder, and the number of its class.
    Images are decoded and scaled once; the arrays are kept in the cache, and mapped from there if
    they are larger than ``in_memory_bytes``. Whether the labels are right is not known.

    Raises:
        InputError: if a list or an image is missing or cannot be read.
        MissingExtraError: if Pillow is not installed.
    """
    limit = IN_MEMORY_BYTES if in_memory_bytes is None else in_memory_bytes
    paths, y_train = _read_list(folder / "train.txt")
    x_train = _images(folder, paths, image_size, limit)
    x_test, y_test = None, None
    if (folder / "test.txt").is_file():
        test_paths, y_test = _read_list(folder / "test.txt")
        x_test = _images(folder, test_paths, image_size, limit)
    largest = max(int(y.max()) for y in (y_train, y_test) if y is not None)
    return Dataset(
        name=name,
        source=str(folder),
        inputs="images",
        x_train=x_train,
        y_train=y_train,
        truth=None,
        x_test=x_test,
        y_test=y_test,
        num_classes=max(largest + 1, 2),
    )


def _read_list(file: Path) -> tuple[list[str], Labels]:
    if not file.is_file():
        raise InputError(
            f"Expected {file} to list images and classes (`path class` per line), got no such file."
        )
    paths, labels = [], []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line.strip():
            continue
        path, _, label = line.strip().rpartition(" ")
        if not path or not label.isdecimal():
            raise InputError(
                f"Expected line {number} of {file} to be a path and a class number, got "
                f"{shown(line)}."
            )
        paths.append(path.strip())
        labels.append(int(label))
    if not paths:
        raise InputError(f"Expected {file} to list at least one image, got none.")
    return paths, np.asarray(labels, dtype=np.int64)


def _images(folder: Path, paths: list[str], size: int, limit: int) -> Array:
    stamp = "\n".join([str(folder.resolve()), str(size), *paths])
    code = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    target = cache_folder() / f"{folder.name}-{code}.npy"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        pillow = require("PIL.Image", extra="images")
        with whole_file(target, shared=True) as draft:
            pixels = np.lib.format.open_memmap(
                draft, mode="w+", dtype=np.uint8, shape=(len(paths), size, size, 3)
            )
            for place, path in enumerate(paths):
                pixels[place] = _decoded(pillow, folder / path, size)
            pixels.flush()
    images: Array = np.load(target, mmap_mode="r" if target.stat().st_size > limit else None)
    return images


def _decoded(pillow: Any, path: Path, size: int) -> Array:  # noqa: ANN401  # a lazy module
    if not path.is_file():  # a pipe would never end
        raise InputError(f"Expected {path} to be a readable image, got: No such file.")
    try:
        with pillow.open(path) as image:
            return np.asarray(image.convert("RGB").resize((size, size)))
    except OSError as error:
        raise InputError(f"Expected {path} to be a readable image, got: {error}.") from error
