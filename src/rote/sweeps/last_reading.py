"""The last reading of a run that is being trained somewhere: the end of its journal."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from rote.store.run_directory import JOURNAL_FILE

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
    try:
        with (run / JOURNAL_FILE).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            raw = file.read()
    except OSError:
        return LastReading()
    earlier: list[LastReading] = []
    for line in raw.split(b"\n"):
        try:
            values = json.loads(line)
        except ValueError:
            continue  # the beginning is cut off, or the end is being written
        if values.get("kind") == "resume":
            earlier = [reading for reading in earlier if reading.step <= values["step"]]
        else:
            earlier.append(_reading(values))
    return earlier[-1] if earlier else LastReading()


def _reading(values: dict[str, float | None]) -> LastReading:
    return LastReading(
        int(values.get("step") or 0), values.get("susceptibility"), values.get("train_accuracy")
    )
