"""The `Study` class: it computes numbers from runs, and writes them as text and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
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
"""The verdicts on a figure of the paper."""


class Brief(NamedTuple):
    """The result of a study in one line of the index.

    Attributes:
        ours: our number, in the form of the paper's.
        verdict: ``confirmed``, ``confirmed in part`` or ``not confirmed``; None without a verdict.
    """

    ours: str
    verdict: str | None


class View(NamedTuple):
    """How a study shows one figure of the paper.

    Attributes:
        draw: draws the figure from a record, an Altair chart.
        brief: returns our number and the verdict for the index.
    """

    draw: Callable[[Record], Any]
    brief: Callable[[Record], Brief]


def judge_claim(held: Sequence[bool]) -> str | None:
    """Return the verdict, given whether the paper's claim holds in each pool."""
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
    """One figure or table, defined as ``STUDY`` by a file in ``rote/studies/figures``.

    Attributes:
        name: the name for ``rote study run``.
        title: one line that says what it shows.
        measure: computes the numbers from the runs of its pools or, with ``examine``, from the
            examinations of their networks.
        text: writes the numbers as Markdown.
        finding: compares our number with the paper's in one sentence.
        wants: returns whether the study uses a pool; None if it needs no runs.
        draw: draws the figure, an Altair chart.
        brief: returns our number and the verdict for the index; None if the paper does not show it.
        paper: the figures and tables of the paper that it shows, by their labels there.
        cause: why it agrees with the paper or not at preset ``small``, as far as we know, in a
            sentence or two.
        cause_at_medium: the same for preset ``medium``.
        examine: measures the networks of a pool, which are not committed, with data from a
            folder, and returns plain values, which are. None if the runs' records suffice.
        views: by label in the paper, how figures are shown that differ from ``draw`` and ``brief``.
        compute: for a study without pools, trains its own runs in a folder, with data from
            another one, and returns the numbers; None if ``measure`` needs no runs at all.

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
    views: Mapping[str, View] = field(default_factory=dict)

    def get_draw(self, label: str) -> Callable[[Record], Any] | None:
        """Return the function that draws a figure of the paper."""
        return self.views[label].draw if label in self.views else self.draw

    def get_brief(self, label: str) -> Callable[[Record], Brief] | None:
        """Return the function that judges a figure of the paper."""
        return self.views[label].brief if label in self.views else self.brief

    def find_pools(self, preset: str) -> list[Pool]:
        """Return the pools of a preset that the study uses.

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
        """Return whether a preset has pools for the study, or it needs none."""
        is_wanted = self.wants
        return is_wanted is None or (has_pools(preset) and any(map(is_wanted, read_pools(preset))))

    @property
    def reported(self) -> str:
        """What the paper reports, in one sentence for each figure."""
        if not self.paper:
            return "The paper does not show this."
        shown = [PAPER[label] for label in self.paper]
        return " ".join(f"{one.number}: {one.what}: {one.reported}." for one in shown)


def is_common(pool: Pool) -> bool:
    """Return whether a pool has many networks on one set of labels."""
    return pool.group == COMMON


def is_for_rules(pool: Pool) -> bool:
    """Return whether a pool has many networks, including the pools trained last."""
    return pool.group in (COMMON, FRESH)


def is_broad(pool: Pool) -> bool:
    """Return whether a pool has many networks, or the paper's architectures."""
    return pool.group in (COMMON, ARCHITECTURES)


def is_made(pool: Pool) -> bool:
    """Return whether a broad pool has synthetic noise, so that its wrong labels are known."""
    return is_broad(pool) and pool.noise is not None


def match_group(name: str) -> Callable[[Pool], bool]:
    """Return a function that accepts the pools of one group."""
    return lambda pool: pool.group == name


def measure_by_pool(
    function: Callable[[Pool, Candidates], Record | None],
) -> Callable[[Tables], Record]:
    """Return a function that measures every pool, without pools that give None."""
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
        InputError: if there is no such study.

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
