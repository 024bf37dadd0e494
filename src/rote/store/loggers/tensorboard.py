"""TensorBoard: an event file of rote's own, and all event files of a directory as one run.

A scalar is a 32-bit number; the text under ``JOURNAL_TAG`` holds the line of the journal, so that
what rote wrote is read back bit by bit.
"""

from __future__ import annotations

import json
import os
import re
import socket
import struct
import time
import warnings
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.arguments import place_in
from rote.errors import CorruptRunError, InputError, RunExistsError, TornJournalWarning
from rote.extras import require
from rote.store.files import (
    check_in_place,
    find_absent_folders,
    make_folders,
    remove_folders,
    sync,
    sync_folder,
)
from rote.store.holdout import NEIGHBORS_FILE, write_neighbor_votes
from rote.store.journal import (
    ROW_CHECK,
    SCHEMA_VERSION,
    SYNCED_ROWS,
    Line,
    decode_reading,
    drop_void_lines,
    encode_reading,
    encode_resume,
    is_reserved,
)
from rote.store.logger import Logger
from rote.store.row_file import PREDICTIONS, RowFile, get_row_path, parse_row_layouts
from rote.store.run_record import name_checkpoints
from rote.store.sinks import Opened
from rote.store.table import (
    Checkpoint,
    FoundRun,
    SourceRuns,
    UnreadableRuns,
    make_checkpoint,
    make_frame,
    make_row_checks,
)

if TYPE_CHECKING:
    import numpy as np
    from tensorboard.compat.proto.event_pb2 import Event

    from rote.records import Reading
    from rote.store.journal import Line
    from rote.store.logger import Address


JOURNAL_TAG = "rote/journal"
RUN_TAG = "rote/run"
NOTE_TAG = "rote/note"
SUFFIX = ".rote"
"""Ends the names of the files that rote wrote."""

_TEXTS = (JOURNAL_TAG, RUN_TAG)
_HEADER = struct.Struct("<QI")
_FOOTER = 4
_number = count()
_TIME = re.compile(r"tfevents\.(\d{1,15})(?:\.(\d{9})\.)?")


def list_event_files(directory: Path) -> list[Path]:
    """List the event files in a directory, oldest first, as TensorBoard orders them."""
    names = sorted(entry.name for entry in directory.iterdir() if "tfevents" in entry.name)
    return [directory / name for name in names]


def _parse_time(name: str) -> int:
    """Return when a file was begun, in nanoseconds: from its name, or an upper bound."""
    found = _TIME.search(name)
    if found is None:
        return 0
    rest = int(found[2]) if found[2] else 999_999_999
    return int(found[1]) * 1_000_000_000 + rest


class EventFile:
    """A new event file that is written record by record.

    Args:
        directory: created if absent.
    """

    def __init__(self, directory: Path) -> None:
        writer = require("tensorboard.summary.writer.record_writer", extra="tensorboard")
        make_folders(directory)
        # The order of names is the order of files: a resumed run comes after what it resumes, even
        # if the clock went back meanwhile, or is another machine's.
        latest = max((_parse_time(path.name) for path in list_event_files(directory)), default=0)
        seconds, rest = divmod(max(time.time_ns(), latest + 1), 1_000_000_000)
        name = f"events.out.tfevents.{seconds:010d}.{rest:09d}.{socket.gethostname()}"
        self.path = directory / f"{name}.{os.getpid()}.{next(_number)}{SUFFIX}"
        self._file = self.path.open("xb")
        self._place = self.path.absolute()
        self._records = writer.RecordWriter(self._file)
        self.write(file_version="brain.Event:2")
        sync_folder(directory)

    def write(self, **fields: Any) -> None:  # noqa: ANN401
        """Write one event; it is on the disk when this returns.

        Raises:
            StoreError: if the file was removed or replaced meanwhile.
        """
        from tensorboard.compat.proto.event_pb2 import Event

        check_in_place(self._place, self._file.fileno())
        self._records.write(Event(wall_time=time.time(), **fields).SerializeToString())
        self._file.flush()
        sync(self._file.fileno())

    def close(self) -> None:
        """Give the file back."""
        self._file.close()


def make_line_event(line: Line, note: str = "") -> dict[str, Any]:
    """Return the fields of an event with a line, its numbers as scalars, and a note."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    numbers = {k: v for k, v in line.items() if isinstance(v, float) and "#" not in k}
    scalars = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
    texts = [_make_text(JOURNAL_TAG, line), *([_make_text(NOTE_TAG, note)] if note else [])]
    return {"step": line["step"], "summary": Summary(value=[*scalars, *texts])}


def make_description_event(description: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event with what is run."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return {"step": 0, "summary": Summary(value=[_make_text(RUN_TAG, description)])}


def make_restart_event(step: int) -> dict[str, Any]:
    """Return the fields of an event that makes TensorBoard drop what came after a step."""
    from tensorboard.compat.proto.event_pb2 import SessionLog

    return {"step": step + 1, "session_log": SessionLog(status=SessionLog.START)}


@dataclass(frozen=True)
class Value:
    """One value of an event file.

    Attributes:
        tag: its name.
        step: after how much training.
        content: a number, or a text.
    """

    tag: str
    step: int
    content: float | str


def read_values(path: Path) -> Iterator[Value | int]:
    """Read the scalars and rote's texts of one file; a step alone voids what came from it on.

    A record that is cut off at the end of the file is being written, or a kill cut it off; it is
    skipped with a ``TornJournalWarning``.

    Raises:
        CorruptRunError: if the file is damaged, or is no event file.
    """
    require("tensorboard.compat.proto.event_pb2", extra="tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    for record in _read_records(path):
        try:
            event = Event.FromString(record)
        except Exception as error:
            raise _make_damage_error(path, error) from error
        if event.HasField("session_log") and event.session_log.status == SessionLog.START:
            yield event.step
        yield from _read_event(event)


def _read_event(event: Event) -> Iterator[Value]:
    from tensorboard.util.tensor_util import make_ndarray

    for value in event.summary.value:
        if value.WhichOneof("value") == "simple_value":
            yield Value(value.tag, event.step, value.simple_value)
        elif value.WhichOneof("value") == "tensor" and _is_wanted(value):
            content = make_ndarray(value.tensor).item()
            if value.tag in _TEXTS:
                yield Value(value.tag, event.step, content.decode())
            elif not isinstance(content, bytes | str):
                yield Value(value.tag, event.step, float(content))


def _is_wanted(value: Any) -> bool:  # noqa: ANN401
    """Return whether a value is a number or a text of rote; others are not decoded."""
    # Some writers say only once of which plugin a tag is.
    is_scalar = value.metadata.plugin_data.plugin_name == "scalars" or not value.HasField(
        "metadata"
    )
    one = all(dimension.size == 1 for dimension in value.tensor.tensor_shape.dim)
    return one and (value.tag in _TEXTS or is_scalar)


def _read_records(path: Path) -> Iterator[bytes]:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    is_ours = path.name.endswith(SUFFIX)
    with path.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, check = _HEADER.unpack(header)
            if masked_crc32c(header[:8]) != check:
                raise _make_damage_error(path, "a length that does not fit its checksum")
            body = file.read(length)
            footer = file.read(_FOOTER)
            if len(footer) < _FOOTER:
                header = b"cut"
                break
            # In plain Python a checksum is slow: files of others may hold many pictures.
            if is_ours and masked_crc32c(body) != int.from_bytes(footer, "little"):
                raise _make_damage_error(path, "a record that does not fit its checksum")
            yield body
    if header:
        message = f"The last record of {path} is cut off; it is skipped."
        warnings.warn(TornJournalWarning(message), stacklevel=2)


def _make_damage_error(path: Path, what: object) -> CorruptRunError:
    return CorruptRunError(
        f"Event file {path} is damaged: {what}. Restore it from a copy, or move it away."
    )


def _make_text(tag: str, content: object) -> Any:  # noqa: ANN401
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.compat.proto.tensor_pb2 import TensorProto
    from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
    from tensorboard.compat.proto.types_pb2 import DT_STRING
    from tensorboard.plugins.text.metadata import create_summary_metadata

    text = content if isinstance(content, str) else json.dumps(content, allow_nan=False)
    tensor = TensorProto(
        dtype=DT_STRING, tensor_shape=TensorShapeProto(), string_val=[text.encode()]
    )
    metadata = create_summary_metadata(display_name=tag, description="")
    return Summary.Value(tag=tag, metadata=metadata, tensor=tensor)


class TensorboardSink:
    """Logs readings to an event file in the directory of a run."""

    def __init__(self, directory: Path) -> None:
        # Dropping later steps from view would also drop those of another writer.
        self._is_alone = not directory.exists() or all(map(_is_ours, list_event_files(directory)))
        self._folders = find_absent_folders(directory)
        self._directory = directory
        self._rows: RowFile | None = None
        self._written: list[Path] = []
        self._file = EventFile(directory)

    def describe(self, description: Mapping[str, Any]) -> None:
        """Log what is run."""
        self._file.write(**make_description_event({"schema": SCHEMA_VERSION, **description}))
        self.prepare_rows(description)

    def prepare_rows(self, description: Mapping[str, Any]) -> None:
        """Open the file of predictions beside the events, if the run predicts."""
        layout = parse_row_layouts({**description, "rows": None}).get(PREDICTIONS)
        if layout is not None:
            file = get_row_path(self._directory, PREDICTIONS)
            self._written += [] if file.exists() else [file]
            self._rows = RowFile(file, layout)

    def append(self, reading: Reading, row: int) -> None:
        """Log one reading, and its predictions beside the events."""
        line = encode_reading(reading)
        if self._rows is not None and reading.predictions is not None:
            line |= {f"{ROW_CHECK}{PREDICTIONS}": self._rows.write(row, reading.predictions)}
            self._rows.sync()
            line |= {SYNCED_ROWS: row + 1}
        # Always synced: the end of an event file does not tell a power cut from damage.
        self._file.write(**make_line_event(line, reading.note))

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep nearest-neighbor votes beside the events."""
        write_neighbor_votes(self._directory, votes)
        self._written.append(self._directory / NEIGHBORS_FILE)

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep where the weights are beside the events."""
        name_checkpoints(self._directory, files)

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count, and make TensorBoard drop them."""
        if self._is_alone:
            self._file.write(**make_restart_event(step))
        self._file.write(**make_line_event(encode_resume(step)))

    def close(self) -> None:
        """Give the files back."""
        self._file.close()
        if self._rows is not None:
            self._rows.close()

    def discard(self) -> None:
        """Leave no file, and no folder that was made for it."""
        self.close()
        for file in (self._file.path, *self._written):
            file.unlink(missing_ok=True)
        remove_folders(self._folders)


def open_tensorboard(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in the log directory, or resume the one in it.

    A run with a name has a directory of that name.

    Raises:
        InputError: if no directory is named, the name leads out of it, it cannot be written, or
            has no run to resume.
        RunExistsError: if it has a run of rote's already.
        CorruptRunError: if the run to resume is damaged.
    """
    if not address.place:
        raise InputError("'tensorboard:' names no directory. Write tensorboard:LOGDIR.")
    name = description.get("name")
    directory = place_in(address.path, name.lstrip("/")) if name else address.path
    try:
        _check_use(directory, resume=resume)
        earlier = _read_run(directory) if resume else None
        sink = TensorboardSink(directory)
        if earlier is None:
            _describe(sink, {**description, "name": name or address.path.absolute().name})
        else:
            sink.prepare_rows(earlier.description)
    except RunExistsError:
        raise
    except OSError as error:
        raise InputError(
            f"Cannot write to {directory}: {error}. Choose a writable directory."
        ) from error
    place = f"TensorBoard run {directory}"
    if earlier is None:
        return Opened(sink, place, undo=sink.discard)
    held = tuple(decode_reading(line) for line in earlier.lines or ())
    return Opened(sink, place, earlier.description, held, undo=sink.discard)


def _describe(sink: TensorboardSink, description: Mapping[str, Any]) -> None:
    try:
        sink.describe(description)
    except BaseException:
        sink.discard()
        raise


def _check_use(directory: Path, *, resume: bool) -> None:
    is_used = directory.is_dir() and any(map(_is_ours, list_event_files(directory)))
    if is_used and not resume:
        raise RunExistsError(f"{directory} is in use.", str(directory), "Choose another name.")
    if resume and not is_used:
        raise InputError(
            f"No run to resume in {directory}: it has no event file of rote. Pass resume=False to "
            "start a new run there."
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
    files = list_event_files(directory)
    for path in files:
        for value in read_values(path):
            if isinstance(value, int):
                if not _is_ours(path):
                    scalars = defaultdict(dict, {s: v for s, v in scalars.items() if s < value})
            elif isinstance(value.content, str):
                found = _decode(value.content, path)
                if value.tag == RUN_TAG:
                    description = found
                elif value.tag == JOURNAL_TAG:
                    journal.append(found)
            elif not _is_ours(path):
                scalars[value.step][value.tag] = value.content
    if not any(map(_is_ours, files)):
        return _EventRun({}, None, scalars)
    lines = drop_void_lines(journal, str(directory), is_retold=True)
    return _EventRun(description, [_merge_scalars(line, scalars) for line in lines], scalars)


def _merge_scalars(line: Line, scalars: Mapping[int, Mapping[str, float]]) -> Line:
    others = scalars.get(line["step"], {})
    return {name: value for name, value in others.items() if not is_reserved(name)} | dict(line)


def _decode(text: str, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptRunError(
            f"Event file {path} holds a line that rote did not write: {error}."
        ) from error
    if not isinstance(found, dict):
        raise CorruptRunError(
            f"Event file {path} holds a line that rote did not write: {text[:80]!r}."
        )
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
        what = "No event files in" if root.is_dir() else "Directory not found:"
        raise InputError(f"{what} {address.place!r} (tensorboard:LOGDIR). Check the path.")
    read: dict[Path, _EventRun] = {}
    unreadable = UnreadableRuns()
    for directory in directories:
        with unreadable.catch(directory):
            read[directory] = _read_checked(directory)
    found = [
        FoundRun(_name_run(directory, root, run), directory, run.description, directory)
        for directory, run in read.items()
    ]
    lines = [_list_checkpoints(run) for run in read.values()]
    source = SourceRuns(found, make_frame(lines), row_checks=make_row_checks(lines))
    return unreadable.leave_out(source)


def _read_checked(directory: Path) -> _EventRun:
    try:
        return _read_run(directory)
    except OSError as error:
        raise CorruptRunError(f"Cannot read {directory}: {error}.") from error


def _walk(root: Path) -> Iterator[Path]:
    for directory, _, files in os.walk(root):
        if any("tfevents" in name for name in files):
            yield Path(directory)


def _name_run(directory: Path, root: Path, run: _EventRun) -> str:
    """Return the name as rote wrote it, or as TensorBoard shows it."""
    shown = directory.relative_to(root).as_posix()
    return str(run.description.get("name") or (root.absolute().name if shown == "." else shown))


def _list_checkpoints(run: _EventRun) -> list[Checkpoint]:
    if run.lines is not None:
        return list(run.lines)
    return [make_checkpoint(step, run.scalars[step]) for step in sorted(run.scalars)]


LOGGER = Logger(open=open_tensorboard, read=read_tensorboard, traces=0)
