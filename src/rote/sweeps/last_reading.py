"""The last reading of a run that is being trained somewhere: the end of its journal."""

import os
from dataclasses import dataclass
from pathlib import Path

from rote.errors import CorruptRunError
from rote.store import JOURNAL_FILE, lines_that_count, parse_line

_TAIL = 16_384  # bytes; a line has less than 1,000


@dataclass(frozen=True)
class LastReading:
    """The last reading of a run.

    Attributes:
        step: after which epoch; 0 before the first.
        susceptibility: ζ.
        train_accuracy: on the given labels.
    """

    step: int = 0
    susceptibility: float | None = None
    train_accuracy: float | None = None


def read_last(run: Path) -> LastReading:
    """Read the end of a journal that another process, perhaps on another machine, is writing.

    There may be nothing in the directory yet.
    """
    if not (run / JOURNAL_FILE).is_file():  # a pipe would never end
        return LastReading()
    try:
        with (run / JOURNAL_FILE).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            raw = file.read()
    except OSError:
        return LastReading()
    # The beginning may be cut off, and the end may be being written.
    lines = [line for part in raw.split(b"\n") if (line := parse_line(part)) is not None]
    try:
        counted = lines_that_count(lines, str(run))
    except CorruptRunError:
        return LastReading()
    if not counted:
        return LastReading()
    last = counted[-1]
    return LastReading(last["step"], last.get("susceptibility"), last.get("train_accuracy"))
