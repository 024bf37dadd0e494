"""What `rote theory` computes on: inputs and classes of a set, or of a file of arrays."""

from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile
from zlib import error as zlib_error

from rote.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from rote.workloads.data.arrays import ArrayFile


def load_data(data: str, data_dir: Path | None) -> "tuple[str, NDArray[Any], NDArray[Any]]":
    """Find data without torch, by name or in a file.

    Args:
        data: the name of a set, or the path of an ``.npz`` with ``x_train`` and ``y_train``.
        data_dir: the folder of local data; ``ROTE_DATA`` by default.

    Returns:
        Name, inputs and classes; the classes are the right ones where they are known.

    Raises:
        InputError: if there is no such set, saying which file is expected where.
    """
    from rote.workloads.data import load
    from rote.workloads.data.arrays import ArrayFile
    from rote.workloads.data.lookup import data_folder, find_path
    from rote.workloads.spec import FieldError, NamedData

    try:
        if data.endswith(".npz"):
            path = find_path(data, data_folder(data_dir), "--data")
            return path.stem, *_arrays_of(ArrayFile(path))
        found = load(NamedData(name=data), data_dir)  # type: ignore[arg-type]  # checked there
    except FieldError as error:
        raise FieldError("--data", error.complaint) from error
    except (OSError, EOFError, BadZipFile, zlib_error) as error:
        raise InputError(f"Expected {data} to be a whole .npz file, got: {error}.") from error
    return found.name, found.x_train, found.y_train if found.truth is None else found.truth


def _arrays_of(file: "ArrayFile") -> "tuple[NDArray[Any], NDArray[Any]]":
    x, classes = file.read("x_train"), file.read("y_train")
    if x.ndim < 2 or classes.shape != x.shape[:1]:
        raise InputError(
            f"Expected {file.path} to hold x_train of shape (n, ...) and y_train of shape (n,), "
            f"got {x.shape} and {classes.shape}."
        )
    return x, classes


def some_samples(
    x: "NDArray[Any]",
    classes: "NDArray[Any]",
    samples: int,
    pair: tuple[int, int] | None,
    rng: "np.random.Generator",
) -> "tuple[NDArray[Any], NDArray[np.float64], str]":
    """Draw some samples without repetition.

    Returns:
        Their inputs, their labels of ±1, and how the labels were made.

    Raises:
        InputError: if there are fewer samples.
    """
    from rote.theory import binary_labels

    labels = binary_labels(classes, pair=pair)
    if not 1 <= samples <= len(labels.kept):
        raise InputError(
            f"Expected `--samples` to be between 1 and {len(labels.kept)} ({labels.rule}), "
            f"got {samples}."
        )
    chosen = rng.choice(len(labels.kept), size=samples, replace=False)
    return x[labels.kept[chosen]], labels.y[chosen], labels.rule
