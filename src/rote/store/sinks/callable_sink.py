"""A function of the caller's as a sink."""

from collections.abc import Callable

from rote.records import Reading
from rote.store.sinks.sink import Opened


class CallableSink:
    """Hands every new reading to a function.

    Args:
        function: called with the reading; what it raises, the probe raises, and the reading is not
            taken.
    """

    def __init__(self, function: Callable[[Reading], object]) -> None:
        self._function = function

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Call the function."""
        self._function(reading)

    def resume_after(self, step: int) -> None:
        """Nothing: a function cannot take back what it was told."""

    def close(self) -> None:
        """Nothing: the function is the caller's."""


def open_callable(function: Callable[[Reading], object]) -> Opened:
    """A function as a sink; it is told new readings only."""
    return Opened(CallableSink(function), repr(function), held=None)
