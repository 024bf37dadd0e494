"""An append-only file of JSON lines that survives a kill, and a power cut, at any moment."""

import json
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError, OddJournalWarning, StoreError, TornJournalWarning
from rote.store.held_file import HeldFile
from rote.store.journal_line import (
    FileSoFar,
    bytes_of_line,
    file_so_far,
    number_of,
    parse_line,
    parse_object,
)
from rote.store.plain_file import read_plain
from rote.store.schema import KINDS, Line, check_version, lines_that_count, values_of_line


class Journal:
    """Appends lines to a file.

    Args:
        path: the file; created if absent, never shortened below its last whole line.
    """

    def __init__(self, path: Path) -> None:
        self._file = HeldFile(path, os.O_APPEND)
        data = path.read_bytes()
        # A line that a kill cut off stays on its own, so that the next one can be read.
        if data and not data.endswith(b"\n"):
            self._write(b"\n", len(data))
        self._last = self._look()

    def append(self, line: Mapping[str, Any], *, synced: bool = True) -> None:
        """Write one line, and wait until it is on the disk unless ``synced`` is false.

        Raises:
            StoreError: if the file was removed, replaced or shortened meanwhile.
            OSError: if it cannot be written; nothing of the line is.
        """
        self._file.check()
        size = os.fstat(self._file.number).st_size
        so_far, end = self._last
        if size < end:
            raise StoreError(
                f"Expected {self._file.path} to only grow, got {size} bytes where there were "
                f"{end}: it was changed meanwhile. Restore it from a copy, or start a new run."
            )
        if size > end:  # an interrupt came between the writing of a line and its being noted
            so_far, _ = self._look()
        data, so_far = bytes_of_line(line, so_far)
        self._write(data, size, synced=synced)
        self._last = so_far, size + len(data)

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def _write(self, data: bytes, size: int, *, synced: bool = True) -> None:
        try:
            while data:
                data = data[os.write(self._file.number, data) :]
            if synced:
                self._file.sync()
        except OSError:
            os.ftruncate(self._file.number, size)  # half a line would spoil the next one
            raise

    def _look(self) -> tuple[FileSoFar, int]:
        """What is known of the lines, cut off or not, and the size."""
        data = self._file.path.read_bytes()
        return file_so_far(data), len(data)


@dataclass(frozen=True)
class _Found:
    """A line of a file: where it is, what it holds (None if it was cut off), and its number."""

    at: int
    raw: bytes
    line: dict[str, Any] | None
    number: int


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Every whole line of a journal, in the order in which they were written.

    A line that a kill cut off, at the end or before the run was resumed, is skipped with a
    ``TornJournalWarning``. Lines that are missing, doubled or out of order are warned of; what is
    left is put in order.

    Raises:
        CorruptRunError: if a line is damaged in any other way.
    """
    raws = enumerate(read_plain(path).split(b"\n"), start=1)
    found = [_Found(at, raw, parse_line(raw), number_of(raw)) for at, raw in raws if raw]
    _check_damage(found, path)
    for entry in found:
        if entry.line is None:
            message = f"Line {entry.at} of {path} was cut off while being written; it is skipped."
            warnings.warn(TornJournalWarning(message), stacklevel=2)
        else:
            where = f"line {entry.at} of {path}"
            check_version(entry.line.get("schema"), where)
            if entry.line.get("kind") in KINDS:
                values_of_line(entry.line, where)
            if entry.line.get("kind") == "reading" and type(entry.line.get("row")) is not int:
                raise CorruptRunError(f"Expected {where} to say which row it has, got none.")
    return [entry.line for entry in _in_order(found, path) if entry.line is not None]


def _check_damage(found: Sequence[_Found], path: Path) -> None:
    truncated_at: int | None = None  # several kills in a row may leave several truncated lines
    for entry in found:
        line, at, what = entry.line, entry.at, ""
        if line is None and parse_object(entry.raw) is not None:
            what = "one that does not fit its checksum"
        elif truncated_at is not None and line and line.get("kind") != "resume":
            at, what = truncated_at, "one that is cut off"
        if what:
            raise CorruptRunError(
                f"Expected line {at} of {path} to be as it was written, got {what}. Restore the "
                "file from a copy, or delete that line to lose only what it says."
            )
        truncated_at = (truncated_at or at) if line is None else None


def _in_order(found: Sequence[_Found], path: Path) -> list[_Found]:
    first = {entry.raw: entry.at for entry in reversed(found)}
    once = [entry for entry in found if not entry.number or first[entry.raw] == entry.at]
    if len(once) < len(found):
        _warn(f"{path} has {len(found) - len(once)} lines twice; each counts once.")
    numbers = [entry.number for entry in once if entry.line is not None]
    if any(later < earlier for earlier, later in pairwise(numbers)):
        _warn(f"{path} has lines that are out of order; they count in the order of writing.")
        once = sorted(once, key=lambda entry: entry.number)
    # What was cut off had a number, too.
    missing = max(numbers, default=0) - len(once)
    if missing > 0:
        _warn(f"{path} has lost {missing} of its lines; what they said is not counted.")
    return once


def _warn(message: str) -> None:
    warnings.warn(OddJournalWarning(message), stacklevel=4)


def read_counted(journal: Path) -> list[Line]:
    """The lines of a journal whose readings count; of one that does not exist, none.

    Raises:
        CorruptRunError: if it is damaged, or cannot be read.
    """
    try:
        lines = read_lines(journal)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CorruptRunError(f"Expected {journal} to be a journal, got: {error}.") from error
    return lines_that_count(lines, str(journal))


def seal_journal(path: Path) -> None:
    """Give the plain JSON lines of a packed run their rows, numbers and checksums.

    Args:
        path: a file with one reading per line; afterwards a journal.
    """
    so_far, sealed = FileSoFar(), []
    for row, raw in enumerate(path.read_bytes().splitlines()):
        data, so_far = bytes_of_line({**json.loads(raw), "row": row}, so_far)
        sealed.append(data)
    path.write_bytes(b"".join(sealed))
