"""The live page of a sweep."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from rote.cli.output import say, to_line
from rote.cli.report import command_line
from rote.errors import RoteError

if TYPE_CHECKING:
    from rote.sweeps import Event, Progress

_EASE = 20.0
"""Workers wait while the page is written, for at most a twentieth of the time."""


class SweepPage:
    """Passes progress on to a view, and updates the page at intervals.

    Args:
        store: of the sweep.
        path: of the page.
        view: the view to pass progress on to.
        clock: in seconds.

    Raises:
        InputError: if the page cannot be written.
    """

    def __init__(
        self,
        store: Path,
        path: Path,
        view: Callable[["Progress", "Event | None"], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rote.reporting import LivePage
        from rote.reporting.output_file import check_writable

        check_writable(path)
        self._store, self._path = store, path
        self._page = LivePage(store, path, ease=_EASE, command=command_line())
        self._view, self._clock, self._next = view, clock, clock()

    def __call__(self, progress: "Progress", event: "Event | None") -> None:
        """Pass on the progress, and update the page if it is due."""
        self._view(progress, event)
        if self._clock() < self._next:
            return
        try:
            wait = self._page.look(progress.total, len(progress.failed)).wait
        except RoteError:  # does not end the sweep; `leave` reports it
            wait = 60.0
        self._next = self._clock() + wait

    def leave(self, progress: "Progress") -> None:
        """Write the page for the last time, and print where it is."""
        from rote.store import run_directories

        try:
            written = self._page.leave(progress.total, len(progress.failed))
        except RoteError as error:
            why = to_line(error) if run_directories(self._store) else "no run has started."
            say(f"Report: {self._path}, without a verdict: {why}", err=True)
        else:
            say(f"Report: {written.path}", err=True)
