"""Samples of a recorded run for display: images, texts, or rows of a table."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import InputError
from rote.extras import require
from rote.store import DAMAGED_ARRAYS, read_plain
from rote.workloads.data.arrays import ArrayFile
from rote.workloads.data.catalog import CATALOG
from rote.workloads.data.dataset import Array, Dataset
from rote.workloads.data.lookup import find_data_folder, load, load_digits, read_table_file
from rote.workloads.data.npz_file import FileLayout, read_npz
from rote.workloads.data.table import read_frame
from rote.workloads.spec import FolderData, GivenData, NamedData, NpzData, RunSpec, TableData

MOST_PIXELS = 96
"""The longest side of an image that is read from a file."""

_MOST_CHARACTERS = 400


@dataclass(frozen=True, eq=False)
class SampleView:
    """One sample for display; fields that do not apply are empty.

    Attributes:
        image: (height, width[, channels]), as it is stored.
        text: the beginning of a text.
        row: the inputs of a table, by column.
    """

    image: Array | None = None
    text: str = ""
    row: Mapping[str, str] = field(default_factory=dict)


def view_samples(
    workload: Mapping[str, Any], labels_file: Path, samples: Mapping[int, str | None]
) -> dict[int, SampleView]:
    """Find samples again where a run found its data.

    Args:
        workload: the contents of ``workload.json``, which name the data.
        labels_file: the recorded labels, which tell whether the data are still the same.
        samples: the samples by their position in the data, with their file if they have one.

    Returns:
        The samples by position; empty if the run does not name its data, or they cannot be shown.

    Raises:
        InputError: if the data were moved or changed.
        MissingExtraError: if Pillow is needed and not installed.
    """
    found, spec = workload.get("data"), workload.get("spec")
    if not samples or not isinstance(found, Mapping) or not isinstance(spec, Mapping):
        return {}
    try:
        data = RunSpec.from_dict(spec).data
    except InputError:  # not as rote wrote it
        return {}
    is_plain = isinstance(data, NpzData | NamedData) and found.get("inputs") != "images"
    if is_plain or isinstance(data, GivenData):
        return {}
    if isinstance(data, NamedData) and data.name == "digits":
        return _view_images(load_digits(), labels_file, samples)
    place = _find(str(found.get("source")))
    if all(samples.values()):
        return {sample: _view_file(place / str(file)) for sample, file in samples.items()}
    if isinstance(data, TableData):
        return _view_rows(data, place, labels_file, samples)
    return _view_images(_load(data, place), labels_file, samples)


def _find(source: str) -> Path:
    """Find the data at the path that the run recorded, or in the data folder."""
    # A set whose labels are in a file of their own has the source "images and labels".
    named = [Path(name) for name in (source, source.rpartition(" and ")[0]) if name]
    folder = find_data_folder(None)
    for path in named + ([folder / path.name for path in named] if folder else []):
        if path.exists():
            return path
    raise InputError(
        f"The data of these runs are no longer at {source}. Set ROTE_DATA to their folder to see "
        "the samples here."
    )


def _load(data: NpzData | NamedData | FolderData, place: Path) -> Dataset:
    """Load arrays from a known place, without a download."""
    if isinstance(data, NpzData):
        how = FileLayout(place.name, data.labels, inputs=data.inputs, vocabulary=data.vocabulary)
    elif isinstance(data, FolderData) or data.name == "cifar10n":
        return load(data, place.parent)
    else:
        named = CATALOG[data.name]
        how = FileLayout(named.name, data.labels, is_truth=named.is_truth, inputs="images")
    return read_npz(ArrayFile(place), how)


def _view_images(
    dataset: Dataset, labels_file: Path, samples: Mapping[int, str | None]
) -> dict[int, SampleView]:
    _check_same(dataset, labels_file)
    return {sample: SampleView(image=np.asarray(dataset.x_train[sample])) for sample in samples}


def _view_rows(
    data: TableData, place: Path, labels_file: Path, samples: Mapping[int, str | None]
) -> dict[int, SampleView]:
    _check_same(read_table_file(data, place).dataset, labels_file)
    frame = read_frame(place, data.label)
    hidden = {data.label, data.truth, "label_clean", "split"}
    names = [name for name in data.columns or frame.columns if name not in hidden]
    views = {}
    for sample in samples:
        row = frame.select(names).row(sample, named=True)
        views[sample] = SampleView(
            row={name: str(value)[:_MOST_CHARACTERS] for name, value in row.items() if value != ""}
        )
    return views


def _view_file(path: Path) -> SampleView:
    """Read one file of a folder, an image or a text."""
    if not path.is_file():  # a pipe would never end
        raise InputError(f"File not found: {path}. Restore it to see the sample here.")
    try:
        if path.suffix.lower() == ".txt":
            with path.open(encoding="utf-8", errors="replace") as file:
                return SampleView(text=file.read(_MOST_CHARACTERS))
        pillow = require("PIL.Image", extra="images")
        with pillow.open(path) as image:
            small = image.convert("RGB")
            small.thumbnail((MOST_PIXELS, MOST_PIXELS))
            return SampleView(image=np.asarray(small))
    except OSError as error:
        raise InputError(f"Cannot read {path}: {error}.") from error


def _check_same(dataset: Dataset, file: Path) -> None:
    """Refuse data whose labels differ from the recorded ones."""
    try:
        with np.load(BytesIO(read_plain(file)), allow_pickle=False) as arrays:
            rows, labels = arrays["rows"], arrays["labels"]
            wrong = arrays["wrong"] if "wrong" in arrays.files else None
    except DAMAGED_ARRAYS as error:
        raise InputError(f"Cannot read {file}: {error}.") from error
    is_same = bool(rows.max(initial=0) < len(dataset.y_train))
    if is_same:
        given = dataset.y_train[rows]
        if wrong is not None:  # noise may have been added to the labels of the data
            right = given if dataset.truth is None else dataset.truth[rows]
            given = np.where(wrong, labels, right)
        is_same = np.array_equal(given, labels)
    if not is_same:
        raise InputError(
            f"The data at {dataset.source} have changed: their labels differ from those in {file}."
        )
