"""How far runs are that a page is about, while they go on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from rote.reporting.contents import Contents
    from rote.reporting.run_list import RunRow

_MOST_SHOWN = 8


@dataclass(frozen=True)
class UnderWay:
    """How far runs are.

    Attributes:
        reload: after how many seconds the page loads itself again; None if it does not.
        total: how many runs there are, or will be; None if nobody knows, as of a logger.
        over: how many are over, or nobody writes any more.
        failed: how many ended in an error.
        running: the directories of those that somebody is writing.
    """

    reload: int | None
    total: int | None
    over: int = 0
    failed: int = 0
    running: frozenset[Path] = frozenset()

    @property
    def left(self) -> int:
        """How many are neither over nor being written: to come, or cut off."""
        return max(0, (self.total or 0) - self.over - self.failed - len(self.running))

    @property
    def in_words(self) -> str:
        """The line of progress.

        Example:
            >>> UnderWay(5, total=6, over=2, failed=1).in_words
            '2 of 6 runs are over, 1 has failed, 3 are not begun or cut off'
        """
        if self.total is None:
            return "These runs do not say when they are over"
        if not self.total:
            return "No run has begun yet"
        parts = [f"{self.over} of {self.total} run{'s are' if self.total > 1 else ' is'} over"]
        if self.running:
            parts.append(f"{len(self.running)} under way")
        if self.failed:
            parts.append(f"{self.failed} {'have' if self.failed > 1 else 'has'} failed")
        if self.left:
            parts.append(f"{self.left} {'are' if self.left > 1 else 'is'} not begun or cut off")
        return ", ".join(parts)

    def newest(self, contents: Contents) -> list[RunRow]:
        """The last reading of every run that is being written, the first few."""
        paths = contents.candidates.table.paths
        found = [row for row in contents.runs.rows if paths.get(row.name) in self.running]
        return found[:_MOST_SHOWN]
