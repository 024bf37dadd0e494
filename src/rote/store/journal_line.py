"""A line of a journal as bytes: JSON, then its number in the file and a checksum of all before.

``…,"row":4,"#":"00000005.9f3a21bc"}`` is the fifth line. Lines of schema 1 have no such end.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np

from rote.store.schema import CHECK, CHECKED_SCHEMA, PLAIN_SCHEMA

_END = re.compile(rb',"#":"([0-9a-f]{8})\.([0-9a-f]{8})"}\Z')
_NUMBER, _AFTER = len('00000005.9f3a21bc"}'), len('.9f3a21bc"}')


def bytes_of_line(line: Mapping[str, Any], number: int) -> bytes:
    """A line to append, with its newline.

    Example:
        >>> bytes_of_line({"schema": 1, "kind": "resume", "step": 3}, 5).strip()
        b'{"schema":2,"kind":"resume","step":3,"#":"00000005.6636ce15"}'
    """
    values = {**line, "schema": CHECKED_SCHEMA}
    text = json.dumps(values, allow_nan=False, separators=(",", ":"))
    data = f'{text[:-1]},"{CHECK}":"{number:08x}'.encode()
    return data + b'.%08x"}\n' % crc32(data)


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
    return int(end[1], 16) if end else 0


def are_as_written(raws: Sequence[bytes], numbers: np.ndarray) -> bool:
    """Whether all lines have a checksum, which fits, and the given numbers: many at once."""
    ends = np.frombuffer(b"".join([raw[-_NUMBER:] for raw in raws]), np.uint8)
    if len(ends) != len(raws) * _NUMBER:
        return False
    ends = ends.reshape(-1, _NUMBER)
    checksums = np.fromiter(map(crc32, [raw[:-_AFTER] for raw in raws]), ">u4", len(raws))
    shown = [(_digits(numbers.astype(">u4")), 0), (_digits(checksums), _NUMBER - _AFTER + 1)]
    shown += [(np.frombuffer(b".", np.uint8), 8), (np.frombuffer(b'"}', np.uint8), 17)]
    return all((ends[:, at : at + part.shape[-1]] == part).all() for part, at in shown)


def _digits(values: np.ndarray) -> np.ndarray:
    return np.frombuffer(values.tobytes().hex().encode(), np.uint8).reshape(-1, 8)


def _is_as_written(raw: bytes, line: Mapping[str, Any]) -> bool:
    if line.get("schema") == PLAIN_SCHEMA:
        return CHECK not in line and "row" not in line
    end = _END.search(raw)
    is_whole = end is not None and crc32(raw[:-_AFTER]) == int(end[2], 16)
    # What a newer rote writes is refused for its version, not as damaged.
    return is_whole or line.get("schema") != CHECKED_SCHEMA
