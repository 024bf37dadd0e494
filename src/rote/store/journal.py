"""The journal of a run: encoding, checksums, appending and reading of its lines.

A line ends in its number, its shape, and two checksums, as the fifth line of a file does in
``…,"row":4,"#":"00000005.2bd1a3c4.9f3a21bc.51d0c3aa"}``. The shape tells that all lines up to there
differ in their numbers only, which lets them be read as a table; the checksum of the file up to
there lets all lines be checked at once; its own tells which one is damaged.
"""

import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import numpy as np

from rote.errors import (
    CorruptRunError,
    InputError,
    OddJournalWarning,
    StoreError,
    TornJournalWarning,
)
from rote.records import Reading
from rote.store.files import HeldFile, read_plain

SCHEMA_VERSION = 1
"""Of descriptions, of journals, and of what loggers keep."""

KINDS = ("reading", "resume")

CHECK = "#"
"""The end of a line in a journal: its number and checksum."""

ROW_CHECK = "row#"
"""Before the name of a row file: the CRC-32 of the reading's row in it."""

SYNCED_ROWS = "synced_rows"
"""How many rows of the row files were surely on the disk when a line was written."""

_RESERVED = frozenset(
    {"schema", "kind", "name", "run", "row", "region", "score", CHECK, SYNCED_ROWS}
    | {entry.name for entry in fields(Reading)}
)

READING_COLUMNS = tuple(
    entry.name
    for entry in fields(Reading)
    if entry.name not in ("metrics", "predictions", "sample_rows", "note")
)
"""What every row of a table has, besides the metrics that the caller measured."""

RUN_DIRECTORY = "run_directory"
"""The key of a description under which the path of the run directory stands, if there is one."""

GIVEN_LABELS = "given_labels"
"""The key of a description under which the labels of the holdout stand as a text."""

_LARGEST = float(np.finfo(np.float64).max)

NO_LIMIT = int(np.iinfo(np.int64).max)

Line: TypeAlias = Mapping[str, Any]
"""One line of a journal, in a file or wherever a logger keeps it."""

ALWAYS_NUMBERS = (
    "loss_before",
    "loss_after",
    "drop",
    "susceptibility",
    "susceptibility_relative",
)


def is_reserved(name: str) -> bool:
    """Return whether a name is reserved for lines of the journal or columns of a table."""
    return name in _RESERVED or name.startswith(ROW_CHECK)


def check_metric_name(name: str) -> None:
    """Refuse a name under which a metric could not be written, or not be read again.

    Raises:
        InputError: if the name is reserved, empty, or not valid Unicode.

    Example:
        >>> check_metric_name("train_accuracy")
    """
    if is_reserved(name):
        raise InputError(
            f"The metric name `{name}` is taken: every reading has it. Rename the metric."
        )
    if not name or not is_encodable(name):
        raise InputError(
            f"Expected a metric's name to be Unicode text, got {name!a}. Rename the metric."
        )


def is_encodable(text: str) -> bool:
    """Tell whether a text can be written to files: half a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def encode_reading(reading: Reading) -> dict[str, Any]:
    """Convert a reading to one flat line: its own values, then the metrics under their names.

    JSON has no NaN and no infinity: both become null.

    Args:
        reading: a reading of a tracker.

    Returns:
        Plain values by name, as JSON can hold them.

    Example:
        >>> reading = Reading(step=1, loss_before=2.0, loss_after=1.5, drop=0.5, susceptibility=0.5,
        ...     susceptibility_relative=0.25)
        >>> line = encode_reading(reading)
        >>> line["step"], line["drop"]
        (1, 0.5)
    """
    values = reading.to_dict()
    metrics = values.pop("metrics")
    line = {"schema": SCHEMA_VERSION, "kind": "reading"} | values | metrics
    return {name: _replace_non_finite(value) for name, value in line.items()}


def collect_numbers(reading: Reading) -> dict[str, float]:
    """Return every number of a reading by its name, with the metrics; NaN and infinity too."""
    values = reading.to_dict() | dict(reading.metrics)
    others = ("step", "flags", "metrics")
    return {k: float(v) for k, v in values.items() if k not in others and v is not None}


def decode_reading(line: Line) -> Reading:
    """Convert a line back to a reading; a null where a number must be is NaN.

    Args:
        line: as ``encode_reading`` makes it.

    Returns:
        The reading.

    Example:
        >>> reading = Reading(step=1, loss_before=2.0, loss_after=1.5, drop=0.5, susceptibility=0.5,
        ...     susceptibility_relative=0.25)
        >>> decode_reading(encode_reading(reading)) == reading
        True
    """
    values = dict(line)
    for name in ALWAYS_NUMBERS:
        values[name] = _restore_nan(values.get(name))
    values["metrics"] = {
        name: _restore_nan(value) for name, value in line.items() if not is_reserved(name)
    }
    return Reading.from_dict(values)


def encode_resume(step: int) -> dict[str, Any]:
    """Return the line of a resume after ``step``: later readings above it are void.

    Args:
        step: the last step that counts.

    Returns:
        A line for the journal.

    Example:
        >>> encode_resume(3)["step"]
        3
    """
    return {"schema": SCHEMA_VERSION, "kind": "resume", "step": step}


def mark_counted(steps: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Return which lines of one run count: those that no later line voids.

    Args:
        steps: of every line, in the order of writing.
        limits: a line voids the earlier ones after this step: a resume line after its own; others
            have ``NO_LIMIT``.

    Example:
        >>> mark_counted(np.array([1, 2, 1, 2]), np.array([NO_LIMIT, NO_LIMIT, 1, NO_LIMIT]))
        array([ True, False,  True,  True])
    """
    lowest_later = np.minimum.accumulate(limits[:0:-1])[::-1]
    return steps <= np.append(lowest_later, NO_LIMIT)[: len(steps)]


def drop_void_lines(lines: Iterable[Line], where: str, *, is_retold: bool = False) -> list[Line]:
    """Return the readings among lines, without those that were taken again.

    Lines of an unknown kind are passed over with an ``OddJournalWarning``; steps that are negative
    or do not grow are kept with one.

    Args:
        lines: in the order in which they were written.
        where: the place, for messages.
        is_retold: a logger may receive a reading twice, if the first time was not sure to have
            worked: a reading then voids earlier ones of its step and after.

    Returns:
        The lines of the readings that count, in order.

    Raises:
        CorruptRunError: if a line is of another version, or holds what no reading can.

    Example:
        >>> def line(step):
        ...     return encode_reading(Reading(step=step, loss_before=2.0, loss_after=1.5, drop=0.5,
        ...         susceptibility=0.5, susceptibility_relative=0.25))
        >>> found = drop_void_lines([line(1), line(2), encode_resume(1), line(2)], "here")
        >>> [reading["step"] for reading in found]
        [1, 2]
    """
    kept = []
    for line in lines:
        check_version(line.get("schema"), where)
        if line.get("kind") in KINDS:
            kept.append(check_line(line, where))
        else:
            _warn(f"{where} has a line of an unknown kind, {line.get('kind')!r}; it is skipped.")
    is_reading = np.array([line["kind"] == "reading" for line in kept], dtype=bool)
    steps = np.array([line["step"] for line in kept], dtype=np.int64)
    limits = np.where(is_reading, steps - 1 if is_retold else NO_LIMIT, steps)
    counted = is_reading & mark_counted(steps, limits)
    _warn_of_steps(steps[counted], where)
    return [kept[at] for at in np.flatnonzero(counted)]


def check_line(line: Line, where: str) -> dict[str, Any]:
    """Return the checked values of a line: an integer step, finite numbers or None, and flags.

    Raises:
        CorruptRunError: if it holds anything else.
    """
    step = line.get("step")
    if type(step) is not int or not -NO_LIMIT < step < NO_LIMIT:
        raise CorruptRunError(f"A reading in {where} has no integer step: {step!r:.80}.")
    if line["kind"] == "resume":
        return {"schema": line.get("schema"), "kind": "resume", "step": step}
    flags = [] if line.get("flags") is None else line["flags"]
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise CorruptRunError(f"Expected flags in {where} to be texts, got {flags!r:.80}.")
    values = {"schema": line.get("schema"), "kind": "reading", "step": step, "flags": flags}
    for name, value in line.items():
        if name not in values and (name in READING_COLUMNS or name not in _RESERVED):
            values[name] = _check_number(name, value, where)
    return values | {
        name: line[name] for name in ("row", SYNCED_ROWS) if line.get(name) is not None
    }


def check_version(found: object, where: str) -> None:
    """Refuse files of another version.

    Raises:
        CorruptRunError: if the version is missing or another.
    """
    if type(found) is not int or found != SCHEMA_VERSION:
        raise CorruptRunError(
            f"Expected schema {SCHEMA_VERSION} in {where}, got {found!r:.80}. It was written by a "
            "newer rote, or is not a run of rote: update rote, or check the path."
        )


def collect_row_checks(lines: Sequence[Line]) -> dict[str, tuple[float | None, ...]]:
    """Return the checksums of the readings' rows, or None, by the name of the row file."""
    keys = {key for line in lines for key in line if key.startswith(ROW_CHECK)}
    return {key.removeprefix(ROW_CHECK): tuple(line.get(key) for line in lines) for key in keys}


def _check_number(name: str, value: object, where: str) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_encodable(name) or not (is_number or value is None):
        raise CorruptRunError(
            f"Expected {name!r:.80} in {where} to be a number, got {value!r:.80}."
        )
    number: Any = value
    return float(number) if is_number and abs(number) <= _LARGEST else None


def _warn_of_steps(steps: np.ndarray, where: str) -> None:
    growth = np.diff(steps)
    odd = {"negative": steps < 0, "doubled": growth == 0, "out of order": growth < 0}
    for word, found in odd.items():
        if found.any():
            at = int(found.argmax()) + (word != "negative")
            _warn(f"{where} has steps that are {word}, the first at reading {at + 1}; check it.")


def _warn(message: str) -> None:
    warnings.warn(OddJournalWarning(message), stacklevel=4)


def _replace_non_finite(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _restore_nan(value: float | None) -> float:
    return math.nan if value is None else value


_END = re.compile(
    rb',"#":"(?P<number>[0-9a-f]{8})\.(?P<shape>[0-9a-f]{8})\.'
    rb'(?P<file>[0-9a-f]{8})\.(?P<own>[0-9a-f]{8})"}\Z'
)
_FILE, _OWN = len('9f3a21bc.51d0c3aa"}\n'), len('.51d0c3aa"}\n')


@dataclass(frozen=True)
class FileSoFar:
    """The state of a journal file up to some line.

    Attributes:
        lines: the number of the last line.
        checksum: the checksum of all bytes.
        shape: the shape of every line, 0 if lines differ in more than numbers; None without lines.
    """

    lines: int = 0
    checksum: int = 0
    shape: int | None = None


def encode_line(line: Mapping[str, Any], before: FileSoFar) -> tuple[bytes, FileSoFar]:
    """Return a line to append, with its newline, and the state of the file after it.

    Example:
        >>> encode_line({"schema": 1, "kind": "resume", "step": 3}, FileSoFar())[0].strip()
        b'{"schema":1,"kind":"resume","step":3,"#":"00000001.66ec9bfc.e5862fc4.57e2c71e"}'
    """
    own = _hash_shape(line)
    number, shape = before.lines + 1, own if before.shape in (None, own) else 0
    text = json.dumps(line, allow_nan=False, separators=(",", ":"))
    data = f'{text[:-1]},"{CHECK}":"{number:08x}.{shape:08x}.'.encode()
    data += b"%08x" % crc32(data, before.checksum)
    data += b'.%08x"}\n' % crc32(data)
    return data, FileSoFar(number, crc32(data, before.checksum), shape)


def _hash_shape(line: Mapping[str, Any]) -> int:
    """Return a checksum of everything in a line but its numbers, of which null is one."""
    is_number = (int, float, type(None))
    rest = [(name, None if type(value) in is_number else value) for name, value in line.items()]
    return crc32(json.dumps(rest).encode())


def check_all(data: bytes, before: FileSoFar) -> FileSoFar | None:
    """Return what is known of a file with these whole lines, if they are as they were written.

    Args:
        data: the next bytes of the file.
        before: the state of the file before these bytes.
    """
    checksum = crc32(memoryview(data)[:-_FILE], before.checksum)
    start = data.rfind(b"\n", 0, -1) + 1
    if data[-_FILE:] != b'%08x.%08x"}\n' % (checksum, crc32(data[start:-_OWN])):
        return None
    return _read_end(data[start:-1], crc32(data[-_FILE:], checksum))


def summarize_file(data: bytes) -> FileSoFar:
    """Return the state of a file to append to, from its last line if that is whole."""
    raws = [raw for raw in data.split(b"\n") if raw]
    lines = max([len(raws), *map(read_number, raws)])
    end = _END.search(raws[-1]) if raws else None
    if end is None:
        return FileSoFar(lines, crc32(data), 0 if data else None)
    found = _read_end(raws[-1], crc32(data[-_FILE:], int(end["file"], 16)))
    return found if found.lines == lines else FileSoFar(lines, found.checksum, 0)


def _read_end(raw: bytes, checksum: int) -> FileSoFar:
    end = _END.search(raw)
    if end is None:
        return FileSoFar(0, checksum, 0)
    return FileSoFar(int(end["number"], 16), checksum, int(end["shape"], 16))


def parse_line(raw: bytes) -> dict[str, Any] | None:
    """Parse one line; return None if it was truncated, or is damaged in another way."""
    line = parse_object(raw)
    return line if line is not None and _is_as_written(raw, line) else None


def parse_object(raw: bytes) -> dict[str, Any] | None:
    """Parse a line as a JSON object, whatever its checksum says; return None if it is none."""
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return line if isinstance(line, dict) else None


def read_number(raw: bytes) -> int:
    """Return the number that a line had in its file when it was written, from 1; 0 if unknown."""
    end = _END.search(raw)
    return int(end["number"], 16) if end else 0


def _is_as_written(raw: bytes, line: Mapping[str, Any]) -> bool:
    end = _END.search(raw)
    is_whole = end is not None and crc32(raw[: end.start("own") - 1]) == int(end["own"], 16)
    # What a newer rote writes is refused for its version, not as damaged.
    return is_whole or line.get("schema") != SCHEMA_VERSION


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
                f"{self._file.path} was changed while this run writes it: it has {size} bytes "
                f"instead of {end}. Restore it from a copy, or start a new run."
            )
        if size > end:  # an interrupt came after a line was written and before that was recorded
            so_far, _ = self._look()
        data, so_far = encode_line(line, so_far)
        self._write(data, size, synced=synced)
        self._last = so_far, size + len(data)

    def sync(self) -> None:
        """Wait until all lines are on the disk."""
        self._file.sync()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _write(self, data: bytes, size: int, *, synced: bool = True) -> None:
        try:
            while data:
                data = data[os.write(self._file.number, data) :]
            if synced:
                self._file.sync()
        except OSError:
            os.ftruncate(self._file.number, size)  # half a line would damage the next one
            raise

    def _look(self) -> tuple[FileSoFar, int]:
        """Return the state of the lines, truncated or not, and the size."""
        data = self._file.path.read_bytes()
        return summarize_file(data), len(data)


@dataclass(frozen=True)
class _Found:
    """A line of a file: where it is, what it holds (None if it was cut off), and its number."""

    at: int
    raw: bytes
    line: dict[str, Any] | None
    number: int


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Return every whole line of a journal, in the order in which they were written.

    A line that a kill cut off, at the end or before the run was resumed, is skipped with a
    ``TornJournalWarning``. Lines that are missing, doubled or out of order are warned of; what is
    left is put in order.

    Raises:
        CorruptRunError: if a line is damaged in any other way.
    """
    raws = enumerate(read_plain(path).split(b"\n"), start=1)
    found = [_Found(at, raw, parse_line(raw), read_number(raw)) for at, raw in raws if raw]
    _check_damage(found, path)
    for entry in found:
        if entry.line is None:
            message = f"Line {entry.at} of {path} was cut off while being written; it is skipped."
            warnings.warn(TornJournalWarning(message), stacklevel=2)
        else:
            where = f"line {entry.at} of {path}"
            check_version(entry.line.get("schema"), where)
            if entry.line.get("kind") in KINDS:
                check_line(entry.line, where)
            if entry.line.get("kind") == "reading" and type(entry.line.get("row")) is not int:
                raise CorruptRunError(f"The reading in {where} does not say which row it has.")
    return [entry.line for entry in _put_in_order(found, path) if entry.line is not None]


def _check_damage(found: Sequence[_Found], path: Path) -> None:
    truncated_at: int | None = None  # several kills in a row may leave several truncated lines
    for entry in found:
        line, at, what = entry.line, entry.at, ""
        if line is None and parse_object(entry.raw) is not None:
            what = "does not fit its checksum"
        elif truncated_at is not None and line and line.get("kind") != "resume":
            at, what = truncated_at, "is cut off"
        if what:
            raise CorruptRunError(
                f"Line {at} of {path} {what}. Restore the file from a copy, or delete that line "
                "to lose only what it says."
            )
        truncated_at = (truncated_at or at) if line is None else None


def _put_in_order(found: Sequence[_Found], path: Path) -> list[_Found]:
    first = {entry.raw: entry.at for entry in reversed(found)}
    once = [entry for entry in found if not entry.number or first[entry.raw] == entry.at]
    if len(once) < len(found):
        _warn(f"{path} has {len(found) - len(once)} lines twice; each counts once.")
    numbers = [entry.number for entry in once if entry.line is not None]
    if any(later < earlier for earlier, later in pairwise(numbers)):
        _warn(f"{path} has lines that are out of order; they count in the order of writing.")
        once = sorted(once, key=lambda entry: entry.number)
    # The truncated line also had a number.
    missing = max(numbers, default=0) - len(once)
    if missing > 0:
        _warn(f"{path} has lost {missing} of its lines. They are not counted.")
    return once


def read_counted(journal: Path) -> list[Line]:
    """Read the lines of a journal whose readings count; none if it does not exist.

    Raises:
        CorruptRunError: if it is damaged, or cannot be read.
    """
    try:
        lines = read_lines(journal)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise CorruptRunError(f"Cannot read the journal {journal}: {error}.") from error
    return drop_void_lines(lines, str(journal))


def seal_journal(path: Path) -> None:
    """Give the plain JSON lines of a packed run their rows, numbers and checksums.

    Args:
        path: a file with one reading per line; afterwards a journal.
    """
    so_far, sealed = FileSoFar(), []
    for row, raw in enumerate(path.read_bytes().splitlines()):
        data, so_far = encode_line({**json.loads(raw), "row": row}, so_far)
        sealed.append(data)
    path.write_bytes(b"".join(sealed))
