"""Small pictures of training samples: found where the run found its data, without torch."""

from __future__ import annotations

import base64
import os
import struct
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.store import DAMAGED_ARRAYS, LABELS_FILE

if TYPE_CHECKING:
    from rote.selection import SuspectLabel

MOST_PIXELS = 48
"""Of a side; larger ones are thinned out."""

_BYTE = 255
_HALF = 127


@dataclass(frozen=True)
class _Found:
    """Images of a training set.

    Attributes:
        source: where they were found.
        given: the class that each sample of the set is given there.
        right: the right one, where it is known there; otherwise the same.
        images: by sample; at least those that were asked for.
    """

    source: str
    given: np.ndarray
    right: np.ndarray
    images: Mapping[int, np.ndarray]


def pictures_of(
    workload: Mapping[str, Any], path: Path, suspects: Sequence[SuspectLabel]
) -> dict[int, str]:
    """Pictures of samples, as addresses that hold them, by sample.

    Args:
        workload: what ``workload.json`` says of the run: where its data came from.
        path: the directory of the run: its labels tell whether the data are still the same.
        suspects: the samples.

    Returns:
        Nothing where the samples are no images, or the run does not say.

    Raises:
        InputError: if the data are not where they were, or others.
    """
    data, spec = workload.get("data"), workload.get("spec")
    if not isinstance(data, Mapping) or data.get("inputs") != "images" or not suspects:
        return {}
    samples = sorted({suspect.sample for suspect in suspects})
    if data.get("source") == "scikit-learn":
        found = _digits()
    else:
        section = spec.get("data") if isinstance(spec, Mapping) else None
        labels = section.get("labels") if isinstance(section, Mapping) else None
        found = _stored(_place(str(data.get("source"))), labels, samples)
    _check_same(path / LABELS_FILE, found)
    low, high = _range([found.images[sample] for sample in samples])
    return {sample: as_png(_bytes_of(found.images[sample], low, high)) for sample in samples}


def as_png(pixels: np.ndarray) -> str:
    """An image of bytes, (height, width, 1 or 3), as an address that holds it."""
    height, width, channels = pixels.shape
    rows = np.concatenate([np.zeros((height, 1), np.uint8), pixels.reshape(height, -1)], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 2 if channels == 3 else 0, 0, 0, 0)
    parts = ((b"IHDR", header), (b"IDAT", zlib.compress(rows.tobytes(), 9)), (b"IEND", b""))
    chunks = (
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in parts
    )
    content = b"\x89PNG\r\n\x1a\n" + b"".join(chunks)
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _digits() -> _Found:
    """The embedded set: every fifth of a class is for testing, the others are numbered on."""
    from sklearn import datasets

    bunch = datasets.load_digits()
    earlier = [int((bunch.target[:at] == label).sum()) for at, label in enumerate(bunch.target)]
    is_train = np.array(earlier) % 5 != 4
    classes = bunch.target[is_train]
    return _Found("scikit-learn", classes, classes, dict(enumerate(bunch.images[is_train])))


def _place(source: str) -> Path:
    """Where the images are: where they were, or in the data folder of now."""
    # Images whose labels are in another file have a source "images and labels".
    named = [Path(name) for name in (source, source.rpartition(" and ")[0]) if name]
    folder = os.environ.get("ROTE_DATA")
    for path in named + ([Path(folder) / path.name for path in named] if folder else []):
        if path.is_file() or (path / "x_train.npy").is_file():
            return path
    raise InputError(
        f"Expected the images of these runs at {source}, as arrays, got none there. Set ROTE_DATA "
        "to the folder that holds them to see pictures here."
    )


def _stored(path: Path, labels: object, samples: Sequence[int]) -> _Found:
    """Some images of a file of arrays, with the classes of all."""
    try:
        names = _names(path)
        given = (f"y_train_{labels}", f"y_{labels}") if labels else ()
        chosen = next((name for name in given if name in names), "y_train")
        right = "y_train" if labels or "y_train_clean" not in names else "y_train_clean"
        y_given, y_right = _read(path, chosen), _read(path, right)
        places = np.flatnonzero(y_given >= 0)  # samples without a label are not counted
        images = dict(zip(samples, _rows(path, places[list(samples)]), strict=True))
    except DAMAGED_ARRAYS as error:
        raise InputError(
            f"Expected {path} to hold the images of these runs, got: {error}."
        ) from error
    return _Found(str(path), y_given[places], y_right[places], images)


def _check_same(file: Path, found: _Found) -> None:
    """Refuse data whose classes are not those of the run."""
    with np.load(file, allow_pickle=False) as arrays:
        rows, labels = arrays["rows"], arrays["labels"]
        wrong = arrays["wrong"] if "wrong" in arrays.files else None
    is_same = bool(rows.max(initial=0) < len(found.given))
    if is_same:
        known = found.given[rows] if wrong is None else np.where(wrong, labels, found.right[rows])
        is_same = np.array_equal(known, labels)
    if not is_same:
        raise InputError(
            f"Expected the data of these runs at {found.source}, got others: their labels are not "
            f"those of {file}."
        )


def _names(path: Path) -> list[str]:
    if path.is_dir():
        return [file.stem for file in path.glob("*.npy")]
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


@contextmanager
def _opened(path: Path, name: str) -> Iterator[IO[bytes]]:
    if path.is_dir():
        with (path / f"{name}.npy").open("rb") as file:
            yield file
    else:
        with zipfile.ZipFile(path) as archive, archive.open(f"{name}.npy") as member:
            yield member


def _read(path: Path, name: str) -> np.ndarray:
    with _opened(path, name) as file:
        found: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
    return found


def _rows(path: Path, places: np.ndarray) -> list[np.ndarray]:
    """Some images, in rising order of their places; the others are passed over, not kept."""
    with _opened(path, "x_train") as file:
        version = np.lib.format.read_magic(file)
        readers = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
        shape, is_fortran, dtype = readers[version != (1, 0)](file)
        if len(shape) not in (3, 4) or is_fortran or dtype.kind not in "biuf":
            raise ValueError(f"x_train of {dtype} and shape {shape}")
        start, size = file.tell(), dtype.itemsize * int(np.prod(shape[1:]))
        found = []
        for place in places.tolist():
            file.seek(start + place * size)
            found.append(np.frombuffer(file.read(size), dtype).reshape(shape[1:]))
    return found


def _range(images: Sequence[np.ndarray]) -> tuple[float, float]:
    """What is black, and what is white: bytes as they are, if they are not all dark."""
    low, high = (float(end(np.nan_to_num(images))) for end in (np.min, np.max))
    return (0, _BYTE) if images[0].dtype == np.uint8 and high > _HALF else (low, high)


def _bytes_of(image: np.ndarray, low: float, high: float) -> np.ndarray:
    stride = -(-max(image.shape[:2]) // MOST_PIXELS)
    thinned = np.nan_to_num(np.atleast_3d(image)[::stride, ::stride].astype(np.float64))
    shares = (thinned - low) / max(high - low, 1e-12)
    channels = 3 if shares.shape[2] >= 3 else 1
    return (shares[..., :channels].clip(0, 1) * _BYTE).round().astype(np.uint8)
