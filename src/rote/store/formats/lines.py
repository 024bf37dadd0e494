"""Lines of a journal that were kept somewhere else than in a file."""

from collections.abc import Iterable, Mapping
from typing import Any

from rote.records import Reading
from rote.store.schema import check_version, reading_of_line

Line = Mapping[str, Any]


def lines_that_count(lines: Iterable[Line], where: str) -> list[Line]:
    """The readings among them, without those that were taken again.

    A logger may be told a reading twice, when the first time was not sure to have worked: a reading
    voids earlier ones of its step and after, as a marker voids those after its step.

    Args:
        lines: in the order in which they were written.
        where: for messages.

    Raises:
        CorruptRunError: if a line is of another version.
    """
    kept: list[Line] = []
    for line in lines:
        check_version(line.get("schema"), where)
        is_reading = line.get("kind") == "reading"
        if is_reading or line.get("kind") == "resume":
            last = line["step"] - is_reading
            while kept and kept[-1]["step"] > last:
                kept.pop()
        if is_reading:
            kept.append(line)
    return kept


def readings_of(lines: Iterable[Line]) -> tuple[Reading, ...]:
    """Lines as readings."""
    return tuple(reading_of_line(line) for line in lines)
