"""The given labels of a run's holdout: in ``run.json``, or among the labels of a spec's data."""

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import DamagedRowsWarning
from rote.store.damaged_arrays import DAMAGED_ARRAYS
from rote.store.run_status import LABELS_FILE
from rote.store.schema import GIVEN_LABELS


def text_of_labels(labels: np.ndarray) -> str:
    """Labels as ``run.json`` holds them."""
    return " ".join(map(str, labels.ravel()))


def read_given_labels(path: Path | None, description: Mapping[str, Any]) -> np.ndarray | None:
    """The given labels of the holdout, negative where there is none.

    A run of a spec from before they were recorded has them among the labels of its data.

    Args:
        path: the run's directory, if it has one.
        description: what ``run.json`` says.

    Returns:
        None if nobody wrote them; and with a ``DamagedRowsWarning`` if they are no labels.
    """
    text = description.get(GIVEN_LABELS)
    file = Path(LABELS_FILE) if path is None else path / LABELS_FILE
    try:
        if isinstance(text, str):
            return np.array(text.split(), dtype=np.int64)
        return None if path is None or not file.is_file() else _of_holdout(file)
    except DAMAGED_ARRAYS as error:
        place = f"of {description.get('name')!r}" if isinstance(text, str) else f"in {file}"
        message = f"Left out the given labels {place}: {error!s:.200}. Restore the file."
        warnings.warn(DamagedRowsWarning(message), stacklevel=3)
        return None


def _of_holdout(file: Path) -> np.ndarray | None:
    with np.load(file, allow_pickle=False) as arrays:
        if not {"labels", "holdout"} <= set(arrays.files):
            return None
        return np.asarray(arrays["labels"][arrays["holdout"]], dtype=np.int64)
