"""Out-of-sample probabilities of runs with folds: each sample is predicted by a run without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.store.holdout import DAMAGED_ARRAYS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

OUT_OF_SAMPLE_FILE = "out_of_sample.npz"


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """What runs say about samples that they were not trained on.

    Attributes:
        samples: positions in the data, ascending.
        labels: the given labels.
        classes: the predicted classes, each by the best epoch of its run (the last of several).
        probabilities: of every class, (samples, classes): the mean over epochs and runs.
        best_probabilities: the mean over runs of those of the best epoch.
        runs: how many runs predicted each sample.

    Example:
        ``cleanlab.filter.find_label_issues(found.labels, found.probabilities)``
    """

    samples: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    best_probabilities: NDArray[np.float64]
    runs: NDArray[np.int64]


def read_out_of_sample(runs: Iterable[Path | str]) -> OutOfSample | None:
    """Join the held-out predictions of several runs on the same data.

    Args:
        runs: run directories; those without folds are passed over.

    Returns:
        All samples that were held out by a run; None if no run has folds.

    Raises:
        InputError: if runs give one sample different labels, or know different classes.
        CorruptRunError: if a file is damaged.
    """
    parts = [part for run in runs if (part := _read(Path(run) / OUT_OF_SAMPLE_FILE)) is not None]
    if not parts:
        return None
    if len({part["probabilities"].shape[1] for part in parts}) > 1:
        raise InputError("The runs know different numbers of classes: they are on different data.")
    every = {name: np.concatenate([part[name] for part in parts]) for name in _PER_SAMPLE}
    samples, places, counts = np.unique(every["samples"], return_inverse=True, return_counts=True)
    labels = np.zeros(len(samples), dtype=np.int64)
    labels[places] = every["labels"]
    if (labels[places] != every["labels"]).any():
        raise InputError("The runs give the same samples different labels: name runs on one file.")
    classes = np.zeros(len(samples), dtype=np.int64)
    classes[places] = every["classes"]
    mean = _average(every["probabilities"], places, counts)
    best = _average(every["best_probabilities"], places, counts)
    return OutOfSample(samples.astype(np.int64), labels, classes, mean, best, counts)


_PER_SAMPLE = ("samples", "labels", "classes", "probabilities", "best_probabilities")


def _average(
    rows: NDArray[Any], places: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    total = np.zeros((len(counts), rows.shape[1]))
    np.add.at(total, places, rows.astype(np.float64))
    mean: NDArray[np.float64] = total / counts[:, None]
    return mean


def _read(file: Path) -> dict[str, NDArray[Any]] | None:
    if not file.is_file():
        return None
    try:
        with np.load(file) as found:
            return {name: found[name] for name in _PER_SAMPLE}
    except (*DAMAGED_ARRAYS, KeyError) as error:
        raise CorruptRunError(f"{file} is damaged: {error}.") from error
