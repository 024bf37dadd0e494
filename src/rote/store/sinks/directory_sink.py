"""A run directory as a sink."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError
from rote.records import Reading
from rote.store.run_directory import (
    JOURNAL_FILE,
    LOCK_FILE,
    PREDICTIONS_FILE,
    RUN_FILE,
    RunDirectory,
    read_description,
    read_predictions,
    read_run,
)
from rote.store.sinks.sink import Opened


def open_directory(path: Path, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a new directory, or go on with the one in it.

    Args:
        path: the directory.
        description: what is run.
        resume: go on.

    Raises:
        InputError: if the directory cannot be written, or has no run to go on with.
        RunExistsError: if it is in use.
        RunLockedError: if another process is writing it.
        CorruptRunError: if the run to go on with is damaged.
    """
    if not resume:
        named = {**description, "name": description.get("name") or path.name}
        folders = absent_folders(path)
        created = RunDirectory.create(path, named)
        return Opened(created, str(path), undo=lambda: _remove(created, folders))
    run = RunDirectory.reopen(path)
    try:
        return Opened(run, str(path), read_description(path), _held(path))
    except BaseException:
        run.close()
        raise


def absent_folders(path: Path) -> list[Path]:
    """The folders that making a directory would make, innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove empty folders; the first that somebody else uses by now, and all above it, stay."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()


def _remove(run: RunDirectory, folders: list[Path]) -> None:
    for name in (RUN_FILE, JOURNAL_FILE, PREDICTIONS_FILE):
        (run.path / name).unlink(missing_ok=True)
    if run.path in folders:
        (run.path / LOCK_FILE).unlink()
    run.close()
    remove_folders(folders)


def _held(path: Path) -> tuple[Reading, ...]:
    record = read_run(path)
    predictions = read_predictions(record)
    if predictions is None:
        return record.readings
    if len(predictions) != len(record.readings):
        raise CorruptRunError(
            f"Expected {path} to hold predictions for {len(record.readings)} readings, got "
            f"{len(predictions)}. Restore its files from a copy, or start a new run."
        )
    rows = zip(record.readings, predictions, strict=True)
    return tuple(replace(reading, predictions=row) for reading, row in rows)
