"""The page while runs go on: written anew whenever they have got further, until they are over."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError
from rote.reporting.under_way import UnderWay
from rote.reporting.write_report import Report, report, write_waiting
from rote.store import JOURNAL_FILE, run_directories, status_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rote.store import State

LEAST_WAIT = 5.0
"""Seconds between two looks."""


@dataclass(frozen=True)
class Look:
    """What a look at the runs has found.

    Attributes:
        under_way: how far they are.
        report: what was written last; None if there is no verdict yet.
        trouble: why there is none; None if there is one.
        is_new: whether the page was written now.
        is_over: whether nobody has worked on any run at this look and at the one before.
        wait: after how many seconds to look again.
    """

    under_way: UnderWay
    report: Report | None
    trouble: str | None
    is_new: bool
    is_over: bool
    wait: float


class LivePage:
    """A page of runs that go on.

    Args:
        runs: as for ``rote.report``; directories need not be there yet. Of runs in a logger nobody
            knows when they are over.
        path: the page.
        figures: as for ``rote.report``; they are drawn by ``leave`` only.
        ease: how much longer than the writing of a page the wait for the next one is, at least:
            the runs need the cores, too.
        arguments: whatever else ``rote.report`` takes.
    """

    def __init__(
        self,
        runs: Path | str | Sequence[Path | str],
        path: Path | str,
        *,
        figures: Path | str | None = None,
        ease: float = 4.0,
        **arguments: Any,  # noqa: ANN401
    ) -> None:
        self._runs, self._path, self._figures = runs, Path(path), figures
        self._ease, self._arguments = ease, arguments
        self._over: dict[Path, State] = {}  # who is over stays so; thousands are not asked again
        self._seen: object = None
        self._was_quiet = False
        self._report: Report | None = None
        self._trouble: str | None = None
        self._wait = LEAST_WAIT

    def look(self, total: int = 0, failed: int = 0) -> Look:
        """Write the page anew if anything has changed since the last look.

        Args:
            total: how many runs there will be, if that is known.
            failed: how many are known to have failed, perhaps before they had a directory.

        Raises:
            InputError: if the page cannot be written, or the runs are named by nothing.
        """
        found, seen = self._survey(total, failed)
        is_new = seen is None or seen != self._seen
        if is_new:
            self._write(found)
        else:
            with suppress(OSError):
                os.utime(self._path)  # the page sees that somebody still looks
        self._seen = seen
        is_quiet = found.total is not None and found.total > 0 and not found.running
        is_over, self._was_quiet = is_quiet and self._was_quiet, is_quiet
        return Look(found, self._report, self._trouble, is_new, is_over, self._wait)

    def leave(self, total: int = 0, failed: int = 0) -> Report:
        """Write the page for the last time: it stays as it is, and does not load itself again.

        Args:
            total: as for ``look``.
            failed: as for ``look``.

        Raises:
            RoteError: if there is no verdict; what the page says is why.
        """
        found, _ = self._survey(total, failed)
        is_open = found.total is None or found.running or found.left
        last = replace(found, reload=None) if is_open else None
        try:
            return self._made(last, self._figures)
        except RoteError as error:
            write_waiting(self._path, replace(found, reload=None), str(error))
            raise

    def _made(self, under_way: UnderWay | None, figures: Path | str | None) -> Report:
        how: dict[str, Any] = {**self._arguments, "figures": figures, "under_way": under_way}
        return report(self._runs, self._path, **how)

    def _write(self, found: UnderWay) -> None:
        began = time.process_time()
        try:
            self._report, self._trouble = self._made(found, None), None
        except RoteError as error:
            self._trouble = str(error)
            if self._report is None:
                write_waiting(self._path, found, self._trouble)
        self._wait = max(LEAST_WAIT, self._ease * (time.process_time() - began))

    def _survey(self, total: int, failed: int) -> tuple[UnderWay, object]:
        """How far the runs are; and what differs as soon as they are further, None if unknown."""
        wait = math.ceil(self._wait)
        places = run_directories(self._runs)
        if places is None:
            return UnderWay(wait, total=None), None
        states: dict[Path, State] = {place: self._state(place) for place in places}
        running = [place for place, state in states.items() if state == "running"]
        found = UnderWay(
            wait,
            total=max(len(states), total),
            over=sum(state in ("finished", "tracked") for state in states.values()),
            failed=max(failed, sum(state == "failed" for state in states.values())),
            running=frozenset(running),
        )
        return found, (states, [_size(place) for place in running], total, failed)

    def _state(self, place: Path) -> State:
        if place in self._over:
            return self._over[place]
        state = status_of(place).state
        if state == "finished":
            self._over[place] = state
        return state


def _size(run: Path) -> int:
    with suppress(OSError):
        return (run / JOURNAL_FILE).stat().st_size
    return 0
