"""Run directories as what a tracker writes to, and as what is read: rote's own store."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, InputError
from rote.records import Reading, RunRecord
from rote.store.found_runs import FoundRun, SourceRuns, UnreadableRuns, unique_names
from rote.store.journal_frame import read_journals
from rote.store.row_file import PREDICTIONS, row_layouts
from rote.store.run_directory import LOCK_FILE, RunDirectory
from rote.store.run_record import (
    JOURNAL_FILE,
    RUN_FILE,
    layouts_of_run,
    read_description,
    read_rows_of,
    read_run,
    without_garbage_collection,
)
from rote.store.schema import ROW_CHECK, SYNCED_ROWS
from rote.store.sinks import Opened

if TYPE_CHECKING:
    import polars as pl


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
        return Opened(run, str(path), read_description(path), read_whole_readings(path))
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


def read_whole_readings(path: Path) -> tuple[Reading, ...]:
    """Read the readings of a run from the first on, with all that was recorded per sample.

    Raises:
        CorruptRunError: if a file is damaged, or there is no run.
    """
    record = _up_to_a_gap(read_run(path))
    found = {name: read_rows_of(record, name) for name in row_layouts(record.description)}
    rows = {name: values for name, values in found.items() if values is not None}
    whole = min(map(len, rows.values()), default=len(record.readings))
    if whole < min(len(record.readings), record.synced_rows):
        raise CorruptRunError(
            f"{path} holds {whole} rows for {len(record.readings)} readings. Restore its files "
            "from a copy, or start a new run."
        )
    record = replace(record, readings=record.readings[:whole])
    predictions = rows.pop(PREDICTIONS, [None] * len(record.readings))
    return tuple(
        replace(
            reading,
            predictions=predictions[at],
            sample_rows={name: values[at] for name, values in rows.items()},
        )
        for at, reading in enumerate(record.readings)
    )


def _up_to_a_gap(record: RunRecord) -> RunRecord:
    """The readings before the first that is lost: what follows from it must be taken again."""
    whole = next((at for at, row in enumerate(record.rows) if row != at), len(record.rows))
    return replace(record, readings=record.readings[:whole], rows=record.rows[:whole])


@without_garbage_collection()
def read_directories(roots: Iterable[Path]) -> SourceRuns:
    """Read run directories, and those anywhere below a directory; ordered by name.

    A run that cannot be read is left out with an ``UnreadableRunWarning``, unless there is no
    other.

    Raises:
        InputError: if there is no run.
        CorruptRunError: if a file is damaged.
    """
    unreadable = UnreadableRuns()
    paths = _find_runs(roots, unreadable)
    found = _described(paths, unreadable)
    frame, damaged = read_journals([f"{path}/{JOURNAL_FILE}" for path in paths])
    unreadable.errors |= {paths[run]: error for run, error in damaged.items() if run in found}
    named = {paths[run]: _name(paths[run], entry) for run, entry in found.items()}
    unique = unique_names(named)
    order = sorted(found, key=lambda run: unique[paths[run]])
    runs = [FoundRun(named[paths[run]], paths[run], found[run], paths[run]) for run in order]
    frame = _ordered(frame, len(paths), order)
    checks = [name for name in frame.columns if name.startswith(ROW_CHECK)]
    source = SourceRuns(
        runs,
        frame.drop(SYNCED_ROWS, *checks),
        row_checks=frame.select("run", "row", SYNCED_ROWS, *checks) if checks else None,
    )
    return unreadable.left_out_of(source)


def _described(paths: Iterable[Path], unreadable: UnreadableRuns) -> dict[int, dict[str, Any]]:
    """What was run, by the position of its path."""
    found = {}
    for run, path in enumerate(paths):
        try:
            description = read_description(path)
            layouts_of_run(path, description)
        except CorruptRunError as error:
            unreadable.add(path, error)
        else:
            found[run] = description
    return found


def _ordered(frame: pl.DataFrame, count: int, order: list[int]) -> pl.DataFrame:
    """The readings of ``count`` runs as those of runs ``order``, some of them."""
    import polars as pl

    if order == list(range(count)):
        return frame
    places = np.full(count, -1)
    places[order] = np.arange(len(order))
    at = places[frame["run"].to_numpy()]
    moved = frame.with_columns(pl.Series("run", at, dtype=pl.Int64)).filter(pl.col("run") >= 0)
    return moved.sort("run", maintain_order=True)


def _name(path: Path, description: Mapping[str, Any]) -> str:
    """For tables, which take only what can be encoded."""
    return str(description.get("name", path.name)).encode(errors="replace").decode()


def _find_runs(roots: Iterable[Path], unreadable: UnreadableRuns) -> list[Path]:
    found: dict[str, Path] = {}
    for root in roots:
        real, before = os.path.realpath(root), len(unreadable.errors)
        walked = {path: Path(path) for path in _walk(root, unreadable)}
        runs = {real + path[len(str(root)) :]: place for path, place in walked.items()}
        if root.is_file():
            is_table = root.suffix.lower() in (".csv", ".tsv")
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which is a file."
                + (f" Write csv:{root} to read it as a table." if is_table else "")
            )
        if not runs and len(unreadable.errors) == before:
            if not root.exists():
                raise InputError(
                    f"Expected `runs` to be an existing directory, got {root}, which does not "
                    "exist. Check the path."
                )
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which has no {RUN_FILE} "
                "in or below it. Check the path."
            )
        found = runs | found
    return [found[real] for real in sorted(found)]


def directories_below(roots: Iterable[Path]) -> list[Path]:
    """The run directories that are there now, each once; perhaps none."""
    found = (path for root in roots for path in _walk(root, UnreadableRuns()))
    return [Path(path) for path in dict.fromkeys(found)]


def _walk(root: Path, unreadable: UnreadableRuns) -> Iterator[str]:
    waiting = [str(root)]
    while waiting:
        directory = waiting.pop()
        if _is_run(directory):
            yield directory  # a run has no runs inside it, but may have many checkpoints
            continue
        try:
            with os.scandir(directory) as found:
                waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            why = CorruptRunError(f"Expected to look into {directory}, got: {error}.")
            unreadable.add(Path(directory), why)


def _is_run(directory: str) -> bool:
    for name in (RUN_FILE, JOURNAL_FILE):
        with suppress(OSError):
            if not stat.S_ISDIR(os.lstat(f"{directory}/{name}").st_mode):
                return True
    return False
