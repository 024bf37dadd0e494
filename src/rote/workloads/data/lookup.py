"""Find the data of a spec: by name, by path, or on the Hugging Face hub."""

import os
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rote.arguments import check_path
from rote.errors import InputError, MissingExtraError, did_you_mean
from rote.extras import require
from rote.store import replace_file
from rote.workloads.data.arrays import ArrayFile, cache_folder
from rote.workloads.data.catalog import CATALOG, NamedSet
from rote.workloads.data.dataset import Array, Dataset, Labels
from rote.workloads.data.folder import read_folder
from rote.workloads.data.npz_file import FileLayout, read_npz
from rote.workloads.data.table import ReadTable, TableLayout, read_frame, read_table
from rote.workloads.spec import (
    TABLE_SUFFIXES,
    Data,
    FieldError,
    FolderData,
    GivenData,
    NamedData,
    NpzData,
    TableData,
)


def fetch(named: NamedSet) -> Path:
    """Download a set, unless it was downloaded before, as an ``.npz`` in the cache.

    Raises:
        InputError: if it is not on the hub, or cannot be downloaded.
        MissingExtraError: if the package ``datasets`` is not installed.
    """
    target = cache_folder() / f"{named.name}.npz"
    if target.exists():
        return target
    if named.hub is None:
        raise InputError(
            f"{named.name} is not on the Hugging Face hub. Get it by hand: {named.obtain}."
        )
    datasets = require("datasets", extra="datasets")
    try:
        splits = datasets.load_dataset(named.hub.repository, named.hub.configuration)
    except (OSError, ValueError) as error:  # no network, no such repository
        raise InputError(
            f"Cannot download {named.hub.repository}: {error}. Get it by hand: {named.obtain}."
        ) from error
    _save(target, named, splits)
    return target


def convert_split(split: Any, named: NamedSet) -> tuple[Array, Labels]:  # noqa: ANN401
    """Convert one split of a hub dataset to images and labels."""
    assert named.hub is not None
    mode = "L" if named.shape[2] == 1 else "RGB"
    images = np.empty((len(split), *named.shape), dtype=np.uint8)
    for place, image in enumerate(split[named.hub.image]):
        images[place] = np.asarray(image.convert(mode)).reshape(named.shape)
    return images, np.asarray(split[named.hub.label], dtype=np.int64)


def _save(target: Path, named: NamedSet, splits: Any) -> None:  # noqa: ANN401
    assert named.hub is not None
    x_train, y_train = convert_split(splits["train"], named)
    x_test, y_test = convert_split(splits[named.hub.test], named)
    target.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(target, shared=True) as draft, draft.open("wb") as file:
        np.savez(file, x_train=x_train, y_train=y_train, x_test=x_test, y_test=y_test)


VARIABLE = "ROTE_DATA"
_LABEL_TABLE = "cifar10n_labels.npz"
_TESTED_DIGITS = 5  # every fifth of a class


def find_data_folder(data_dir: Path | str | None) -> Path | None:
    """Return the folder of local data: the argument, or else ``ROTE_DATA``."""
    named = data_dir if data_dir is not None else os.environ.get(VARIABLE) or None
    return (
        None if named is None else check_path(VARIABLE if data_dir is None else "data_dir", named)
    )


def load(data: Data, data_dir: Path | str | None = None) -> Dataset:
    """Load the data of a run: the whole set, before a subset, noise or a holdout are drawn.

    Raises:
        InputError: if it is missing, saying how to get it and where to put it, or does not fit.
        MissingExtraError: if a package is needed that is not installed.
    """
    folder = find_data_folder(data_dir)
    if isinstance(data, GivenData):
        raise FieldError(
            "data.name",
            "is 'given': the data were passed from Python. Pass them again, train(spec, data=...), "
            "or save them and name the file.",
        )
    if not isinstance(data, NamedData):
        return _load_path(data, find_path(data.path, folder, "data.path"))
    if data.name == "digits":
        return load_digits()
    return _load_named(data, CATALOG[data.name], folder)


def find_data_path(data: Data, data_dir: Path | str | None = None) -> Path | None:
    """Return the file or folder of a spec's data; None for a set by name, or data from Python.

    Raises:
        FieldError: if there is no such file.
    """
    if isinstance(data, NamedData | GivenData):
        return None
    return find_path(data.path, find_data_folder(data_dir), "data.path")


def _load_path(data: NpzData | TableData | FolderData, path: Path) -> Dataset:
    if isinstance(data, TableData):
        return read_table_file(data, path).dataset
    if isinstance(data, FolderData):
        return read_folder(
            path, name=path.name, image_size=data.image_size, vocabulary=data.vocabulary
        )
    how = FileLayout(path.name, data.labels, inputs=data.inputs, vocabulary=data.vocabulary)
    return read_npz(ArrayFile(path), how)


def read_table_file(data: TableData, path: Path) -> ReadTable:
    """Read a table from disk, with the role of each column.

    Raises:
        InputError: if it cannot be read, or a column does not fit.
    """
    return read_table(read_frame(path, data.label), make_table_layout(data, path))


def make_table_layout(data: TableData, path: Path) -> TableLayout:
    """Return the meaning of the columns of a table, according to its section."""
    return TableLayout(path.name, str(path), data.label, data.truth, data.columns, data.vocabulary)


def load_arrays(data: str, data_dir: Path | str | None = None) -> tuple[str, Array, Array]:
    """Load inputs and classes of a set of any kind.

    Args:
        data: its name, or the path of a table, or of an ``.npz`` with ``x_train`` and ``y_train``.
        data_dir: the folder of local data; ``ROTE_DATA`` by default.

    Returns:
        Name, inputs and classes; the classes are the true ones where they are known.

    Raises:
        InputError: if there is no such set, saying which file is expected where, or it does not
            fit.

    Example:
        >>> name, inputs, classes = load_arrays("digits")
        >>> len(inputs) == len(classes)
        True
    """
    if not data.endswith(".npz"):
        is_table = data.lower().endswith(TABLE_SUFFIXES)
        found = load(
            TableData(path=data) if is_table else NamedData(name=data),  # type: ignore[arg-type]
            data_dir,
        )
        return found.name, found.x_train, found.y_train if found.truth is None else found.truth
    file = ArrayFile(find_path(data, find_data_folder(data_dir), "data.path"))
    x, classes = file.read("x_train"), file.read("y_train")
    if x.ndim < 2 or classes.shape != x.shape[:1]:
        raise InputError(
            f"Expected {file.path} to hold x_train of shape (n, ...) and y_train of shape (n,), "
            f"got {x.shape} and {classes.shape}."
        )
    return file.path.stem, x, classes


def load_digits() -> Dataset:
    """Load the 8×8 handwritten digits that come with scikit-learn; pixels from 0 to 16.

    1,442 images are for training and 355, every fifth of each class, for testing.
    """
    rows = _read_digits()
    images = rows[:, :-1].reshape(-1, 8, 8, 1).astype(np.uint8)
    labels = rows[:, -1].astype(np.int64)
    place = np.empty(len(labels), dtype=np.int64)
    for digit in range(10):
        members = labels == digit
        place[members] = np.arange(members.sum())
    is_test = place % _TESTED_DIGITS == _TESTED_DIGITS - 1
    y_train = labels[~is_test]
    return Dataset(
        name="digits",
        source="scikit-learn",
        inputs="images",
        x_train=images[~is_test],
        y_train=y_train,
        truth=y_train,
        x_test=images[is_test],
        y_test=labels[is_test],
        num_classes=10,
    )


@cache
def _read_digits() -> np.ndarray:
    """Return every digit as 64 pixels, and its class; callers copy the parts that they take."""
    # The file of the package is read in no time, while to import it takes as long as torch does.
    package = find_spec("sklearn")
    for folder in () if package is None else package.submodule_search_locations or ():
        file = Path(folder) / "datasets" / "data" / "digits.csv.gz"
        if file.is_file():
            return np.loadtxt(file, delimiter=",")
    from sklearn import datasets

    bunch = datasets.load_digits()
    return np.column_stack([bunch.data, bunch.target])


def find_path(path: str, folder: Path | None, field: str) -> Path:
    """Find a path as it is, or inside the data folder.

    Raises:
        FieldError: if there is neither.
    """
    tried = [check_path(field, path)]
    if folder is not None:
        tried.append(folder / path)
    found = next((place for place in tried if place.exists()), None)
    if found is None:
        places = " and ".join(map(str, tried))
        raise FieldError(
            field,
            f"names no file or folder: not found at {places}. Check the path, or use a name from "
            f"`rote data list`.{did_you_mean(str(path), CATALOG)}",
        )
    return found


def find_local(named: NamedSet, folder: Path | None) -> Path | None:
    """Return the file or folder of a named set in the data folder, if it is there."""
    if folder is None:
        return None
    places = [folder / file for file in named.files]
    if named.folder:
        places.append(folder / named.name)
    return next((place for place in places if place.exists()), None)


def _load_named(data: NamedData, named: NamedSet, folder: Path | None) -> Dataset:
    found = None if data.source == "hub" else find_local(named, folder)
    if found is None and named.name == "cifar10n":
        return _join_labels(data, folder)
    if found is None and data.source == "hub":
        found = fetch(named)
    if found is None and data.source == "auto" and named.hub is not None:
        try:
            found = fetch(named)
        except MissingExtraError as error:
            raise _make_missing_error(named, folder) from error
    if found is None:
        raise _make_missing_error(named, folder)
    if found.is_dir() and (found / "train.txt").is_file():
        return read_folder(found, name=named.name, image_size=named.shape[0])
    how = FileLayout(named.name, data.labels, is_truth=named.is_truth, inputs="images")
    return _check_shape(read_npz(ArrayFile(found), how), named)


def _join_labels(data: NamedData, folder: Path | None) -> Dataset:
    """Join the images of CIFAR-10 with the table of human labels."""
    named = CATALOG["cifar10n"]
    if folder is None or not (folder / _LABEL_TABLE).is_file():
        raise _make_missing_error(named, folder)
    images = _load_named(NamedData(name="cifar10", source=data.source), CATALOG["cifar10"], folder)
    table = ArrayFile(folder / _LABEL_TABLE)
    if not np.array_equal(table.read("y_clean"), images.y_train):
        raise InputError(
            f"`y_clean` of {table.path} differs from the labels of {images.source}. Use the 50,000 "
            "training images in their original order."
        )
    return replace(
        images,
        name=named.name,
        source=f"{images.source} and {table.path}",
        y_train=table.read(f"y_{data.labels}").astype(np.int64),
        truth=images.y_train,
    )


def _check_shape(dataset: Dataset, named: NamedSet) -> Dataset:
    if dataset.sample_shape != named.shape or dataset.num_classes != named.classes:
        raise InputError(
            f"Expected {dataset.source} to hold {named.name}: images of shape {named.shape} in "
            f"{named.classes} classes, got {dataset.sample_shape} in {dataset.num_classes}."
        )
    return dataset


def _make_missing_error(named: NamedSet, folder: Path | None) -> FieldError:
    place = f"the folder named by {VARIABLE} or --data-dir" if folder is None else str(folder)
    files = " or ".join(named.files)
    download = "" if named.hub is None else " Or: pip install 'rote[datasets]' to download it."
    return FieldError(
        "data.name",
        f"is {named.name!r}, which was not found. Put {files} into {place}. "
        f"How to get it: {named.obtain}.{download}",
    )
