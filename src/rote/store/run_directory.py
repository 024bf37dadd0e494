"""Writing of a run: ``run.json``, the journal, and row files such as ``predictions.bin``."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import CorruptRunError, InputError, RunExistsError, RunLockedError, StoreError
from rote.records import Reading
from rote.store.files import SyncClock, WriterLock, make_folders, sync_folder, write_whole
from rote.store.holdout import write_neighbor_votes
from rote.store.journal import (
    ROW_CHECK,
    SCHEMA_VERSION,
    SYNCED_ROWS,
    Journal,
    encode_reading,
    encode_resume,
)
from rote.store.row_file import PREDICTIONS, RowFile, get_row_path, parse_row_layouts
from rote.store.run_record import (
    JOURNAL_FILE,
    PREDICTIONS_FILE,
    RUN_FILE,
    name_checkpoints,
    read_description,
    read_row_layouts,
)

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
        self._layouts = layouts = read_row_layouts(path, read_description(path))
        self._journal = Journal(path / JOURNAL_FILE)
        (path / PREDICTIONS_FILE).touch()
        self._rows = {name: RowFile(get_row_path(path, name), row) for name, row in layouts.items()}
        self._clock = SyncClock()
        self._written_rows = self._synced_rows = 0
        self._is_synced = True
        self._run_file = (path / RUN_FILE).absolute()
        self._run_file_seen = self._stat_run_file()
        sync_folder(path)

    @property
    def files(self) -> list[Path]:
        """All files that it writes, except its lock."""
        own = [self.path / name for name in (RUN_FILE, JOURNAL_FILE, PREDICTIONS_FILE)]
        return own + [get_row_path(self.path, name) for name in self._rows]

    @classmethod
    def create(cls, path: Path, description: Mapping[str, Any]) -> "RunDirectory":
        """Start a new run.

        Args:
            path: a directory that does not exist yet, or is empty.
            description: what is run; plain values. ``rows`` names what is recorded per sample
                besides predictions, with ``dtype`` and ``shape`` of a row.

        Raises:
            RunExistsError: if there is something already.
            InputError: if the directory cannot be written, or such rows are impossible.
            RunLockedError: if another process starts the same run at this moment.
        """
        text = json.dumps({"schema": SCHEMA_VERSION, **description}, indent=2, allow_nan=False)
        parse_row_layouts(description)
        check_free(path)
        try:
            make_folders(path)
            with _lock_run(path) as lock:
                check_free(path)  # another process was faster
                write_whole(path / RUN_FILE, (text + "\n").encode())
                return cls(path, lock)
        except RunExistsError:
            raise
        except OSError as error:
            raise InputError(
                f"Cannot write to {path}: {error.strerror}. Choose a writable directory."
            ) from error

    @classmethod
    def reopen(cls, path: Path) -> "RunDirectory":
        """Resume writing an earlier run.

        Raises:
            InputError: if there is no run to resume.
            RunLockedError: if a process is still writing it.
        """
        if not (path / RUN_FILE).is_file():
            raise InputError(
                f"No run to resume in {path}: it has no {RUN_FILE}. Pass resume=False to start a "
                "new run there."
            )
        with _lock_run(path) as lock:
            return cls(path, lock)

    def append(self, reading: Reading, row: int) -> None:
        """Write one reading; ``row`` counts the readings that came before it.

        Readings that come within a second of the last sync are written, so that they survive a
        kill, but are synced with a later one: a power cut may take them.

        Raises:
            RunLockedError: in a process that was forked off the one that opened the run.
            InputError: if it has rows per sample that the run does not describe.
            StoreError: if a file of the run was removed or replaced meanwhile.
        """
        if os.getpid() != self._owner:
            raise RunLockedError(
                f"Process {self._owner} writes {self.path}, and this is process {os.getpid()}, "
                "forked off it. Probe in one process only."
            )
        rows = dict(reading.sample_rows)
        for name in rows.keys() - self._rows.keys():
            raise InputError(f"{self.path / RUN_FILE} does not describe the rows {name!r}.")
        if reading.predictions is not None and PREDICTIONS in self._rows:
            rows[PREDICTIONS] = reading.predictions
        self._check_place()
        # Rows first: a reading in the journal always has its own.
        checks = {
            f"{ROW_CHECK}{name}": self._rows[name].write(row, values)
            for name, values in rows.items()
        }
        self._written_rows = row + 1
        self._synced_rows = min(self._synced_rows, row)  # later rows are overwritten
        self._is_synced = self._clock.is_due()
        if self._is_synced:
            self._sync_rows()
        line = encode_reading(reading) | {"row": row, SYNCED_ROWS: self._synced_rows} | checks
        self._journal.append(line, synced=self._is_synced)

    def resume_after(self, step: int) -> None:
        """Declare the readings after ``step`` void: they will be taken again."""
        self._sync_rows()
        self._journal.append(encode_resume(step))

    def sync(self) -> None:
        """Wait until everything that was written is on the disk."""
        if not self._is_synced:
            self._sync_rows()
            self._journal.sync()
            self._is_synced = True

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep the nearest-neighbor votes on the holdout, unless some are there."""
        write_neighbor_votes(self.path, votes)

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep where the weights of the run are, by step."""
        name_checkpoints(self.path, files)

    def _sync_rows(self) -> None:
        for rows in self._rows.values():
            rows.sync()
        self._synced_rows = self._written_rows

    def _check_place(self) -> None:
        now = self._stat_run_file() if self._run_file.is_file() else None
        if now != self._run_file_seen:
            wrong = "was removed" if now is None else self._explain_change()
            if wrong:
                raise StoreError(
                    f"{self._run_file} {wrong} while this process writes the run. The run in "
                    "memory is complete: write it to another directory."
                )
            self._run_file_seen = now
        self._lock.check()

    def _stat_run_file(self) -> tuple[int, ...] | None:
        found = self._run_file.stat()
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _explain_change(self) -> str | None:
        """Explain why readers cannot use the ``run.json`` that is there now; None if they can."""
        try:
            layouts = read_row_layouts(self.path, read_description(self._run_file.parent))
        except CorruptRunError:
            return "became unreadable"
        return None if layouts == self._layouts else "got other rows"

    def close(self) -> None:
        """Close the files and release the run."""
        try:
            if os.getpid() == self._owner:
                self.sync()
        finally:
            self._journal.close()
            for rows in self._rows.values():
                rows.close()
            self._lock.release()


def check_free(path: Path) -> None:
    """Check that a directory is new, or holds only files of a run that never began.

    Raises:
        RunExistsError: if there is anything else.
    """
    if path.is_file():
        raise RunExistsError(f"{path} is a file.", remedy="Choose a new directory.")
    leftovers = {LOCK_FILE, CLAIM_FILE, DRAFT_FILE, FAILURE_FILE, FAILURE_DRAFT}
    leftovers |= {f"{name}.owner" for name in (LOCK_FILE, CLAIM_FILE)}
    if path.exists() and not (
        path.is_dir() and all(entry.name in leftovers for entry in path.iterdir())
    ):
        raise RunExistsError(f"{path} is in use.", str(path), "Choose a new directory.")


@contextmanager
def _lock_run(path: Path) -> Iterator[WriterLock]:
    """Take a lock for the block to hand on; if the block fails, it is released."""
    lock = WriterLock(path / LOCK_FILE)
    try:
        yield lock
    except BaseException:
        lock.release()
        raise
