"""An append-only file of JSON lines that survives a kill at any moment."""

import json
import os
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError, TornJournalWarning
from rote.store.schema import check_version


class Journal:
    """Appends lines; each is in the hands of the operating system before ``append`` returns.

    Args:
        path: the file; created if absent, never shortened below its last whole line.
    """

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        # A line that a kill cut off stays on its own, so that the next one can be read.
        if path.stat().st_size > 0 and _last_byte(path) != b"\n":
            self._write(b"\n")

    def append(self, line: Mapping[str, Any]) -> None:
        """Write one line."""
        self._write(json.dumps(line, allow_nan=False, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        """Give the file back."""
        os.close(self._file)

    def _write(self, data: bytes) -> None:
        size = os.fstat(self._file).st_size
        try:
            while data:
                data = data[os.write(self._file, data) :]
        except OSError:
            os.ftruncate(self._file, size)  # half a line would spoil the next one
            raise


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal.

    A line that a kill cut off, at the end or before the run was resumed, is skipped with a
    ``TornJournalWarning``.

    Raises:
        CorruptRunError: if a line is damaged in any other way.
    """
    lines: list[dict[str, Any]] = []
    torn_at: int | None = None  # several kills in a row may leave several torn lines
    for number, raw in enumerate(path.read_bytes().split(b"\n"), start=1):
        if not raw:
            continue
        line = parse_line(raw)
        if torn_at is not None and line is not None and line.get("kind") != "resume":
            raise CorruptRunError(
                f"Expected line {torn_at} of {path} to be JSON, got a damaged line in the middle. "
                "Restore the file from a copy, or delete that line to lose that reading only."
            )
        torn_at = (torn_at or number) if line is None else None
        if line is None:
            warnings.warn(torn_line(number, path), stacklevel=2)
        else:
            check_version(line.get("schema"), f"line {number} of {path}")
            lines.append(line)
    return lines


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """What one line holds; None if it was cut off, or is damaged in another way."""
    try:
        line = json.loads(raw)
    except ValueError:
        return None
    return line if isinstance(line, dict) else None


def torn_line(number: int, path: Path) -> TornJournalWarning:
    """What to warn of when a line, counted from 1, is skipped."""
    return TornJournalWarning(
        f"Line {number} of {path} was cut off while being written; it is skipped."
    )


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
