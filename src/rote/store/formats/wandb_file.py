"""The files that W&B writes offline: a log of records in blocks, each with a checksum.

The blocks are those of LevelDB's log format, behind a header of W&B's. W&B publishes no reader and
promises nothing about the format: whatever is not as expected is refused.
"""

from __future__ import annotations

import json
import math
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError
from rote.extras import require
from rote.store.formats.lines import Line, lines_that_count

CONFIG_KEY = "rote"
STEP = "rote/step"
FLAGS = "rote/flags"
SCHEMA = "rote/schema"
RESUMED_AFTER = "rote/resumed_after"

_MAGIC = b":W&B\xe1\xbe\x00"
_BLOCK = 32768
_HEADER = struct.Struct("<IHB")
_FULL, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4


@dataclass(frozen=True)
class WandbRun:
    """What one file says.

    Attributes:
        name: of the run.
        config: its configuration.
        lines: the readings that count; None if rote did not write it.
        rows: the history: all values of each row, in order.
    """

    name: str
    config: Mapping[str, Any]
    lines: list[Line] | None
    rows: list[dict[str, Any]]


def read_wandb_file(path: Path) -> WandbRun:
    """Read one ``run-*.wandb``; the end of a file that is being written is passed over.

    Raises:
        CorruptRunError: if it is damaged, or not as this version of rote knows such files.
        MissingExtraError: if W&B is not installed.
        OSError: if it cannot be read.
    """
    try:
        return _run(path)
    except (ValueError, TypeError, AttributeError) as error:
        if isinstance(error, CorruptRunError):
            raise
        raise _refusal(path, error) from error


def _run(path: Path) -> WandbRun:
    name = path.stem.removeprefix("run-")
    config: dict[str, Any] = {}
    rows: list[dict[str, Any]] = []
    for kind, record in _parsed(path):
        if kind == "run":
            name = record.display_name or record.run_id
            config |= {item.key: json.loads(item.value_json) for item in record.config.update}
        elif kind == "config":
            config |= {item.key: json.loads(item.value_json) for item in record.update}
        elif kind == "history":
            items = [(item.key or ".".join(item.nested_key), item) for item in record.item]
            rows.append({key: json.loads(item.value_json) for key, item in items})
    written = [line for row in rows if (line := _line(row)) is not None]
    is_ours = bool(written) or CONFIG_KEY in config
    return WandbRun(name, config, lines_that_count(written, str(path)) if is_ours else None, rows)


def _line(row: Mapping[str, Any]) -> Line | None:
    if RESUMED_AFTER in row:
        return {"schema": row.get(SCHEMA), "kind": "resume", "step": int(row[RESUMED_AFTER])}
    if STEP not in row:
        return None
    own = {"schema": row.get(SCHEMA), "kind": "reading", "step": int(row[STEP])}
    own["flags"] = row.get(FLAGS, [])
    shown = {name: value for name, value in row.items() if not name.startswith(("_", "rote/"))}
    return {name: value if _is_finite(value) else None for name, value in shown.items()} | own


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _parsed(path: Path) -> Iterator[tuple[str, Any]]:
    protocol = require("wandb.proto.wandb_internal_pb2", extra="wandb")
    for raw in _records(path):
        try:
            record = protocol.Record.FromString(raw)
            kind = record.WhichOneof("record_type")
        except Exception as error:
            raise _refusal(path, error) from error
        if kind is not None:
            yield kind, getattr(record, kind)


def _records(path: Path) -> Iterator[bytes]:
    data = path.read_bytes()
    if not data.startswith(_MAGIC):
        raise _refusal(path, f"a file that starts with {data[:7]!r}")
    at, record = len(_MAGIC), b""
    while True:
        left = _BLOCK - at % _BLOCK
        if left < _HEADER.size:
            at += left  # no header is split between blocks
        if at + _HEADER.size > len(data):
            return
        check, length, kind = _HEADER.unpack_from(data, at)
        body = data[at + _HEADER.size : at + _HEADER.size + length]
        if len(body) < length:
            return
        if zlib.crc32(body, zlib.crc32(bytes([kind]))) != check:
            raise _refusal(path, f"a checksum that does not fit at byte {at}")
        at += _HEADER.size + length
        record = body if kind in (_FULL, _FIRST) else record + body
        if kind in (_FULL, _LAST):
            yield record


def _refusal(path: Path, what: object) -> CorruptRunError:
    return CorruptRunError(
        f"Expected {path} to be an offline file of W&B as rote knows them, got: {what}. Export the "
        "run as CSV and read it with csv:FILE."
    )
