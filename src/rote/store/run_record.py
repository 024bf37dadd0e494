"""A run as it is read: its description, every reading that counts, and what belongs to each."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.records import RunRecord
from rote.store.checksums import is_as_written
from rote.store.journal import read_lines
from rote.store.plain_file import read_plain
from rote.store.row_file import (
    PREDICTIONS,
    RowLayout,
    are_classes,
    first_damaged,
    map_rows,
    row_layouts,
    row_path,
)
from rote.store.schema import (
    GIVEN_LABELS,
    Line,
    check_version,
    lines_that_count,
    reading_of_line,
    row_checks_of_lines,
    rows_of_lines,
)
from rote.store.whole_files import write_whole

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
PREDICTIONS_FILE = "predictions.bin"
CHECKPOINT_FOLDER = "checkpoints"
CHECKPOINTS_FILE = "checkpoints.json"
"""From steps to files, of a run whose weights lie elsewhere."""

_SAVED_AS = ("safetensors", "pt", "pth", "ckpt")


def read_run(path: Path | str) -> RunRecord:
    """Read a run, finished or not; it may be being written.

    Args:
        path: its directory.

    Returns:
        The description and every reading that counts; predictions are read by
        ``read_predictions``.

    Raises:
        CorruptRunError: if a file is damaged, or there is no run.
    """
    path = Path(path)
    description = read_description(path)
    layouts_of_run(path, description)
    journal = path / JOURNAL_FILE
    counted = read_counted(journal)
    readings = tuple(reading_of_line(line) for line in counted)
    rows, checks = tuple(rows_of_lines(counted)), row_checks_of_lines(counted)
    return RunRecord(path, description, readings, rows, checks)


def read_counted(journal: Path) -> list[Line]:
    """The lines of a journal whose readings count; of one that does not exist, none.

    Raises:
        CorruptRunError: if it is damaged, or cannot be read.
    """
    try:
        lines = read_lines(journal)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CorruptRunError(f"Expected {journal} to be a journal, got: {error}.") from error
    return lines_that_count(lines, str(journal))


def read_description(path: Path | str) -> dict[str, Any]:
    """The contents of ``run.json``.

    Raises:
        CorruptRunError: if it is missing or damaged.
    """
    file = f"{path}/{RUN_FILE}"
    try:
        description = json.loads(read_plain(file))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRunError(
            f"Expected {file} to describe a run, got {error}. Check the path."
        ) from error
    if not isinstance(description, dict):
        raise CorruptRunError(f"Expected {file} to hold an object, got {description!r:.80}.")
    check_version(description.get("schema"), file)
    labels = description.get(GIVEN_LABELS)
    if not is_as_written(description, GIVEN_LABELS, str(labels).encode(errors="replace")):
        raise CorruptRunError(
            f"Expected `{GIVEN_LABELS}` in {file} to be as they were written, got others. Restore "
            "the file from a copy."
        )
    return description


def read_predictions(run: RunRecord) -> np.ndarray | None:
    """The predicted classes of the holdout, one row per reading, or None if none were recorded."""
    return read_rows_of(run, PREDICTIONS)


def read_rows_of(run: RunRecord, name: str) -> np.ndarray | None:
    """What was recorded per sample, one row per reading.

    Returns:
        Shape (readings, *row), without rows that were never written; None if there are none of
        that name.

    Raises:
        CorruptRunError: if the description of the rows is damaged, a row is not as it was written,
            or a predicted class is none.
    """
    layout = layouts_of_run(run.path, run.description).get(name)
    file = row_path(run.path, name)
    if layout is None:
        return None
    rows = range(len(run.readings)) if run.rows is None else run.rows
    mapped = map_rows(file, layout)
    damaged = first_damaged(mapped, rows, run.row_checks.get(name, ()))
    if damaged is not None:
        raise CorruptRunError(
            f"Expected row {damaged} of {file} to be as it was written, got another or none. "
            "Restore the file from a copy, or start a new run."
        )
    if mapped is None:
        return np.empty((0, *layout.shape), layout.dtype) if file.is_file() else None
    found = np.asarray(mapped[[row for row in rows if row < len(mapped)]])
    if name == PREDICTIONS and not are_classes(found, run.description):
        raise CorruptRunError(
            f"Expected {file} to hold classes below {run.description['num_classes']}, got "
            f"{found.max()}. Restore it from a copy."
        )
    return found


def layouts_of_run(path: Path, description: Mapping[str, Any]) -> dict[str, RowLayout]:
    """The row files of a run that is on disk.

    Raises:
        CorruptRunError: if their description is damaged.
    """
    try:
        return row_layouts(description)
    except InputError as error:
        raise CorruptRunError(f"Expected {path / RUN_FILE} to be whole, got: {error}") from error


def checkpoint_path(run: Path | str, step: int) -> Path:
    """Where a run of a spec keeps the weights after an epoch."""
    return Path(run) / CHECKPOINT_FOLDER / f"step-{step:05d}.safetensors"


def name_checkpoints(run: Path, files: Mapping[int, Path]) -> None:
    """Write down where the weights of a run lie, by step, for ``find_checkpoint``.

    Raises:
        OSError: if it cannot be written.
    """
    steps = {str(step): str(file.resolve()) for step, file in files.items()}
    write_whole(run / CHECKPOINTS_FILE, (json.dumps(steps, indent=2) + "\n").encode())


def find_checkpoint(run: Path, step: int) -> Path | None:
    """The weights after a step of a run: a file, or a trainer's folder; None if there are none.

    Of a loop of somebody's own, what is saved as ``step-7.pt`` in the run's folder is found, too.
    """
    names = [f"{stem}.{end}" for end in _SAVED_AS for stem in (f"step-{step:05d}", f"step-{step}")]
    places = [folder / name for folder in (run / CHECKPOINT_FOLDER, run) for name in names]
    saved = next((place for place in places if place.is_file()), None)
    if saved is not None:
        return saved
    try:
        named = json.loads((run / CHECKPOINTS_FILE).read_bytes())
        found = run / named[str(step)]
        return found if found.exists() else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # none, or damaged
        return None
