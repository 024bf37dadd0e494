"""From every figure and table of the paper to a command, what it costs, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.store import write_whole
from rote.studies.markdown import wrapped
from rote.studies.paper import PAPER
from rote.studies.pool import read_pools
from rote.studies.study import studies

if TYPE_CHECKING:
    from pathlib import Path

    from rote.studies.paper import Shown
    from rote.studies.study import Record, Study

LIST = "README.md"
BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
_SECONDS = 30
"""Of one core for a run of the preset `small`, on average."""

Found = Mapping[str, tuple[str, "Record"]]
"""By the name of a study its preset and its record."""


def write_list(found: Found, folder: Path) -> Path:
    """Write what every study found, with links to its page."""
    lines = [
        "# What every study found\n",
        "Made by `rote study show --all --out docs/results` from the runs that are committed. By "
        "figure of the paper, with commands and what they cost: [reproduce.md](../reproduce.md).\n",
        "| study | what it shows | in the paper | here |",
        "|---|---|---|---|",
    ]
    for name, study in studies().items():
        here = study.finding(found[name][1]) if name in found else "not yet run"
        labels = ", ".join(study.paper) or "–"
        lines.append(f"| [{name}]({name}.md) | {study.title} | {labels} | {here} |")
    write_whole(folder / LIST, wrapped("\n".join([*lines, ""])).encode())
    return folder / LIST


def write_figures(found: Found, page: Path) -> Path:
    """Write the table of figures into a page, between the two lines that are there for it.

    Raises:
        InputError: if the page does not have them.
    """
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    before, begin, rest = text.partition(f"{BEGIN}\n")
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise InputError(f"Expected {page} to have the lines {BEGIN} and {END}, got none.")
    write_whole(page, f"{before}{begin}{figure_table(found)}\n{end}{after}".encode())
    return page


def figure_table(found: Found) -> str:
    """Return a row for each figure and table of the paper."""
    return "\n".join(_rows(found))


def _rows(found: Found) -> Iterator[str]:
    yield "| in the paper | what it shows | the paper | here | command | cost |"
    yield "|---|---|---|---|---|---|"
    for label, shown in PAPER.items():
        own = [study for study in studies().values() if label in study.paper]
        here = " ".join(dict.fromkeys(_here(study, shown, found) for study in own))
        commands = "; ".join(f"`{_command(study, shown)}`" for study in own)
        costs = "; ".join(dict.fromkeys(map(_cost, own)))
        yield f"| {label} | {shown.what} | {shown.reported} | {here} | {commands} | {costs} |"


def _here(study: Study, shown: Shown, found: Found) -> str:
    """Return what a study found on the data of a figure."""
    if study.name not in found:
        return "Not yet run."
    preset, record = found[study.name]
    if study.wants is not None and shown.data:
        about = {pool.name for pool in read_pools(preset) if shown.is_about(pool)}
        record = {"pools": {name: of for name, of in record["pools"].items() if name in about}}
        if not record["pools"]:
            return "Not trained here: the data are not at hand."
    return f"{study.finding(record)} [{study.name}](results/{study.name}.md)"


def _command(study: Study, shown: Shown) -> str:
    """Return what trains it: small where there are such data, else as in the paper."""
    if study.wants is None:
        return f"rote study run {study.name}"
    if any(map(shown.is_about, study.pools("small"))):
        return f"rote study run {study.name} --preset small"
    pools = [pool.name for pool in study.pools("paper") if shown.is_about(pool)]
    return f"rote study run {study.name} --preset paper --pool {' --pool '.join(pools)}"


def _cost(study: Study) -> str:
    if study.wants is None:
        return "no runs, seconds"
    small, paper = (sum(len(p.specs) for p in study.pools(name)) for name in ("small", "paper"))
    hours = max(small * _SECONDS / 3600, 0.1)
    return f"small: {small} runs, {hours:.1f} core hours; paper: {paper:,} runs"
