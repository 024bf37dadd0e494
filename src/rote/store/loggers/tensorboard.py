"""TensorBoard: an event file of rote's own, and all event files of a directory as one run."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.arguments import place_in
from rote.errors import CorruptRunError, InputError, RunExistsError
from rote.store.directories import absent_folders, remove_folders
from rote.store.found_runs import (
    Checkpoint,
    FoundRun,
    SourceRuns,
    UnreadableRuns,
    checkpoint,
    frame_of,
)
from rote.store.logger import Logger
from rote.store.loggers.event_file import (
    JOURNAL_TAG,
    RUN_TAG,
    SUFFIX,
    EventFile,
    description_event,
    event_files,
    line_event,
    read_values,
    restart_event,
)
from rote.store.schema import (
    SCHEMA_VERSION,
    Line,
    is_reserved,
    line_of_reading,
    line_of_resume,
    lines_that_count,
    reading_of_line,
)
from rote.store.sinks import Opened

if TYPE_CHECKING:
    from rote.records import Reading
    from rote.store.logger import Address


class TensorboardSink:
    """Logs readings to an event file in the directory of a run."""

    def __init__(self, directory: Path) -> None:
        # Dropping later steps from view would also drop those of another writer.
        self._is_alone = not directory.exists() or all(map(_is_ours, event_files(directory)))
        self._folders = absent_folders(directory)
        self._file = EventFile(directory)

    def describe(self, description: Mapping[str, Any]) -> None:
        """Log what is run."""
        self._file.write(**description_event({"schema": SCHEMA_VERSION, **description}))

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Log one reading."""
        self._file.write(**line_event(line_of_reading(reading), reading.note))

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count, and make TensorBoard drop them."""
        if self._is_alone:
            self._file.write(**restart_event(step))
        self._file.write(**line_event(line_of_resume(step)))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def discard(self) -> None:
        """Leave no file, and no folder that was made for it."""
        self._file.close()
        self._file.path.unlink(missing_ok=True)
        remove_folders(self._folders)


def open_tensorboard(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in the log directory, or go on with the one in it.

    A run with a name has a directory of that name.

    Raises:
        InputError: if no directory is named, the name leads out of it, it cannot be written, or
            has no run to go on with.
        RunExistsError: if it has a run of rote's already.
        CorruptRunError: if the run to go on with is damaged.
    """
    if not address.place:
        raise InputError("Expected `save_to` to be tensorboard:LOGDIR, got no directory.")
    name = description.get("name")
    directory = place_in(address.path, name.lstrip("/")) if name else address.path
    try:
        _check_use(directory, resume=resume)
        earlier = _read_run(directory) if resume else None
        sink = TensorboardSink(directory)
        if earlier is None:
            _describe(sink, {**description, "name": name or address.path.absolute().name})
    except RunExistsError:
        raise
    except OSError as error:
        raise InputError(
            f"Expected `save_to` to be a writable directory, got {directory}: {error}."
        ) from error
    place = f"TensorBoard run {directory}"
    if earlier is None:
        return Opened(sink, place, undo=sink.discard)
    held = tuple(reading_of_line(line) for line in earlier.lines or ())
    return Opened(sink, place, earlier.description, held, undo=sink.discard)


def _describe(sink: TensorboardSink, description: Mapping[str, Any]) -> None:
    try:
        sink.describe(description)
    except BaseException:
        sink.discard()
        raise


def _check_use(directory: Path, *, resume: bool) -> None:
    is_used = directory.is_dir() and any(map(_is_ours, event_files(directory)))
    if is_used and not resume:
        raise RunExistsError(f"{directory} is in use. Choose another name.", str(directory))
    if resume and not is_used:
        raise InputError(
            f"Expected `save_to` to be a run to resume, got {directory} without an event file of "
            "rote's. Pass resume=False to start a new run there."
        )


def _is_ours(path: Path) -> bool:
    return path.name.endswith(SUFFIX)


@dataclass(frozen=True)
class _EventRun:
    """What a directory of event files says.

    Attributes:
        description: what was run; empty if rote did not write it.
        lines: the readings that count; None if rote did not write it.
        scalars: by step, then name: the last value of each that others wrote.
    """

    description: Mapping[str, Any]
    lines: list[Line] | None
    scalars: Mapping[int, Mapping[str, float]]


def _read_run(directory: Path) -> _EventRun:
    """Read all event files of a directory.

    Raises:
        CorruptRunError: if one is damaged.
        OSError: if one cannot be read.
    """
    description: dict[str, Any] = {}
    journal: list[Line] = []
    scalars: dict[int, dict[str, float]] = defaultdict(dict)
    files = event_files(directory)
    for path in files:
        for value in read_values(path):
            if isinstance(value, int):
                if not _is_ours(path):
                    scalars = defaultdict(dict, {s: v for s, v in scalars.items() if s < value})
            elif isinstance(value.content, str):
                found = _decoded(value.content, path)
                if value.tag == RUN_TAG:
                    description = found
                elif value.tag == JOURNAL_TAG:
                    journal.append(found)
            elif not _is_ours(path):
                scalars[value.step][value.tag] = value.content
    if not any(map(_is_ours, files)):
        return _EventRun({}, None, scalars)
    lines = lines_that_count(journal, str(directory), is_retold=True)
    return _EventRun(description, [_beside(line, scalars) for line in lines], scalars)


def _beside(line: Line, scalars: Mapping[int, Mapping[str, float]]) -> Line:
    others = scalars.get(line["step"], {})
    return {name: value for name, value in others.items() if not is_reserved(name)} | dict(line)


def _decoded(text: str, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptRunError(f"Expected {path} to hold lines of rote, got: {error}.") from error
    if not isinstance(found, dict):
        raise CorruptRunError(f"Expected {path} to hold lines of rote, got {text[:80]!r}.")
    return found


def read_tensorboard(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read every directory with event files, in or below the log directory, as one run.

    In a run that rote wrote, the readings count as in rote's own store. In any other, there is a
    checkpoint for every step at which some scalar was logged. A run that cannot be read is left out
    with an ``UnreadableRunWarning``, unless there is no other.

    Raises:
        InputError: if there is no such directory, or no event file.
        CorruptRunError: if a file is damaged.
        MissingExtraError: if TensorBoard is not installed.
    """
    root = address.path
    directories = sorted(_walk(root))
    if not address.place or not directories:
        raise InputError(
            f"Expected `runs` to be tensorboard:LOGDIR with event files, got {address.place!r}, "
            f"{'which has none' if root.is_dir() else 'which is no directory'}. Check the path."
        )
    read: dict[Path, _EventRun] = {}
    unreadable = UnreadableRuns()
    for directory in directories:
        with unreadable.caught(directory):
            read[directory] = _readable(directory)
    found = [
        FoundRun(_name(directory, root, run), directory, run.description, directory)
        for directory, run in read.items()
    ]
    return unreadable.left_out_of(SourceRuns(found, frame_of(map(_checkpoints, read.values()))))


def _readable(directory: Path) -> _EventRun:
    try:
        return _read_run(directory)
    except OSError as error:
        raise CorruptRunError(f"Expected {directory} to be readable, got: {error}.") from error


def _walk(root: Path) -> Iterator[Path]:
    for directory, _, files in os.walk(root):
        if any("tfevents" in name for name in files):
            yield Path(directory)


def _name(directory: Path, root: Path, run: _EventRun) -> str:
    """As rote wrote it, or as TensorBoard shows it."""
    shown = directory.relative_to(root).as_posix()
    return str(run.description.get("name") or (root.absolute().name if shown == "." else shown))


def _checkpoints(run: _EventRun) -> list[Checkpoint]:
    if run.lines is not None:
        return list(run.lines)
    return [checkpoint(step, run.scalars[step]) for step in sorted(run.scalars)]


LOGGER = Logger(open=open_tensorboard, read=read_tensorboard, traces=0)
