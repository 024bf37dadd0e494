"""TensorBoard's event files: scalars for people, and beside them the exact line as a text.

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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import CorruptRunError, TornJournalWarning
from rote.extras import require
from rote.store.held_file import check_in_place, make_folders, sync, sync_folder

if TYPE_CHECKING:
    from tensorboard.compat.proto.event_pb2 import Event

    from rote.store.schema import Line

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


def event_files(directory: Path) -> list[Path]:
    """The event files in a directory, oldest first, as TensorBoard orders them."""
    names = sorted(entry.name for entry in directory.iterdir() if "tfevents" in entry.name)
    return [directory / name for name in names]


def _time_in(name: str) -> int:
    """When a file was begun, by its name, in nanoseconds; of another's file, at the latest."""
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
        latest = max((_time_in(path.name) for path in event_files(directory)), default=0)
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


def line_event(line: Line, note: str = "") -> dict[str, Any]:
    """The fields of an event with a line, every number of it as a scalar, and a note for people."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    numbers = {k: v for k, v in line.items() if isinstance(v, float)}
    scalars = [Summary.Value(tag=name, simple_value=value) for name, value in numbers.items()]
    texts = [_text(JOURNAL_TAG, line), *([_text(NOTE_TAG, note)] if note else [])]
    return {"step": line["step"], "summary": Summary(value=[*scalars, *texts])}


def description_event(description: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of an event with what is run."""
    from tensorboard.compat.proto.summary_pb2 import Summary

    return {"step": 0, "summary": Summary(value=[_text(RUN_TAG, description)])}


def restart_event(step: int) -> dict[str, Any]:
    """The fields of an event that makes TensorBoard drop what came after a step."""
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
    """The scalars and rote's texts of one file; a step alone voids what came from it on.

    A record that is cut off at the end of the file is being written, or a kill cut it off; it is
    skipped with a ``TornJournalWarning``.

    Raises:
        CorruptRunError: if the file is damaged, or is no event file.
    """
    require("tensorboard.compat.proto.event_pb2", extra="tensorboard")
    from tensorboard.compat.proto.event_pb2 import Event, SessionLog

    for record in _records(path):
        try:
            event = Event.FromString(record)
        except Exception as error:
            raise _damage(path, error) from error
        if event.HasField("session_log") and event.session_log.status == SessionLog.START:
            yield event.step
        yield from _values(event)


def _values(event: Event) -> Iterator[Value]:
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
    """Whether it is one number or one of rote's texts; pictures and histograms are not decoded."""
    # Some writers say only once of which plugin a tag is.
    is_scalar = value.metadata.plugin_data.plugin_name == "scalars" or not value.HasField(
        "metadata"
    )
    one = all(dimension.size == 1 for dimension in value.tensor.tensor_shape.dim)
    return one and (value.tag in _TEXTS or is_scalar)


def _records(path: Path) -> Iterator[bytes]:
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    is_ours = path.name.endswith(SUFFIX)
    with path.open("rb") as file:
        while len(header := file.read(_HEADER.size)) == _HEADER.size:
            length, check = _HEADER.unpack(header)
            if masked_crc32c(header[:8]) != check:
                raise _damage(path, "a length that does not fit its checksum")
            body = file.read(length)
            footer = file.read(_FOOTER)
            if len(footer) < _FOOTER:
                header = b"cut"
                break
            # In plain Python a checksum is slow: files of others may hold many pictures.
            if is_ours and masked_crc32c(body) != int.from_bytes(footer, "little"):
                raise _damage(path, "a record that does not fit its checksum")
            yield body
    if header:
        message = f"The last record of {path} is cut off; it is skipped."
        warnings.warn(TornJournalWarning(message), stacklevel=2)


def _damage(path: Path, what: object) -> CorruptRunError:
    return CorruptRunError(
        f"Expected {path} to be a whole event file, got: {what}. Restore it from a copy, or move "
        "it away."
    )


def _text(tag: str, content: object) -> Any:  # noqa: ANN401
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
