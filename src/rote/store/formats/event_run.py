"""One run in TensorBoard: all event files of one directory."""

import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError
from rote.store.formats.event_file import (
    JOURNAL_TAG,
    RUN_TAG,
    SUFFIX,
    event_files,
    read_values,
)
from rote.store.formats.lines import Line, lines_that_count
from rote.store.schema import RESERVED


@dataclass(frozen=True)
class EventRun:
    """What a directory of event files says.

    Attributes:
        description: what was run; empty if rote did not write it.
        lines: the readings that count; None if rote did not write it.
        scalars: by step, then name: the last value of each that others wrote.
    """

    description: Mapping[str, Any]
    lines: list[Line] | None
    scalars: Mapping[int, Mapping[str, float]]


def read_event_run(directory: Path) -> EventRun:
    """Read all event files of a directory.

    Raises:
        CorruptRunError: if one is damaged.
        OSError: if one cannot be read.
    """
    description: dict[str, Any] = {}
    journal: list[Line] = []
    scalars: dict[int, dict[str, float]] = defaultdict(dict)
    files = event_files(directory)
    for path in files:
        is_ours = path.name.endswith(SUFFIX)
        for value in read_values(path):
            if isinstance(value, int):
                if not is_ours:
                    scalars = defaultdict(dict, {s: v for s, v in scalars.items() if s < value})
            elif isinstance(value.content, str):
                found = _decoded(value.content, path)
                if value.tag == RUN_TAG:
                    description = found
                elif value.tag == JOURNAL_TAG:
                    journal.append(found)
            elif not is_ours:
                scalars[value.step][value.tag] = value.content
    if not any(path.name.endswith(SUFFIX) for path in files):
        return EventRun({}, None, scalars)
    lines = lines_that_count(journal, str(directory))
    return EventRun(description, [_beside(line, scalars) for line in lines], scalars)


def _beside(line: Line, scalars: Mapping[int, Mapping[str, float]]) -> Line:
    others = scalars.get(line["step"], {})
    return {name: value for name, value in others.items() if name not in RESERVED} | dict(line)


def _decoded(text: str, path: Path) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise CorruptRunError(f"Expected {path} to hold lines of rote, got: {error}.") from error
    if not isinstance(found, dict):
        raise CorruptRunError(f"Expected {path} to hold lines of rote, got {text[:80]!r}.")
    return found
