"""What a tracker writes to: a sink keeps readings; several are written as one."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any, Protocol

from rote.errors import InputError
from rote.records import Reading


class Sink(Protocol):
    """Keeps the readings of one run."""

    def append(self, reading: Reading, row: int) -> None:
        """Keep one reading; ``row`` counts the readings that came before it."""

    def resume_after(self, step: int) -> None:
        """Declare the readings after ``step`` void: they will be taken again."""

    def close(self) -> None:
        """Nothing more will come."""


def _sync(sink: Sink) -> None:
    """Wait until what a sink was given is on the disk, if it is a file that waits for that."""
    sync = getattr(sink, "sync", None)
    if sync is not None:
        sync()


@dataclass(frozen=True)
class Opened:
    """A sink, and what it holds from before.

    Attributes:
        sink: open for writing.
        place: how messages call it.
        description: what was run, if an earlier run is resumed and it can be read back.
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


class _Member:
    """One sink, with what is known to be in it."""

    def __init__(self, opened: Opened) -> None:
        self.sink = opened.sink
        held = opened.held
        self.held = None if held is None else [_identity(reading) for reading in held]

    def append(self, reading: Reading, row: int) -> None:
        self.sink.append(reading, row)
        if self.held is not None:
            self.held.append(_identity(reading))

    def go_on_from(self, readings: Sequence[Reading]) -> None:
        """Void what is not among the readings, and add what is missing."""
        if self.held is None:
            # Without a reading nothing is known yet: a state may still be loaded.
            if readings:
                self.sink.resume_after(readings[-1].step)
            return
        shared = 0
        for mine, theirs in zip(readings, self.held, strict=False):
            if _identity(mine) != theirs:
                break
            shared += 1
        self.sink.resume_after(readings[shared - 1].step if shared else 0)
        del self.held[shared:]
        for row, reading in enumerate(readings[shared:], start=shared):
            self.append(reading, row)


class Sinks:
    """Several sinks as one: a reading is in every one, or it was not taken.

    Args:
        opened: in the order of writing: those whose failure means that a reading is not taken come
            before those that only wait.
        readable: in the order of trust: whose readings count when an earlier run is resumed.
        directory: the run directory among them, which holds every reading and its rows.
    """

    def __init__(
        self,
        opened: Sequence[Opened] = (),
        readable: Iterable[Opened] = (),
        directory: Path | None = None,
    ) -> None:
        self.directory = directory
        self._members = [_Member(entry) for entry in opened]
        known = [entry.held for entry in readable if entry.held is not None]
        self.earlier: tuple[Reading, ...] = known[0] if known else ()
        """The readings of the run that is resumed."""
        self.found: list[tuple[str, Mapping[str, Any]]] = [
            (entry.place, entry.description) for entry in opened if entry.description is not None
        ]
        """Where earlier runs were found, and what they were."""
        self._is_closed = False
        self._is_copy = False

    def detach(self) -> "Sinks":
        """Return what a copy of the tracker has instead: no sinks, if there are or were any."""
        copy = Sinks(directory=self.directory)
        copy._is_copy = self._is_copy or self._is_closed or bool(self._members)
        return copy

    def check_open(self) -> None:
        """Refuse to go on where a reading would be missed.

        Raises:
            InputError: if there were sinks, and they were closed, or belong to the original.
        """
        if self._is_copy:
            raise InputError(
                "This tracker is a copy, and only the original writes to `save_to`: the same "
                "readings would be written twice. Probe with the original, or make another tracker "
                "with rote.track."
            )
        if self._is_closed:
            raise InputError(
                "Expected the tracker to be open, got a closed one: its `save_to` would miss this "
                "reading. Close it after the last probe, or go on with rote.track(..., "
                "save_to=..., resume=True)."
            )

    def append(self, reading: Reading, row: int) -> None:
        """Write one reading; ``row`` counts the readings that came before it."""
        written: list[Sink] = []
        try:
            for member in self._members:
                member.append(reading, row)
                written.append(member.sink)
        except BaseException:
            # The caller takes the reading as not taken; so must those that have it already.
            for sink in written:
                with suppress(OSError):
                    sink.resume_after(reading.step - 1)
            raise

    def go_on_from(self, readings: Sequence[Reading]) -> None:
        """Make every sink say what the tracker remembers."""
        for member in self._members:
            member.go_on_from(readings)

    def sync(self) -> None:
        """Wait until everything is on the disk: a state that is saved next builds on it."""
        for member in self._members:
            _sync(member.sink)

    def close(self) -> None:
        """Nothing more will come. Closing twice is fine."""
        for member in self._members:
            member.sink.close()
        self._is_closed |= bool(self._members)
        self._members, self.found = [], []


class Writing:
    """One reading on its way to sinks: ``restore`` takes it back, unless that is settled."""

    def __init__(self, sinks: Sinks, earlier: Sequence[Reading]) -> None:
        self._sinks = sinks
        self._earlier = earlier
        self.is_settled = False

    def append(self, reading: Reading) -> None:
        """Write it."""
        try:
            self._sinks.append(reading, row=len(self._earlier))
        except Exception:
            self.is_settled = True  # the sinks have taken it back themselves
            raise

    def restore(self) -> None:
        """Take it back."""
        if not self.is_settled:
            with suppress(OSError):
                self._sinks.go_on_from(self._earlier)


def _identity(reading: Reading) -> tuple[int, float | None]:
    # In a file every number that is not finite is null.
    return reading.step, reading.drop if isfinite(reading.drop) else None
