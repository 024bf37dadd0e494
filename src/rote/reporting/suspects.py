"""Samples whose label is probably wrong, as the page shows them: the first of each method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rote.errors import CorruptRunError, InputError
from rote.reporting.pictures import pictures_of
from rote.selection import find_suspects

if TYPE_CHECKING:
    from rote.selection import Selection, SuspectLabel, Suspicion
    from rote.store import RunTable

MOST_SHOWN = 20
_MOST_LISTS = 4

METHODS = {
    "aum": "Area under the margin",
    "confident_learning": "Confident learning",
    "posterior": "Posterior of the holdout",
}
"""What people call them."""


@dataclass(frozen=True)
class SuspectList:
    """What one method suspects.

    Attributes:
        suspicion: all of it.
        pictures: of the first samples, as addresses that hold them, by sample.
    """

    suspicion: Suspicion
    pictures: Mapping[int, str] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The method."""
        return METHODS.get(self.suspicion.method, self.suspicion.method)

    @property
    def believes(self) -> bool:
        """Whether the method says what a sample is."""
        return any(suspect.believed is not None for suspect in self.first)

    @property
    def first(self) -> tuple[SuspectLabel, ...]:
        """Those that are shown."""
        return self.suspicion.suspects[:MOST_SHOWN]


@dataclass(frozen=True)
class SuspectLabels:
    """What the page says of suspects.

    Attributes:
        lists: one per method and set of data.
        left_out: how many more there are.
        trouble: why there is no list, or there are no pictures; empty where nothing is wrong.
    """

    lists: tuple[SuspectList, ...] = ()
    left_out: int = 0
    trouble: str = ""


def collect_suspects(
    table: RunTable, workloads: Mapping[str, Mapping[str, Any]], judged: Selection | None
) -> SuspectLabels:
    """The suspects of runs, with pictures where the data are images that can be found.

    Args:
        table: the runs.
        workloads: what ``workload.json`` says, by run.
        judged: what rule ``posterior`` says about them, if it can.
    """
    try:
        found = [one for one in find_suspects(table, judged) if one.suspects]
    except InputError:
        return SuspectLabels()  # nothing to suspect labels by
    except CorruptRunError as error:
        return SuspectLabels(trouble=str(error))
    lists, trouble = [], ""
    for suspicion in found[:_MOST_LISTS]:
        shown = SuspectList(suspicion)
        try:
            told = workloads.get(suspicion.runs[0], {})
            pictures = pictures_of(told, table.paths[suspicion.runs[0]], shown.first)
            shown = SuspectList(suspicion, pictures)
        except InputError as error:
            trouble = str(error)
        lists.append(shown)
    return SuspectLabels(tuple(lists), max(len(found) - _MOST_LISTS, 0), trouble)
