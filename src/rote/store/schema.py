"""What a line of the journal says, which lines count, and which version can be read."""

import math
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from rote.errors import CorruptRunError, InputError, OddJournalWarning
from rote.records import Reading

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
    """Whether a metric cannot have a name: a line of the journal, or a table of runs, uses it."""
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
            f"Expected a metric's name to be free, got `{name}`, which every reading has."
        )
    if not name or not is_encodable(name):
        raise InputError(
            f"Expected a metric's name to be Unicode text, got {name!a}. Rename the metric."
        )


def is_encodable(text: str) -> bool:
    """Tell whether a text can be written to files: half a surrogate pair cannot."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def line_of_reading(reading: Reading) -> dict[str, Any]:
    """A reading as one flat line: its own values, then the metrics under their names.

    JSON has no NaN and no infinity: both become null.
    """
    values = reading.to_dict()
    metrics = values.pop("metrics")
    line = {"schema": SCHEMA_VERSION, "kind": "reading"} | values | metrics
    return {name: _finite_or_none(value) for name, value in line.items()}


def numbers_of(reading: Reading) -> dict[str, float]:
    """Every number of a reading by its name, with the metrics; NaN and infinity too."""
    values = reading.to_dict() | dict(reading.metrics)
    others = ("step", "flags", "metrics")
    return {k: float(v) for k, v in values.items() if k not in others and v is not None}


def reading_of_line(line: Line) -> Reading:
    """The inverse of ``line_of_reading``; a null where a number must be is NaN."""
    values = dict(line)
    for name in ALWAYS_NUMBERS:
        values[name] = _number(values.get(name))
    values["metrics"] = {
        name: _number(value) for name, value in line.items() if not is_reserved(name)
    }
    return Reading.from_dict(values)


def line_of_resume(step: int) -> dict[str, Any]:
    """Says that the run goes on after ``step``: later readings above this line are void."""
    return {"schema": SCHEMA_VERSION, "kind": "resume", "step": step}


def still_count(steps: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Which lines of one run count: those that no later line voids.

    Args:
        steps: of every line, in the order of writing.
        limits: a line voids the earlier ones after this step: a resume line after its own; others
            have ``NO_LIMIT``.

    Example:
        >>> still_count(np.array([1, 2, 1, 2]), np.array([NO_LIMIT, NO_LIMIT, 1, NO_LIMIT]))
        array([ True, False,  True,  True])
    """
    lowest_later = np.minimum.accumulate(limits[:0:-1])[::-1]
    return steps <= np.append(lowest_later, NO_LIMIT)[: len(steps)]


def lines_that_count(lines: Iterable[Line], where: str, *, is_retold: bool = False) -> list[Line]:
    """The readings among lines, without those that were taken again.

    Lines of an unknown kind are passed over with an ``OddJournalWarning``; steps that are negative
    or do not grow are kept with one.

    Args:
        lines: in the order in which they were written.
        where: for messages.
        is_retold: a logger may be told a reading twice, when the first time was not sure to have
            worked: a reading then voids earlier ones of its step and after.

    Raises:
        CorruptRunError: if a line is of another version, or holds what no reading can.
    """
    kept = []
    for line in lines:
        check_version(line.get("schema"), where)
        if line.get("kind") in KINDS:
            kept.append(values_of_line(line, where))
        else:
            _warn(f"{where} has a line of an unknown kind, {line.get('kind')!r}; it is skipped.")
    is_reading = np.array([line["kind"] == "reading" for line in kept], dtype=bool)
    steps = np.array([line["step"] for line in kept], dtype=np.int64)
    limits = np.where(is_reading, steps - 1 if is_retold else NO_LIMIT, steps)
    counted = is_reading & still_count(steps, limits)
    _warn_of_steps(steps[counted], where)
    return [kept[at] for at in np.flatnonzero(counted)]


def values_of_line(line: Line, where: str) -> dict[str, Any]:
    """A reading or a resume with a whole step, finite numbers or None, and flags that are texts.

    Raises:
        CorruptRunError: if it holds anything else.
    """
    step = line.get("step")
    if type(step) is not int or not -NO_LIMIT < step < NO_LIMIT:
        raise CorruptRunError(
            f"Expected {where} to hold readings, got one without a whole step: {step!r:.80}."
        )
    if line["kind"] == "resume":
        return {"schema": line.get("schema"), "kind": "resume", "step": step}
    flags = [] if line.get("flags") is None else line["flags"]
    if not isinstance(flags, list) or not all(isinstance(flag, str) for flag in flags):
        raise CorruptRunError(f"Expected flags in {where} to be texts, got {flags!r:.80}.")
    values = {"schema": line.get("schema"), "kind": "reading", "step": step, "flags": flags}
    for name, value in line.items():
        if name not in values and (name in READING_COLUMNS or name not in _RESERVED):
            values[name] = _checked_number(name, value, where)
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


def row_checks_of_lines(lines: Sequence[Line]) -> dict[str, tuple[float | None, ...]]:
    """The checksums of the readings' rows, or None, by the name of the row file."""
    keys = {key for line in lines for key in line if key.startswith(ROW_CHECK)}
    return {key.removeprefix(ROW_CHECK): tuple(line.get(key) for line in lines) for key in keys}


def _checked_number(name: str, value: object, where: str) -> float | None:
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


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value
