"""Listing of the known data sets, and checking of files."""

import shlex
from dataclasses import dataclass
from functools import partial
from operator import lt
from pathlib import Path

import numpy as np

from rote.arguments import check_path
from rote.errors import InputError, MissingExtraError
from rote.workloads.data.arrays import ArrayFile, cache_folder
from rote.workloads.data.catalog import CATALOG, NamedSet
from rote.workloads.data.dataset import Dataset
from rote.workloads.data.given_data import make_data_section
from rote.workloads.data.lookup import find_data_folder, find_local, load, read_table_file
from rote.workloads.data.table_inputs import format_count, format_names
from rote.workloads.spec import Data, NpzData, TableData

_ENOUGH = 300  # a tenth is the holdout, of which the posterior wants 30 labels
_ENOUGH_OF_CLASS = 5


@dataclass(frozen=True)
class ListedSet:
    """A known set.

    Attributes:
        name: as in a spec.
        classes: the number of classes.
        shape: the shape of one image: height, width, channels.
        found: its path, or ``None``.
        subset: how much of the published set that holds, if not all.
        obtain: how to get it.
        on_hub: whether it is downloaded by itself when the extra ``datasets`` is installed.
    """

    name: str
    classes: int
    shape: tuple[int, int, int]
    found: str | None
    subset: str | None
    obtain: str
    on_hub: bool


@dataclass(frozen=True)
class CheckedFile:
    """The content of a file or folder of data.

    Attributes:
        path: the file.
        contents: by the name of an array or a column: type and shape, or what it was taken for.
        problems: why it cannot be trained on; none if it can.
        summary: samples, classes and noise, if it can.
        command: the command that trains on it, if it can be used.
    """

    path: Path
    contents: dict[str, str]
    problems: tuple[str, ...]
    summary: dict[str, float | int | str]
    command: str | None


def list_datasets(data_dir: Path | str | None = None) -> tuple[ListedSet, ...]:
    """Return every set that rote knows by name.

    Args:
        data_dir: the folder of the data; by default ``ROTE_DATA``.

    Returns:
        The sets, with what is known about each.

    Example:
        >>> "digits" in [found.name for found in list_datasets()]
        True
    """
    return tuple(map(partial(_list_set, folder=find_data_folder(data_dir)), CATALOG.values()))


def check_file(
    path: Path | str, *, label: str | None = None, truth: str | None = None
) -> CheckedFile:
    """Check a table, an ``.npz`` file or a folder, and describe its content and problems.

    Args:
        path: the file or folder.
        label: the labels to train on: a column of a table, or ``y_train_<label>`` of an ``.npz``.
        truth: the column of true labels.
    """
    path = check_path("path", path)
    contents: dict[str, str] = {}
    summary: dict[str, float | int | str] = {}
    problems: tuple[str, ...] = ()
    try:
        _check_there(path)
        data = make_data_section(path, label=label, truth=truth)
        if isinstance(data, TableData):
            table = read_table_file(data, path)
            contents, dataset = table.columns, table.dataset
        else:
            contents = _list_arrays(path)
            dataset = load(data)
        summary = _summarize(dataset, _describe_labels(data)) | _compare_labels(path)
    except (InputError, MissingExtraError) as error:
        problems = (str(error),)
    told = [("--label", label), ("--truth", truth)]
    words = ["rote", "train", "--data", str(path), *(w for o, v in told if v for w in (o, v))]
    return CheckedFile(path, contents, problems, summary, None if problems else shlex.join(words))


def _check_there(path: Path) -> None:
    if not path.exists():
        raise InputError(f"File not found: {path}.")


def _list_set(named: NamedSet, folder: Path | None) -> ListedSet:
    found = _find_place(named, folder)
    return ListedSet(
        name=named.name,
        classes=named.classes,
        shape=named.shape,
        found=found,
        subset=None if found is None else _describe_subset(named, Path(found)),
        obtain=named.obtain,
        on_hub=named.hub is not None,
    )


def _describe_subset(named: NamedSet, found: Path) -> str | None:
    """Return how many of the published samples a file holds; None if all, or it does not tell."""
    if found.suffix != ".npz":
        return None
    try:
        file = ArrayFile(found)
        held = [file.header(f"y_{part}")[0][0] for part in ("train", "test")]
    except (InputError, IndexError):
        return None
    parts = [
        f"{count:,} of {published:,} {part}"
        for part, count, published in zip(("train", "test"), held, named.samples, strict=True)
    ]
    return " and ".join(parts) if any(map(lt, held, named.samples)) else None


def _list_arrays(path: Path) -> dict[str, str]:
    if path.suffix.lower() != ".npz" and not any(path.glob("*.npy")):
        return {}
    file = ArrayFile(path)
    headers = {name: file.header(name) for name in file.names}
    return {name: f"{dtype} {shape}" for name, (shape, dtype) in headers.items()}


def _describe_labels(data: Data) -> str:
    if isinstance(data, TableData):
        return f"column {data.label}"
    if isinstance(data, NpzData):
        return "y_train" if data.labels is None else f"those called {data.labels}"
    return "subfolders or lists"


def _summarize(dataset: Dataset, labels: str) -> dict[str, float | int | str]:
    found: dict[str, float | int | str] = {
        "inputs": dataset.inputs,
        "labels": labels,
        "train": len(dataset.y_train),
        "test": 0 if dataset.y_test is None else len(dataset.y_test),
        "classes": dataset.num_classes,
        "shape": " × ".join(map(str, dataset.sample_shape)),
    }
    counts = np.bincount(dataset.y_train, minlength=dataset.num_classes)
    found["samples of a class"] = f"{counts.min():,} to {counts.max():,}"
    if dataset.class_names:
        found["class names"] = format_names(list(dataset.class_names))
    if dataset.truth is None:
        found["wrong labels"] = "not known which"
    else:
        found["wrong labels"] = float(np.mean(dataset.truth != dataset.y_train))
    if dataset.remarks:
        found["note"] = " ".join(dataset.remarks)
    if len(dataset.y_train) < _ENOUGH:
        found["caution"] = (
            f"fewer than {_ENOUGH} samples: the holdout, a tenth of them, is too small for strong "
            "evidence"
        )
    elif counts.min() < _ENOUGH_OF_CLASS:
        few = int(np.sum(counts < _ENOUGH_OF_CLASS))
        found["caution"] = (
            f"{format_count(few, 'class', 'classes')} with fewer than {_ENOUGH_OF_CLASS} samples, "
            "too few to learn"
        )
    return found


def _compare_labels(path: Path) -> dict[str, float | int | str]:
    """Describe other labels in a file of arrays: how many differ from the plain ones."""
    if path.suffix.lower() != ".npz":
        return {}
    file = ArrayFile(path)
    plain = file.read("y_train")
    found: dict[str, float | int | str] = {}
    for name in file.names:
        is_labels = name.startswith("y_") and name not in ("y_train", "y_test")
        if is_labels and file.header(name)[0] == plain.shape:
            given = file.read(name)
            differs = given[given >= 0] != plain[given >= 0]
            found[f"{name} differs from y_train"] = float(np.mean(differs))
    return found


def _find_place(named: NamedSet, folder: Path | None) -> str | None:
    if named.name == "digits":
        return "scikit-learn"
    cached = cache_folder() / f"{named.name}.npz"
    local = find_local(named, folder)
    if local is None and cached.exists():
        local = cached
    return None if local is None else str(local)
