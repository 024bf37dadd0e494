"""What a tracker writes to: a run directory, a logger, or anything else that keeps readings."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from rote.records import Reading


class Sink(Protocol):
    """Keeps the readings of one run."""

    def append(self, reading: Reading, row: int) -> None:
        """Keep one reading; ``row`` counts the readings that came before it."""

    def resume_after(self, step: int) -> None:
        """Declare the readings after ``step`` void: they will be taken again."""

    def close(self) -> None:
        """Nothing more will come."""


@dataclass(frozen=True)
class Opened:
    """A sink, and what it holds from before.

    Attributes:
        sink: open for writing.
        place: how messages call it.
        description: what was run, if an earlier run is gone on with and it can be read back.
        held: the readings that it holds; None if it cannot tell.
        undo: closes it and takes back what opening it wrote, if nothing else was written since; by
            default it is only closed.
    """

    sink: Sink
    place: str
    description: Mapping[str, Any] | None = None
    held: tuple[Reading, ...] | None = ()
    undo: Callable[[], None] | None = None

    def take_back(self) -> None:
        """Leave things as if it had never been opened, as far as that goes."""
        if self.undo is None:
            self.sink.close()
        else:
            self.undo()
