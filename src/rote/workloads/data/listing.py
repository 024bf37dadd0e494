"""Which sets there are, where they are, and whether a file is one."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rote.errors import InputError
from rote.workloads.data.arrays import ArrayFile, cache_folder
from rote.workloads.data.catalogue import CATALOGUE, NamedSet
from rote.workloads.data.lookup import data_folder, find_local
from rote.workloads.data.npz_file import FileLayout, read_npz


@dataclass(frozen=True)
class ListedSet:
    """A known set.

    Attributes:
        name: as in a spec.
        classes: how many.
        shape: of one image: height, width, channels.
        found: where it is, or ``None``.
        obtain: how to get it.
        on_hub: whether it is downloaded by itself when the extra ``datasets`` is installed.
    """

    name: str
    classes: int
    shape: tuple[int, int, int]
    found: str | None
    obtain: str
    on_hub: bool


@dataclass(frozen=True)
class CheckedFile:
    """What is in a file of arrays.

    Attributes:
        path: the file.
        arrays: name → type and shape.
        problems: why it cannot be trained on; none if it can.
        summary: samples, classes and noise, if it can.
    """

    path: Path
    arrays: dict[str, str]
    problems: tuple[str, ...]
    summary: dict[str, float | int | str]


def list_datasets(data_dir: Path | str | None = None) -> tuple[ListedSet, ...]:
    """Every set that rote knows by name."""
    folder = data_folder(data_dir)
    return tuple(
        ListedSet(
            name=named.name,
            classes=named.classes,
            shape=named.shape,
            found=_place_of(named, folder),
            obtain=named.obtain,
            on_hub=named.hub is not None,
        )
        for named in CATALOGUE.values()
    )


def check_file(path: Path | str, *, inputs: str = "auto") -> CheckedFile:
    """What is in an ``.npz`` file, or a folder of ``.npy`` files, and what is wrong with it."""
    path = Path(path)
    arrays: dict[str, str] = {}
    summary: dict[str, float | int | str] = {}
    problems: tuple[str, ...] = ()
    try:
        file = ArrayFile(path)
        for name in file.names:
            shape, dtype = file.header(name)
            arrays[name] = f"{dtype} {shape}"
        summary = _summary(file, inputs)
    except InputError as error:
        problems = (str(error),)
    return CheckedFile(path, arrays, problems, summary)


def _summary(file: ArrayFile, inputs: str) -> dict[str, float | int | str]:
    dataset = read_npz(file, FileLayout("npz", inputs=inputs))
    found: dict[str, float | int | str] = {
        "inputs": dataset.inputs,
        "train": len(dataset.y_train),
        "test": 0 if dataset.y_test is None else len(dataset.y_test),
        "classes": dataset.num_classes,
        "shape": " × ".join(map(str, dataset.sample_shape)),
    }
    plain = file.read("y_train")
    for name in file.names:
        is_labels = name.startswith("y_") and name not in ("y_train", "y_test")
        if is_labels and file.header(name)[0] == plain.shape:
            given = file.read(name)
            differs = given[given >= 0] != plain[given >= 0]
            found[f"{name} differs from y_train"] = float(np.mean(differs))
    return found


def _place_of(named: NamedSet, folder: Path | None) -> str | None:
    if named.name == "digits":
        return "scikit-learn"
    cached = cache_folder() / f"{named.name}.npz"
    local = find_local(named, folder)
    if local is None and cached.exists():
        local = cached
    return None if local is None else str(local)
