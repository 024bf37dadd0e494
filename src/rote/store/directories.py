"""Run directories as what a tracker writes to, and as what is read: rote's own store."""

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError, InputError
from rote.records import Reading
from rote.store.found_runs import FoundRun, SourceRuns, unique_names
from rote.store.journal_frame import read_journals
from rote.store.row_file import PREDICTIONS, row_layouts
from rote.store.run_directory import (
    JOURNAL_FILE,
    LOCK_FILE,
    RUN_FILE,
    RunDirectory,
    read_description,
    read_rows_of,
    read_run,
)
from rote.store.sinks import Opened


def open_directory(path: Path, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a new directory, or go on with the one in it.

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
    for file in run.files:
        file.unlink(missing_ok=True)
    if run.path in folders:
        (run.path / LOCK_FILE).unlink()
    run.close()
    remove_folders(folders)


def _held(path: Path) -> tuple[Reading, ...]:
    record = read_run(path)
    found = {name: read_rows_of(record, name) for name in row_layouts(record.description)}
    rows = {name: values for name, values in found.items() if values is not None}
    for name, values in rows.items():
        if len(values) != len(record.readings):
            raise CorruptRunError(
                f"Expected {path} to hold {name} for {len(record.readings)} readings, got "
                f"{len(values)}. Restore its files from a copy, or start a new run."
            )
    predictions = rows.pop(PREDICTIONS, [None] * len(record.readings))
    return tuple(
        replace(
            reading,
            predictions=predictions[at],
            sample_rows={name: values[at] for name, values in rows.items()},
        )
        for at, reading in enumerate(record.readings)
    )


def read_directories(roots: Iterable[Path]) -> SourceRuns:
    """Read run directories, and those anywhere below a directory; ordered by name.

    Raises:
        InputError: if there is no run.
        CorruptRunError: if a file is damaged.
    """
    found = {path: read_description(path) for path in _find_runs(roots)}
    named = {path: str(entry.get("name", path.name)) for path, entry in found.items()}
    order = sorted(found, key=unique_names(named).__getitem__)
    return SourceRuns(
        [FoundRun(named[path], path, found[path], path) for path in order],
        read_journals([path / JOURNAL_FILE for path in order]),
    )


def _find_runs(roots: Iterable[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for root in roots:
        real = os.path.realpath(root)
        runs = {real + path[len(str(root)) :]: Path(path) for path in _walk(root)}
        if root.is_file():
            is_table = root.suffix.lower() in (".csv", ".tsv")
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which is a file."
                + (f" Write csv:{root} to read it as a table." if is_table else "")
            )
        if not runs:
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which has no {RUN_FILE} "
                "in or below it. Check the path."
            )
        found = runs | found
    return list(found.values())


def _walk(root: Path) -> Iterator[str]:
    for directory, below, files in os.walk(root):
        if RUN_FILE in files:
            below.clear()  # a run has no runs inside it, but may have many checkpoints
            yield directory
