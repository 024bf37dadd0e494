"""A folder of files: images or texts, one subfolder per class or with lists of labels."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError, quote
from rote.extras import require
from rote.store import replace_file
from rote.workloads.data.arrays import IN_MEMORY_BYTES, ArrayFile, cache_folder
from rote.workloads.data.dataset import Array, Dataset, Labels, order_class_names
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
    train, test = _find_files(folder)
    if train is None:
        return read_npz(ArrayFile(folder), FileLayout(name, vocabulary=vocabulary))
    is_text = bool(train.class_names) and train.paths[0].lower().endswith(_TEXTS)
    if vocabulary is not None and not is_text:
        raise FieldError("data.vocabulary", "applies to texts only, not to images.")
    paths = [files.paths for files in (train, test) if files is not None]
    if is_text:
        texts = [read_texts(folder, files) for files in paths]
        x = count_words(texts[0], texts[1] if test else None, vocabulary or DEFAULT_VOCABULARY)
    else:
        images = [read_images(folder, files, image_size, limit) for files in paths]
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


def _find_files(folder: Path) -> tuple[_Files | None, _Files | None]:
    """Return the files for training and for testing; None where the folder holds arrays."""
    if (folder / "train.txt").is_file():
        test = folder / "test.txt"
        return _read_list(folder / "train.txt"), _read_list(test) if test.is_file() else None
    if not folder.is_dir():
        raise InputError(
            f"{folder} is neither a folder nor a file that rote reads. Save it as one of: .npz, "
            f"{', '.join(TABLE_SUFFIXES)}."
        )
    train = folder / "train" if (folder / "train").is_dir() else folder
    names = order_class_names(entry.name for entry in _list_subfolders(train))
    for suffixes in (_IMAGES, _TEXTS):
        files = _list_class_files(folder, train, names, suffixes)
        if files is not None and len(names) > 1:
            tested = folder / "test"
            is_there = train != folder and tested.is_dir()
            return files, _list_class_files(folder, tested, names, suffixes) if is_there else None
    if any(folder.glob("*.npy")):
        return None, None
    raise InputError(
        f"{folder} does not hold image or .txt files in at least 2 subfolders, one per class: "
        f"found {len(names)} subfolders without such files. {_WANTED}"
    )


_WANTED = (
    "Make one subfolder per class (or train/CLASS and test/CLASS), list images in train.txt "
    "(`path class-number` per line), or save arrays as x_train.npy and y_train.npy."
)


def _list_subfolders(folder: Path) -> list[Path]:
    return [e for e in folder.iterdir() if e.is_dir() and not e.name.startswith((".", "_"))]


def _list_class_files(
    folder: Path, part: Path, names: Sequence[str], suffixes: tuple[str, ...]
) -> _Files | None:
    """Return files with an end like this, class by class; None if there are none."""
    strange = [entry.name for entry in _list_subfolders(part) if entry.name not in names]
    if strange:
        raise InputError(
            f"Subfolder {strange[0]!r} of {part} is not a class of the training set. Classes: "
            f"{', '.join(names)}."
        )
    paths: list[str] = []
    labels: list[int] = []
    for number, name in enumerate(names):
        for file in sorted((part / name).rglob("*")):
            if file.suffix.lower() in suffixes and file.is_file():
                paths.append(file.relative_to(folder).as_posix())
                labels.append(number)
    return _Files(paths, np.asarray(labels, dtype=np.int64), tuple(names)) if paths else None


def list_training_files(folder: Path) -> list[str]:
    """List the training files of a folder in the order in which they are read.

    Raises:
        InputError: if the folder has no classes.
    """
    train, _ = _find_files(folder)
    return [] if train is None else train.paths


def list_files(path: Path, *, is_text: bool) -> tuple[Path, list[str]]:
    """List the images, or text files, of a folder and all its subfolders; or a single file.

    Returns:
        The folder, and the files relative to it, in order.

    Raises:
        InputError: if there are none.
    """
    suffixes = _TEXTS if is_text else _IMAGES
    if path.is_file():
        return path.parent, [path.name]
    found = [file for file in path.rglob("*") if file.suffix.lower() in suffixes and file.is_file()]
    if not found:
        raise InputError(f"{path} holds no {'.txt files' if is_text else 'images'}.")
    return path, sorted(file.relative_to(path).as_posix() for file in found)


def read_texts(folder: Path, paths: list[str]) -> Array:
    """Read text files.

    Raises:
        InputError: if one cannot be read as UTF-8.
    """
    texts = []
    for path in paths:
        try:
            texts.append((folder / path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read {folder / path} as UTF-8 text: {error}.") from error
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
                f"{quote(line)}."
            )
        paths.append(path.strip())
        labels.append(int(label))
    if not paths:
        raise InputError(f"{file} lists no images.")
    return _Files(paths, np.asarray(labels, dtype=np.int64))


def read_images(folder: Path, paths: list[str], size: int, limit: int = IN_MEMORY_BYTES) -> Array:
    """Decode images and scale them to a square, once: the arrays are kept in the cache."""
    facts = [(path, (folder / path).stat()) for path in paths if (folder / path).is_file()]
    files = [f"{path} {fact.st_size} {fact.st_mtime_ns}" for path, fact in facts]
    stamp = "\n".join([str(folder.resolve()), str(size), *paths, *files])
    code = hashlib.sha256(stamp.encode()).hexdigest()[:16]
    target = cache_folder() / f"{folder.name}-{code}.npy"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        pillow = require("PIL.Image", extra="images")
        with replace_file(target, shared=True) as draft:
            _write_images(draft, pillow, [folder / path for path in paths], size)
    images: Array = np.load(target, mmap_mode="r" if target.stat().st_size > limit else None)
    return images


def _write_images(draft: Path, pillow: Any, paths: list[Path], size: int) -> None:  # noqa: ANN401
    """Write decoded images into a mapped file, which is not in use any more at the end.

    Windows moves no file that is in use.
    """
    shape = (len(paths), size, size, 3)
    pixels = np.lib.format.open_memmap(draft, mode="w+", dtype=np.uint8, shape=shape)
    for place, path in enumerate(paths):
        pixels[place] = _decode(pillow, path, size)
    pixels.flush()


def _decode(pillow: Any, path: Path, size: int) -> Array:  # noqa: ANN401  # a lazy module
    if not path.is_file():  # a pipe would never end
        raise InputError(f"File not found: {path}. Correct the list of images.")
    try:
        with pillow.open(path) as image:
            return np.asarray(image.convert("RGB").resize((size, size)))
    except (OSError, ValueError, pillow.DecompressionBombError) as error:
        raise InputError(f"Cannot read the image {path}: {error}. Repair or remove it.") from error
