"""What a line of the journal says, and which versions of it can be read."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from rote.errors import CorruptRunError
from rote.records import Reading

SCHEMA_VERSION = 1

RESERVED = frozenset(
    {"schema", "kind", "name", "run", "row", "region", "score"}
    | {entry.name for entry in fields(Reading)}
)
"""Names that a metric cannot have: a line of the journal, or a table of runs, uses them."""

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


def reading_of_line(line: Mapping[str, Any]) -> Reading:
    """The inverse of ``line_of_reading``; a null where a number must be is NaN.

    Raises:
        CorruptRunError: if the line is not what a reading looks like.
    """
    if not isinstance(line.get("step"), int):
        raise CorruptRunError(f"Expected a reading to have a whole step, got {dict(line)!r}.")
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
