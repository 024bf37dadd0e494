"""Out-of-sample probabilities of runs with folds: each sample is predicted by a run without it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.store.holdout import DAMAGED_ARRAYS, read_neighbor_votes
from rote.store.run_record import read_description

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

OUT_OF_SAMPLE_FILE = "out_of_sample.npz"


@dataclass(frozen=True, eq=False)
class OutOfSample:
    """Predictions of runs for samples that they were not trained on.

    Attributes:
        samples: positions in the data, ascending.
        labels: the given labels.
        classes: the predicted classes, each by the best epoch of its run (the last of several).
        probabilities: those of every class, (samples, classes), averaged over epochs and runs.
        best_probabilities: the mean over runs of those of the best epoch.
        votes: the share of each class among the predictions of the epochs around the best one, the
            mean over runs.
        neighbors: the share of each class among the given labels of the nearest samples; None
            unless every run recorded it.
        runs: the number of runs that predicted each sample.

    Example:
        >>> import numpy as np
        >>> shares = np.array([[0.9, 0.1], [0.2, 0.8]])
        >>> found = OutOfSample(samples=np.array([0, 1]), labels=np.array([0, 0]),
        ...     classes=np.array([0, 1]), probabilities=shares, best_probabilities=shares,
        ...     votes=shares, neighbors=None, runs=np.array([1, 1]))
        >>> found.samples[found.classes != found.labels].tolist()
        [1]
    """

    samples: NDArray[np.int64]
    labels: NDArray[np.int64]
    classes: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    best_probabilities: NDArray[np.float64]
    votes: NDArray[np.float64]
    neighbors: NDArray[np.float64] | None
    runs: NDArray[np.int64]

    def to_cleanlab(self) -> dict[str, NDArray[Any]]:
        """Return ``labels`` and ``pred_probs`` as the functions of cleanlab take them.

        ``pred_probs`` are those of the best epochs, which rank label errors better than the mean
        over all epochs.

        Example:
            ``cleanlab.filter.find_label_issues(**found.to_cleanlab())``
        """
        return {"labels": self.labels, "pred_probs": self.best_probabilities}


def read_out_of_sample(runs: Path | str | Iterable[Path | str]) -> OutOfSample | None:
    """Join the held-out predictions of several runs on the same data.

    Args:
        runs: run directories, or the folder that ``rote train --folds`` wrote; runs without folds
            are passed over.

    Returns:
        All samples that were held out by a run; None if no run has folds.

    Raises:
        InputError: if runs give one sample different labels, or know different classes.
        CorruptRunError: if a file is damaged.

    Example:
        >>> read_out_of_sample([]) is None
        True
    """
    if isinstance(runs, str | Path):
        runs = sorted(path for path in Path(runs).iterdir() if path.is_dir())
    parts = [part for run in runs if (part := _read(Path(run))) is not None]
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
    mean, best, votes = (
        _average(every[name], places, counts)
        for name in ("probabilities", "best_probabilities", "votes")
    )
    neighbors = None
    if all("neighbors" in part for part in parts):
        rows = np.concatenate([part["neighbors"] for part in parts])
        neighbors = _average(rows, places, counts)
    samples = samples.astype(np.int64)
    return OutOfSample(samples, labels, classes, mean, best, votes, neighbors, counts)


_PER_SAMPLE = ("samples", "labels", "classes", "probabilities", "best_probabilities", "votes")


def _average(
    rows: NDArray[Any], places: NDArray[np.int64], counts: NDArray[np.int64]
) -> NDArray[np.float64]:
    total = np.zeros((len(counts), rows.shape[1]))
    np.add.at(total, places, rows.astype(np.float64))
    mean: NDArray[np.float64] = total / counts[:, None]
    return mean


def _read(run: Path) -> dict[str, NDArray[Any]] | None:
    file = run / OUT_OF_SAMPLE_FILE
    if not file.is_file():
        return None
    try:
        with np.load(file) as found:
            part = {name: found[name] for name in _PER_SAMPLE}
    except (*DAMAGED_ARRAYS, KeyError) as error:
        raise CorruptRunError(f"{file} is damaged: {error}.") from error
    neighbors = read_neighbor_votes(run, read_description(run))
    if neighbors is not None and neighbors.shape == part["votes"].shape:
        part["neighbors"] = neighbors
    return part
