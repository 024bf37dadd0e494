"""The origin of runs and page: versions, seeds, noise, dates, commands."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rote.records import ZETAS
from rote.reporting.page_text import count
from rote.selection import write_plainly
from rote.version import __version__

if TYPE_CHECKING:
    from datetime import datetime

_MOST_VALUES = 6
_PASSWORD = re.compile("//[^/@ ]+@")
"""User name and password in a URL, which must not be shared."""


@dataclass(frozen=True)
class Fact:
    """One line of the provenance.

    Attributes:
        name: of the fact.
        values: the values found, most frequent first.
    """

    name: str
    values: tuple[str, ...]


def collect_provenance(
    descriptions: Mapping[str, Mapping[str, Any]],
    workloads: Mapping[str, Mapping[str, Any]],
    made: datetime,
    command: str | None,
    same_pick: str,
) -> tuple[Fact, ...]:
    """Collect everything that is recorded about the origin of runs and page."""
    data = [_get_section(workload, "data") for workload in workloads.values()]
    versions = [_get_section(description, "versions") for description in descriptions.values()]
    facts = [
        Fact("Page made", (f"{made:%Y-%m-%d %H:%M} UTC by rote {__version__}",)),
        Fact("Page made by", (_hide_password(command or "rote.report, from Python"),)),
        Fact("Same pick by", (same_pick,)),
        Fact("Runs started", _list_dates(descriptions.values())),
        Fact("Runs started by", _tally(map(_find_command, descriptions.values()))),
        Fact("Data", _tally(map(_describe_data, data))),
        Fact("Label noise", _tally(map(_describe_noise, data))),
        Fact(
            "Seed of the random labels",
            _tally(write_plainly(entry.get("seed")) for entry in descriptions.values()),
        ),
        Fact("Unfinished runs", _list_unfinished(workloads)),
        Fact("Versions", _tally(map(_describe_versions, versions))),
    ]
    return tuple(fact for fact in facts if fact.values)


def select_arguments(
    runs: Sequence[str] | None,
    rule: object = None,
    *,
    column: str = ZETAS[0],
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
    options: Mapping[str, Any] | None = None,
) -> tuple[str, ...] | None:
    """Return the arguments of ``rote select`` that select the same checkpoint; None if none can.

    Args:
        runs: the runs that were read; None for a table, which has no name.
        rule: as requested; an object has no name on a command line.
        column: the column of ζ.
        mapping: names of metrics, by rote's.
        where: properties of the selected runs.
        percent: whether accuracies were divided by 100.
        options: options of the rule; other values than text or numbers must be filled in.
    """
    if runs is None or not isinstance(rule, str | None):
        return None
    words = [*runs, *([] if rule is None else ["--rule", rule])]
    words += [] if column == ZETAS[0] else ["--column", column]
    for option, pairs in (("--map", mapping), ("--where", where)):
        words += [
            word for pair in (pairs or {}).items() for word in (option, "=".join(map(str, pair)))
        ]
    for name, value in (options or {}).items():
        is_plain = isinstance(value, int | float | str)
        words += [f"--{name.replace('_', '-')}", str(value) if is_plain else "FILE"]
    return (*words, *(["--percent"] if percent else []))


def select_command(words: Sequence[str]) -> str:
    """Return the command as it is typed.

    Example:
        >>> select_command(select_arguments(["my runs"], "staged", mapping={"step": "epoch"}))
        "rote select 'my runs' --rule staged --map step=epoch"
    """
    return _hide_password(shlex.join(["rote", "select", *words]))


def _hide_password(command: str) -> str:
    return _PASSWORD.sub("//…@", command)


def _get_section(values: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    section = values.get(name)
    return section if isinstance(section, Mapping) else {}


def _tally(values: Iterable[str | None]) -> tuple[str, ...]:
    """Return distinct values, with the number of runs of each if they differ."""
    counts = Counter(value for value in values if value and value != "None")
    if len(counts) == 1:
        return tuple(counts)
    frequent = counts.most_common(_MOST_VALUES)
    words = [f"{value} ({count(times, 'run')})" for value, times in frequent]
    more = len(counts) - len(frequent)
    return (*words, *([f"and {more} more"] if more else []))


def _list_dates(descriptions: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    found = sorted(str(entry["created"]) for entry in descriptions if entry.get("created"))
    if not found:
        return ()
    return (found[0],) if found[0] == found[-1] else (f"{found[0]} to {found[-1]}",)


def _find_command(description: Mapping[str, Any]) -> str | None:
    command = description.get("command")
    if isinstance(command, list):
        return shlex.join(str(word) for word in command)
    return None if command is None else str(command)


def _describe_versions(versions: Mapping[str, Any]) -> str:
    return " · ".join(f"{name} {version}" for name, version in versions.items())


def _describe_data(data: Mapping[str, Any]) -> str | None:
    if not data.get("name"):
        return None
    sizes = [f"{data[name]} {name}" for name in ("train", "holdout", "test") if data.get(name)]
    return " · ".join([str(data["name"]), *sizes])


def _describe_noise(data: Mapping[str, Any]) -> str | None:
    noise = _get_section(data, "noise")
    realized = noise.get("realized_rate")
    if not noise:
        return None
    parts = [str(noise.get("model", "unknown model"))]
    if isinstance(noise.get("rate"), int | float):
        parts.append(f"rate {noise['rate']:g}")
    if isinstance(realized, int | float):
        parts.append(f"{realized:.1%} of the labels are wrong")
    return ", ".join(parts)


def _list_unfinished(workloads: Mapping[str, Mapping[str, Any]]) -> tuple[str, ...]:
    def names() -> Iterator[str]:
        for name, workload in workloads.items():
            if workload and not workload.get("finished"):
                yield name

    found = list(names())
    shown = found[:_MOST_VALUES]
    more = [f"and {len(found) - len(shown)} more"] if len(found) > len(shown) else []
    return (*shown, *more)
