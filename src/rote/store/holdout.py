"""The given labels and nearest-neighbor votes of a run's holdout."""

import io
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import DamagedRowsWarning
from rote.store.files import is_as_written, write_whole
from rote.store.journal import GIVEN_LABELS

DAMAGED_ARRAYS = (
    *(OSError, EOFError, ValueError, TypeError, LookupError, OverflowError, MemoryError),
    *(SyntaxError, RuntimeError),
    *(tokenize.TokenError, zipfile.BadZipFile, zlib.error),
)
"""Also what taking an array out of it, and making it one of integers, does."""


def encode_labels(labels: np.ndarray) -> str:
    """Return labels as ``run.json`` holds them."""
    return " ".join(map(str, labels.ravel()))


def read_given_labels(description: Mapping[str, Any]) -> np.ndarray | None:
    """Read the given labels of the holdout, negative where there is none.

    Args:
        description: what ``run.json`` says.

    Returns:
        None if no labels were recorded; and with a ``DamagedRowsWarning`` if they are no labels.
    """
    text = description.get(GIVEN_LABELS)
    if not isinstance(text, str):
        return None
    try:
        return np.array(text.split(), dtype=np.int64)
    except DAMAGED_ARRAYS as error:
        message = (
            f"Left out the given labels of {description.get('name')!r}: {error!s:.200}. Restore "
            "the file."
        )
        warnings.warn(DamagedRowsWarning(message), stacklevel=3)
        return None


NEIGHBORS_FILE = "neighbor_votes.npy"

_ROUNDING = 1e-3


def encode_votes(votes: np.ndarray) -> bytes:
    """Return the content of the file of these votes."""
    content = io.BytesIO()
    np.save(content, votes.astype(np.float32), allow_pickle=False)
    return content.getvalue()


def write_neighbor_votes(path: Path, votes: np.ndarray) -> None:
    """Write the votes into a run's directory, unless it has some: those it began with are kept."""
    if not (path / NEIGHBORS_FILE).is_file():
        write_whole(path / NEIGHBORS_FILE, encode_votes(votes))


def read_neighbor_votes(path: Path, description: Mapping[str, Any]) -> np.ndarray | None:
    """Read the votes in a run's directory: float32, holdout samples × classes.

    Returns:
        None if there are none; and with a ``DamagedRowsWarning`` if they cannot be this run's.
    """
    file = path / NEIGHBORS_FILE
    holdout = description.get("holdout")
    size = holdout.get("size") if isinstance(holdout, Mapping) else None
    try:
        content = file.read_bytes() if file.is_file() else None
        if not is_as_written(description, NEIGHBORS_FILE, content):
            wrong: str | None = "it is gone, or not as it was written"
        elif content is None:
            return None
        else:
            # Mapped: a damaged header cannot ask for more memory than there is file.
            found = np.load(file, mmap_mode="r", allow_pickle=False)
            wrong = find_vote_fault(found, (size, description.get("num_classes")))
    except DAMAGED_ARRAYS as error:
        wrong = str(error)
    if wrong is None:
        return np.array(found, dtype=np.float32)
    message = f"Left out the nearest-neighbor votes in {file}: {wrong}. Restore it."
    warnings.warn(DamagedRowsWarning(message), stacklevel=3)
    return None


def find_vote_fault(votes: object, shape: tuple[Any, Any]) -> str | None:
    """Explain what is wrong with votes for a holdout of a shape; None if nothing is."""
    if not isinstance(votes, np.ndarray) or votes.dtype.kind != "f" or votes.shape != shape:
        got = f"{votes.dtype} of shape {votes.shape}" if isinstance(votes, np.ndarray) else votes
        return f"expected shares of shape {shape} (holdout samples, classes), got {got!s:.80}"
    if not (np.isfinite(votes).all() and (votes >= 0).all()):
        return "expected shares from 0 to 1, got others"
    if (np.abs(votes.sum(axis=1, dtype=np.float64) - 1) > _ROUNDING).any():
        return "expected the shares of every sample to sum to 1, got others"
    return None
