"""A run on disk: ``run.json``, ``journal.jsonl``, and row files such as ``predictions.bin``."""

import json
import math
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import (
    CorruptRunError,
    InputError,
    RunExistsError,
    RunLockedError,
    StoreError,
)
from rote.records import Reading, RunRecord
from rote.store.held_file import make_folders, sync_folder
from rote.store.journal import Journal, read_lines
from rote.store.lock import WriterLock
from rote.store.row_file import (
    PREDICTIONS,
    RowFile,
    RowLayout,
    are_classes,
    row_layouts,
    row_path,
)
from rote.store.schema import (
    SCHEMA_VERSION,
    Line,
    check_version,
    line_of_reading,
    line_of_resume,
    lines_that_count,
    reading_of_line,
    rows_of_lines,
)
from rote.store.whole_files import write_whole

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
PREDICTIONS_FILE = "predictions.bin"
LOCK_FILE = "writer.lock"
CLAIM_FILE = "claim.lock"
FAILURE_FILE = "failure.json"
FAILURE_DRAFT = "failure.draft"
DRAFT_FILE = "run.draft"


class RunDirectory:
    """A run that this process writes. Made by ``create`` or ``reopen``.

    Args:
        path: the directory.
        lock: held until ``close``.
    """

    def __init__(self, path: Path, lock: WriterLock) -> None:
        self.path = path
        self._lock = lock
        self._owner = os.getpid()
        layouts = layouts_of_run(path, read_description(path))
        self._journal = Journal(path / JOURNAL_FILE)
        (path / PREDICTIONS_FILE).touch()
        self._rows = {name: RowFile(row_path(path, name), row) for name, row in layouts.items()}
        self._run_file = (path / RUN_FILE).absolute()
        sync_folder(path)

    @property
    def files(self) -> list[Path]:
        """All that it writes, but for its lock."""
        own = [self.path / name for name in (RUN_FILE, JOURNAL_FILE, PREDICTIONS_FILE)]
        return own + [row_path(self.path, name) for name in self._rows]

    @classmethod
    def create(cls, path: Path, description: Mapping[str, Any]) -> "RunDirectory":
        """Start a new run.

        Args:
            path: a directory that does not exist yet, or is empty.
            description: what is run; plain values. ``rows`` names what is recorded per sample
                besides predictions, with ``dtype`` and ``shape`` of a row.

        Raises:
            RunExistsError: if there is something already.
            InputError: if the directory cannot be written, or there cannot be such rows.
            RunLockedError: if another process starts the same run at this moment.
        """
        text = json.dumps({"schema": SCHEMA_VERSION, **description}, indent=2, allow_nan=False)
        row_layouts(description)
        check_free(path)
        try:
            make_folders(path)
            with _locked(path) as lock:
                check_free(path)  # somebody was faster
                write_whole(path / RUN_FILE, (text + "\n").encode())
                return cls(path, lock)
        except RunExistsError:
            raise
        except OSError as error:
            raise InputError(
                f"Expected `save_to` to be a writable directory, got {path}: {error.strerror}."
            ) from error

    @classmethod
    def reopen(cls, path: Path) -> "RunDirectory":
        """Go on writing an earlier run.

        Raises:
            InputError: if there is no run.
            RunLockedError: if somebody is still writing it.
        """
        if not (path / RUN_FILE).is_file():
            raise InputError(
                f"Expected `save_to` to be a run to resume, got {path} without {RUN_FILE}. "
                "Pass resume=False to start a new run there."
            )
        with _locked(path) as lock:
            return cls(path, lock)

    def append(self, reading: Reading, row: int) -> None:
        """Write one reading; ``row`` counts the readings that came before it.

        Raises:
            RunLockedError: in a process that was forked off the one that opened the run.
            InputError: if it has rows per sample that the run does not describe.
            StoreError: if a file of the run was removed or replaced meanwhile.
        """
        if os.getpid() != self._owner:
            raise RunLockedError(
                f"Expected process {self._owner} to write {self.path}, got process {os.getpid()}, "
                "forked off it. Probe in one process only."
            )
        rows = dict(reading.sample_rows)
        for name in rows.keys() - self._rows.keys():
            raise InputError(
                f"Expected rows per sample to be described in {self.path / RUN_FILE}, got {name!r}."
            )
        if reading.predictions is not None and PREDICTIONS in self._rows:
            rows[PREDICTIONS] = reading.predictions
        self._check_place()
        # Rows first: a reading in the journal always has its own.
        for name, values in rows.items():
            self._rows[name].write(row, values)
        self._journal.append(line_of_reading(reading) | {"row": row})

    def resume_after(self, step: int) -> None:
        """Declare the readings after ``step`` void: they will be taken again."""
        self._journal.append(line_of_resume(step))

    def _check_place(self) -> None:
        if not self._run_file.is_file():
            raise StoreError(
                f"Expected {self._run_file} to describe the run that this process writes, got "
                "nothing: it was removed meanwhile. What is in memory is whole; write it to "
                "another directory."
            )
        self._lock.check()

    def close(self) -> None:
        """Let others write this run."""
        self._journal.close()
        for rows in self._rows.values():
            rows.close()
        self._lock.release()


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
    return RunRecord(path, description, readings, tuple(rows_of_lines(counted)))


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


def read_description(path: Path) -> dict[str, Any]:
    """The contents of ``run.json``.

    Raises:
        CorruptRunError: if it is missing or damaged.
    """
    file = path / RUN_FILE
    _check_plain(file, path / JOURNAL_FILE)
    try:
        description = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRunError(
            f"Expected {file} to describe a run, got {error}. Check the path."
        ) from error
    if not isinstance(description, dict):
        raise CorruptRunError(f"Expected {file} to hold an object, got {description!r:.80}.")
    check_version(description.get("schema"), str(file))
    return description


def _check_plain(*files: Path) -> None:
    """Refuse pipes and devices before they are opened: they may never end."""
    for file in files:
        with suppress(OSError):  # of what is not there, opening it tells
            if not stat.S_ISREG(file.stat().st_mode):
                raise CorruptRunError(f"Expected {file} to be a file, got something else.")


def read_predictions(run: RunRecord) -> np.ndarray | None:
    """The predicted classes of the pool, one row per reading, or None if none were recorded."""
    return read_rows_of(run, PREDICTIONS)


def read_rows_of(run: RunRecord, name: str) -> np.ndarray | None:
    """What was recorded per sample, one row per reading.

    Returns:
        Shape (readings, *row), without rows that were never written; None if there are none of
        that name.

    Raises:
        CorruptRunError: if the description of the rows is damaged, or a predicted class is none.
    """
    layout = layouts_of_run(run.path, run.description).get(name)
    file = row_path(run.path, name)
    if layout is None or not file.is_file():
        return None
    rows = range(len(run.readings)) if run.rows is None else run.rows
    count = min(max(rows, default=-1) + 1, file.stat().st_size // layout.size)
    flat = np.fromfile(file, dtype=layout.dtype, count=count * math.prod(layout.shape))
    found = flat.reshape(-1, *layout.shape)[[row for row in rows if row < count]]
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


def check_free(path: Path) -> None:
    """Let only a directory pass that is new, or holds what a run leaves that never began.

    Raises:
        RunExistsError: if there is anything else.
    """
    if path.is_file():
        raise RunExistsError(
            f"Expected `save_to` to be a new directory, got {path}, which is a file. "
            "Choose another."
        )
    leftovers = {LOCK_FILE, CLAIM_FILE, DRAFT_FILE, FAILURE_FILE, FAILURE_DRAFT}
    if path.exists() and not (
        path.is_dir() and all(entry.name in leftovers for entry in path.iterdir())
    ):
        raise RunExistsError(
            f"Expected `save_to` to be a new directory, got {path}, which is in use. "
            "Choose another, or pass resume=True to go on with the run in it."
        )


@contextmanager
def _locked(path: Path) -> Iterator[WriterLock]:
    """A lock for the block to hand on; if the block fails, it is released."""
    lock = WriterLock(path / LOCK_FILE)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
