"""A folder of files: images or texts, one subfolder per class or with lists of labels."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError, shown
from rote.extras import require
from rote.store import whole_file
from rote.workloads.data.arrays import IN_MEMORY_BYTES, ArrayFile, cache_folder
from rote.workloads.data.dataset import Array, Dataset, Labels, class_names_of
from rote.workloads.data.npz_file import DEFAULT_VOCABULARY, FileLayout, count_words, read_npz
from rote.workloads.spec import TABLE_SUFFIXES, FieldError

_IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")
_TEXTS = (".txt",)


@dataclass(frozen=True)
class _Files:
    """Files with their classes.

    Attributes:
        paths: relative to the folder.
        labels: one per file.
        class_names: what the classes are called, where they have names.
    """

    paths: list[str]
    labels: Labels
    class_names: tuple[str, ...] = ()


def read_folder(
    folder: Path,
    *,
    name: str,
    image_size: int,
    vocabulary: int | None = None,
    in_memory_bytes: int | None = None,
) -> Dataset:
    """Read a folder of images or texts (``.txt``), or of ``.npy`` files.

    A subfolder is a class, in the folder itself, or in ``train`` and ``test``. Or ``train.txt``
    and, if there is one, ``test.txt`` list images: a line is the path of an image, relative to the
    folder, and the number of its class. Images are decoded and scaled once; the arrays are kept in
    the cache, and mapped from there if they are larger than ``in_memory_bytes``. Whether the labels
    are right is not known.

    Raises:
        InputError: if a list or a file is missing or cannot be read.
        MissingExtraError: if Pillow is not installed.
    """
    limit = IN_MEMORY_BYTES if in_memory_bytes is None else in_memory_bytes
    train, test = _found(folder)
    if train is None:
        return read_npz(ArrayFile(folder), FileLayout(name, vocabulary=vocabulary))
    is_text = bool(train.class_names) and train.paths[0].lower().endswith(_TEXTS)
    if vocabulary is not None and not is_text:
        raise FieldError("data.vocabulary", f"to be left out for images, got {vocabulary}.")
    paths = [files.paths for files in (train, test) if files is not None]
    if is_text:
        texts = [_texts(folder, files) for files in paths]
        x = count_words(texts[0], texts[1] if test else None, vocabulary or DEFAULT_VOCABULARY)
    else:
        images = [_images(folder, files, image_size, limit) for files in paths]
        x = images[0], images[1] if test else None
    y_test = None if test is None else test.labels
    largest = max(int(y.max()) for y in (train.labels, y_test) if y is not None)
    return Dataset(
        name=name,
        source=str(folder),
        inputs="bag-of-words" if is_text else "images",
        x_train=x[0],
        y_train=train.labels,
        truth=None,
        x_test=x[1],
        y_test=y_test,
        num_classes=max(largest + 1, len(train.class_names), 2),
        class_names=train.class_names,
        files=tuple(train.paths),
    )


def _found(folder: Path) -> tuple[_Files | None, _Files | None]:
    """The files for training and for testing; no files where there are arrays."""
    if (folder / "train.txt").is_file():
        test = folder / "test.txt"
        return _read_list(folder / "train.txt"), _read_list(test) if test.is_file() else None
    if not folder.is_dir():
        raise InputError(
            f"Expected {folder} to be a folder, or to end in .npz, {', '.join(TABLE_SUFFIXES)}, "
            "got another file. Save it as one of these."
        )
    train = folder / "train" if (folder / "train").is_dir() else folder
    names = class_names_of(entry.name for entry in _subfolders(train))
    for suffixes in (_IMAGES, _TEXTS):
        files = _of_classes(folder, train, names, suffixes)
        if files is not None and len(names) > 1:
            tested = folder / "test"
            is_there = train != folder and tested.is_dir()
            return files, _of_classes(folder, tested, names, suffixes) if is_there else None
    if any(folder.glob("*.npy")):
        return None, None
    raise InputError(
        f"Expected {folder} to hold image or .txt files in at least 2 subfolders, one per class, "
        f"got {len(names)} subfolders and no such files. {_WANTED}"
    )


_WANTED = (
    "Make one subfolder per class (or train/CLASS and test/CLASS), list images in train.txt "
    "(`path class-number` per line), or save arrays as x_train.npy and y_train.npy."
)


def _subfolders(folder: Path) -> list[Path]:
    return [e for e in folder.iterdir() if e.is_dir() and not e.name.startswith((".", "_"))]


def _of_classes(
    folder: Path, part: Path, names: Sequence[str], suffixes: tuple[str, ...]
) -> _Files | None:
    """Files with an end like this, class by class; None if there are none."""
    strange = [entry.name for entry in _subfolders(part) if entry.name not in names]
    if strange:
        raise InputError(
            f"Expected the subfolders of {part} to be classes of the training set "
            f"({', '.join(names)}), got {strange[0]!r}."
        )
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(names):
        for file in sorted((part / name).rglob("*")):
            if file.suffix.lower() in suffixes and file.is_file():
                paths.append(str(file.relative_to(folder)))
                labels.append(number)
    return _Files(paths, np.asarray(labels, dtype=np.int64), tuple(names)) if paths else None


def _texts(folder: Path, paths: list[str]) -> Array:
    texts = []
    for path in paths:
        try:
            texts.append((folder / path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"Expected {folder / path} to be text in UTF-8, got: {error}."
            ) from error
    return np.array(texts, dtype=object)


def _read_list(file: Path) -> _Files:
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
    return _Files(paths, np.asarray(labels, dtype=np.int64))


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
        raise InputError(
            f"Expected {path} to be a readable image, got: {error}. Repair or remove it."
        ) from error
