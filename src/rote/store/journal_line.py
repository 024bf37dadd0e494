"""A line of a journal as bytes: JSON, then its number, its shape, and two checksums.

``…,"row":4,"#":"00000005.2bd1a3c4.9f3a21bc.51d0c3aa"}`` is the fifth line. The shape tells that all
lines up to there differ in their numbers only, which lets them be read as a table; the checksum of
the file up to there lets all lines be checked at once; its own tells which one is damaged.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from zlib import crc32

from rote.store.schema import CHECK, SCHEMA_VERSION

_END = re.compile(
    rb',"#":"(?P<number>[0-9a-f]{8})\.(?P<shape>[0-9a-f]{8})\.'
    rb'(?P<file>[0-9a-f]{8})\.(?P<own>[0-9a-f]{8})"}\Z'
)
_FILE, _OWN = len('9f3a21bc.51d0c3aa"}\n'), len('.51d0c3aa"}\n')


@dataclass(frozen=True)
class FileSoFar:
    """What is known of the lines of a journal up to some place.

    Attributes:
        lines: the number of the last.
        checksum: of all bytes.
        shape: of every line, 0 if they differ in more than numbers; None before the first.
    """

    lines: int = 0
    checksum: int = 0
    shape: int | None = None


def bytes_of_line(line: Mapping[str, Any], before: FileSoFar) -> tuple[bytes, FileSoFar]:
    """A line to append, with its newline, and what is known of the file then.

    Example:
        >>> bytes_of_line({"schema": 1, "kind": "resume", "step": 3}, FileSoFar())[0].strip()
        b'{"schema":1,"kind":"resume","step":3,"#":"00000001.66ec9bfc.b2a40396.78ac1a41"}'
    """
    own = _shape(line)
    number, shape = before.lines + 1, own if before.shape in (None, own) else 0
    text = json.dumps(line, allow_nan=False, separators=(",", ":"))
    data = f'{text[:-1]},"{CHECK}":"{number:08x}.{shape:08x}.'.encode()
    data += b"%08x" % crc32(data, before.checksum)
    data += b'.%08x"}\n' % crc32(data)
    return data, FileSoFar(number, crc32(data, before.checksum), shape)


def _shape(line: Mapping[str, Any]) -> int:
    """A checksum of everything in a line but its numbers, of which null is one."""
    is_number = (int, float, type(None))
    rest = [(name, None if type(value) in is_number else value) for name, value in line.items()]
    return crc32(json.dumps(rest).encode())


def check_all(data: bytes, before: FileSoFar) -> FileSoFar | None:
    """What is known of a file with these whole lines, if they are as they were written.

    Args:
        data: as it follows in the file.
        before: what was known of it before.
    """
    checksum = crc32(memoryview(data)[:-_FILE], before.checksum)
    start = data.rfind(b"\n", 0, -1) + 1
    if data[-_FILE:] != b'%08x.%08x"}\n' % (checksum, crc32(data[start:-_OWN])):
        return None
    return _said(data[start:-1], crc32(data[-_FILE:], checksum))


def file_so_far(data: bytes) -> FileSoFar:
    """What is known of a file to append to, as its last line says, or else as it is."""
    raws = [raw for raw in data.split(b"\n") if raw]
    lines = max([len(raws), *map(number_of, raws)])
    end = _END.search(raws[-1]) if raws else None
    if end is None:
        return FileSoFar(lines, crc32(data), 0 if data else None)
    found = _said(raws[-1], crc32(data[-_FILE:], int(end["file"], 16)))
    return found if found.lines == lines else FileSoFar(lines, found.checksum, 0)


def _said(raw: bytes, checksum: int) -> FileSoFar:
    end = _END.search(raw)
    if end is None:
        return FileSoFar(0, checksum, 0)
    return FileSoFar(int(end["number"], 16), checksum, int(end["shape"], 16))


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """What one line holds; None if it was cut off, or is damaged in another way."""
    line = parse_object(raw)
    return line if line is not None and _is_as_written(raw, line) else None


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object that a line is, whatever its checksum says; None if it is none."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def number_of(raw: bytes) -> int:
    """Which line of its file a line was when it was written, from 1; 0 if it does not say."""
    end = _END.search(raw)
    return int(end["number"], 16) if end else 0


def _is_as_written(raw: bytes, line: Mapping[str, Any]) -> bool:
    end = _END.search(raw)
    is_whole = end is not None and crc32(raw[: end.start("own") - 1]) == int(end["own"], 16)
    # What a newer rote writes is refused for its version, not as damaged.
    return is_whole or line.get("schema") != SCHEMA_VERSION
