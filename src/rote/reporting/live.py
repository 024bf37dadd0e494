"""The live page: rewritten while runs make progress, until they are finished."""

from __future__ import annotations

import math
import os
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import RoteError
from rote.reporting.write_report import Report, report, write_waiting
from rote.store import JOURNAL_FILE, find_run_directories, read_status

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from rote.reporting.contents import Contents
    from rote.reporting.run_list import RunRow
    from rote.store import State

_MOST_SHOWN = 8


@dataclass(frozen=True)
class RunProgress:
    """The progress of runs.

    Attributes:
        reload: seconds until the page reloads itself; None if it does not.
        total: how many runs there are or will be; None if unknown, as with a logger.
        finished: the number of runs that are finished or no longer written.
        failed: the number of runs that ended with an error.
        running: the directories of runs in progress.
    """

    reload: int | None
    total: int | None
    finished: int = 0
    failed: int = 0
    running: frozenset[Path] = frozenset()

    @property
    def left(self) -> int:
        """The number of runs that have not started or were interrupted."""
        return max(0, (self.total or 0) - self.finished - self.failed - len(self.running))

    @property
    def sentence(self) -> str:
        """The progress in a sentence.

        Example:
            >>> RunProgress(5, total=6, finished=2, failed=1).sentence
            '2 of 6 runs finished, 1 failed, 3 not started or interrupted'
        """
        if self.total is None:
            return "The number of runs is unknown: a logger does not say when its runs end"
        if not self.total:
            return "No run has started yet"
        parts = [f"{self.finished} of {self.total} run{'s' if self.total > 1 else ''} finished"]
        if self.running:
            parts.append(f"{len(self.running)} in progress")
        if self.failed:
            parts.append(f"{self.failed} failed")
        if self.left:
            parts.append(f"{self.left} not started or interrupted")
        return ", ".join(parts)

    def newest(self, contents: Contents) -> list[RunRow]:
        """Return the rows of the first few runs in progress."""
        paths = contents.candidates.table.paths
        found = [row for row in contents.runs.rows if paths.get(row.name) in self.running]
        return found[:_MOST_SHOWN]


LEAST_WAIT = 5.0
"""The shortest time between two updates, in seconds."""


@dataclass(frozen=True)
class Look:
    """The result of one update.

    Attributes:
        progress: of the runs.
        report: the report that was written last; None if there is no verdict yet.
        trouble: why there is no verdict; None if there is one.
        is_new: whether this update wrote the page.
        is_over: whether no run was in progress at this update and the one before.
        wait: seconds until the next update.
    """

    progress: RunProgress
    report: Report | None
    trouble: str | None
    is_new: bool
    is_over: bool
    wait: float


class LivePage:
    """A page about runs in progress.

    Args:
        runs: as for ``rote.report``; directories need not exist yet. Runs in a logger do not say
            when they are finished.
        path: the path of the page.
        figures: as for ``rote.report``; only ``leave`` writes them.
        ease: the least ratio of waiting time to writing time, so that the runs keep the cores.
        arguments: further arguments of ``rote.report``.

    Example:
        >>> import polars as pl, tempfile
        >>> from pathlib import Path
        >>> folder = Path(tempfile.mkdtemp())
        >>> page = LivePage(folder / "runs", folder / "report.html")
        >>> (folder / "report.html").exists()  # it is written when the page is updated
        False
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
        self._finished: dict[
            Path, State
        ] = {}  # finished runs stay finished; do not read thousands again
        self._seen: object = None
        self._was_quiet = False
        self._report: Report | None = None
        self._trouble: str | None = None
        self._wait = LEAST_WAIT

    def look(self, total: int = 0, failed: int = 0) -> Look:
        """Write the page again if anything has changed since the last update.

        Args:
            total: how many runs there will be, if known.
            failed: the number of runs that have failed, including those without a directory.

        Raises:
            InputError: if the page cannot be written, or no runs are given.
        """
        found, seen = self._survey(total, failed)
        is_new = seen is None or seen != self._seen
        if is_new:
            self._write(found)
        else:
            with suppress(OSError):
                os.utime(self._path)  # tells the open page that it is still being updated
        self._seen = seen
        is_quiet = found.total is not None and found.total > 0 and not found.running
        is_over, self._was_quiet = is_quiet and self._was_quiet, is_quiet
        return Look(found, self._report, self._trouble, is_new, is_over, self._wait)

    def leave(self, total: int = 0, failed: int = 0) -> Report:
        """Write the page for the last time; it no longer reloads itself.

        Args:
            total: see ``look``.
            failed: see ``look``.

        Raises:
            RoteError: if there is no verdict; the page shows the reason.
        """
        found, _ = self._survey(total, failed)
        is_open = found.total is None or found.running or found.left
        last = replace(found, reload=None) if is_open else None
        try:
            return self._write_report(last, self._figures)
        except RoteError as error:
            write_waiting(self._path, replace(found, reload=None), str(error))
            raise

    def _write_report(self, progress: RunProgress | None, figures: Path | str | None) -> Report:
        how: dict[str, Any] = {**self._arguments, "figures": figures, "progress": progress}
        return report(self._runs, self._path, **how)

    def _write(self, found: RunProgress) -> None:
        began = time.process_time()
        try:
            self._report, self._trouble = self._write_report(found, None), None
        except RoteError as error:
            self._trouble = str(error)
            if self._report is None:
                write_waiting(self._path, found, self._trouble)
        self._wait = max(LEAST_WAIT, self._ease * (time.process_time() - began))

    def _survey(self, total: int, failed: int) -> tuple[RunProgress, object]:
        """Return the progress of the runs and a value that changes with it, None if unknown."""
        wait = math.ceil(self._wait)
        places = find_run_directories(self._runs)
        if places is None:
            return RunProgress(wait, total=None), None
        states: dict[Path, State] = {place: self._state(place) for place in places}
        running = [place for place, state in states.items() if state == "running"]
        found = RunProgress(
            wait,
            total=max(len(states), total),
            finished=sum(state in ("finished", "tracked") for state in states.values()),
            failed=max(failed, sum(state == "failed" for state in states.values())),
            running=frozenset(running),
        )
        return found, (states, [_get_journal_size(place) for place in running], total, failed)

    def _state(self, place: Path) -> State:
        if place in self._finished:
            return self._finished[place]
        state = read_status(place).state
        if state == "finished":
            self._finished[place] = state
        return state


def _get_journal_size(run: Path) -> int:
    with suppress(OSError):
        return (run / JOURNAL_FILE).stat().st_size
    return 0
