"""A study: a pure function from runs to a few numbers, a text of these, and a figure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

from rote.errors import InputError, did_you_mean
from rote.extras import list_modules
from rote.studies.paper import PAPER, find_label
from rote.studies.pool import COMMON, FRESH, PRESETS, Pool, has_pools, read_pools

if TYPE_CHECKING:
    from pathlib import Path

    from rote.selection import Candidates
    from rote.store import RunTable

_STUDIES = "rote.studies.figures"

Record = Mapping[str, Any]
"""The numbers of a study: plain values, so that they can be written as JSON."""

CONFIRMED, IN_PART, NOT_CONFIRMED = "confirmed", "confirmed in part", "not confirmed"
"""What may be said about a figure of the paper."""


class Brief(NamedTuple):
    """A study in one line of the index.

    Attributes:
        ours: our number, in the form of the paper's.
        verdict: ``confirmed``, ``confirmed in part`` or ``not confirmed``; None if nothing can be
            said.
    """

    ours: str
    verdict: str | None


def judge_claim(held: Sequence[bool]) -> str | None:
    """Tell the verdict from whether the paper's claim holds, pool by pool."""
    if not held:
        return None
    return CONFIRMED if all(held) else IN_PART if any(held) else NOT_CONFIRMED


ARCHITECTURES = "architectures"
"""The group of pools of the paper's architectures with few channels."""

Tables = Sequence[tuple[Pool, "RunTable"]]
Measured = Sequence[tuple[Pool, Record]]
Examine = Callable[[Pool, "RunTable", "Path | None"], Record]


@dataclass(frozen=True)
class Study:
    """One figure or table. A file in ``rote/studies/figures`` with one as ``STUDY`` is a study.

    Attributes:
        name: as ``rote study run`` calls it.
        title: one line: what it shows.
        measure: the numbers, from the runs of its pools, or of some of them; with ``examine``,
            from what that found.
        text: the numbers as Markdown.
        finding: our number beside the paper's, and whether they agree, in one sentence.
        wants: which pools it looks at; None if it needs no runs.
        draw: the figure, a chart of altair.
        brief: our number and the verdict, for the index; None if the paper does not show it.
        paper: which figures and tables of the paper it shows, by their labels there.
        cause: why it agrees with the paper, or does not, at preset ``small``, as far as we can
            tell: a sentence or two.
        cause_at_medium: the same for preset ``medium``.
        examine: what is measured on the networks of a pool themselves, which are not committed,
            with data from a folder: plain values, which are. None if the runs' records suffice.
        compute: for a study without pools, the numbers from runs that it trains itself, in a
            folder and with data from another one; None if ``measure`` needs no runs at all.

    Example:
        >>> study = find_study("regions")
        >>> study.name
        'regions'
    """

    name: str
    title: str
    measure: Callable[[Any], Record]
    text: Callable[[Record], str]
    finding: Callable[[Record], str]
    wants: Callable[[Pool], bool] | None
    draw: Callable[[Record], Any] | None = None
    paper: tuple[str, ...] = ()
    cause: str = ""
    cause_at_medium: str = ""
    examine: Examine | None = None
    brief: Callable[[Record], Brief] | None = None
    compute: Callable[[Path, Path | None], Record] | None = None

    def find_pools(self, preset: str) -> list[Pool]:
        """Return which runs it looks at.

        Raises:
            InputError: if there is no such preset, or it has no such pools.
        """
        if self.wants is None:
            return []
        found = [pool for pool in read_pools(preset) if self.wants(pool)]
        if not found:
            known = [name for name in PRESETS if has_pools(name) and self.has(name)]
            raise InputError(
                f"Expected `preset` of study {self.name!r} to be one of {', '.join(known)}, got "
                f"{preset!r}."
            )
        return found

    def has(self, preset: str) -> bool:
        """Return whether there are runs for it at a preset, or it needs none."""
        is_wanted = self.wants
        return is_wanted is None or (has_pools(preset) and any(map(is_wanted, read_pools(preset))))

    @property
    def reported(self) -> str:
        """What the paper says about it, a sentence for each figure."""
        if not self.paper:
            return "The paper does not show this."
        shown = [PAPER[label] for label in self.paper]
        return " ".join(f"{one.number}: {one.what}: {one.reported}." for one in shown)


def is_common(pool: Pool) -> bool:
    """Many networks on one set of labels."""
    return pool.group == COMMON


def is_for_rules(pool: Pool) -> bool:
    """Many networks on one set of labels, also those trained when rules were settled."""
    return pool.group in (COMMON, FRESH)


def is_broad(pool: Pool) -> bool:
    """Many networks on one set of labels, or the paper's architectures."""
    return pool.group in (COMMON, ARCHITECTURES)


def is_made(pool: Pool) -> bool:
    """Return the same, with noise that was made, so that everything is known about it."""
    return is_broad(pool) and pool.noise is not None


def match_group(name: str) -> Callable[[Pool], bool]:
    """Return the pools of a group of their own."""
    return lambda pool: pool.group == name


def measure_by_pool(
    function: Callable[[Pool, Candidates], Record | None],
) -> Callable[[Tables], Record]:
    """Return the same numbers of every pool that has them."""
    from rote.selection import make_candidates

    def measure(tables: Tables) -> Record:
        found = {
            p.name: function(p, make_candidates(table, "susceptibility")) for p, table in tables
        }
        return {"pools": {name: numbers for name, numbers in found.items() if numbers is not None}}

    return measure


def studies() -> dict[str, Study]:
    """Return every study, by name.

    Returns:
        The studies, in the order of lists.

    Example:
        >>> "leaderboard" in studies()
        True
    """
    found = (import_module(f"{_STUDIES}.{name}").STUDY for name in list_modules(_STUDIES))
    return {study.name: study for study in sorted(found, key=lambda study: study.name)}


def find_study(name: str) -> Study:
    """Return a study by its name, or by a figure or table of the paper, such as ``figure-1``.

    Args:
        name: such as ``regions``, or ``figure-1``.

    Returns:
        The study.

    Raises:
        InputError: if there is none.

    Example:
        >>> find_study("regions").name
        'regions'
    """
    known = studies()
    label = find_label(name)
    if label is not None:
        return next(study for study in known.values() if label in study.paper)
    if name not in known:
        raise InputError(
            f"Unknown study {name!r}.{did_you_mean(name, known)} Studies: {', '.join(known)}."
        )
    return known[name]
