"""What a line of the journal says, which lines count, and which versions can be read."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeAlias

import numpy as np

from rote.errors import CorruptRunError
from rote.records import Reading

SCHEMA_VERSION = 1

RESERVED = frozenset(
    {"schema", "kind", "name", "run", "row", "region", "score"}
    | {entry.name for entry in fields(Reading)}
)
"""Names that a metric cannot have: a line of the journal, or a table of runs, uses them."""

READING_COLUMNS = tuple(
    entry.name
    for entry in fields(Reading)
    if entry.name not in ("metrics", "predictions", "sample_rows")
)
"""What every row of a table has, besides the metrics that the caller measured."""

NO_LIMIT = int(np.iinfo(np.int64).max)

Line: TypeAlias = Mapping[str, Any]
"""One line of a journal, in a file or wherever a logger keeps it."""

_ALWAYS_NUMBERS = (
    "loss_before",
    "loss_after",
    "drop",
    "susceptibility",
    "susceptibility_relative",
)


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
    for name in _ALWAYS_NUMBERS:
        values[name] = _number(values.get(name))
    values["metrics"] = {
        name: _number(value) for name, value in line.items() if name not in RESERVED
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

    Args:
        lines: in the order in which they were written.
        where: for messages.
        is_retold: a logger may be told a reading twice, when the first time was not sure to have
            worked: a reading then voids earlier ones of its step and after.

    Raises:
        CorruptRunError: if a line is of another version, or has no step.
    """
    kept = []
    for line in lines:
        check_version(line.get("schema"), where)
        if line.get("kind") not in ("reading", "resume"):
            continue
        if not isinstance(line.get("step"), int):
            raise CorruptRunError(
                f"Expected {where} to hold readings, got one without a whole step: {dict(line)!r}."
            )
        kept.append(line)
    is_reading = np.array([line["kind"] == "reading" for line in kept], dtype=bool)
    steps = np.array([line["step"] for line in kept], dtype=np.int64)
    limits = np.where(is_reading, steps - 1 if is_retold else NO_LIMIT, steps)
    counted = is_reading & still_count(steps, limits)
    return [kept[at] for at in np.flatnonzero(counted)]


def check_version(found: object, where: str) -> None:
    """Refuse files of a version that this code does not know.

    Raises:
        CorruptRunError: if the version is missing or newer.
    """
    if not isinstance(found, int) or not 1 <= found <= SCHEMA_VERSION:
        raise CorruptRunError(
            f"Expected schema of {where} to be from 1 to {SCHEMA_VERSION}, got {found!r}. "
            "It was written by a newer rote, or is no run of rote: update rote, or check the path."
        )


def _finite_or_none(value: object) -> object:
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _number(value: float | None) -> float:
    return math.nan if value is None else value
