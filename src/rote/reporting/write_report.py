"""``rote.report``: read runs, and write the page, the figures, and a page for every group."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.reporting.charts import Chart, find_charts
from rote.reporting.contents import (
    Contents,
    Runs,
    contents_of,
    contents_of_table,
    leading_rule,
    named_runs,
)
from rote.reporting.figures import SavedFigures, save_figures
from rote.reporting.output_file import check_writable, write_file
from rote.reporting.page import groups_page, page_of, waiting_page
from rote.reporting.provenance import select_words
from rote.selection import Rule, tables_of, why_no_zeta

if TYPE_CHECKING:
    from rote.reporting.under_way import UnderWay

_ODD = re.compile(r"[^\w.=+-]+", re.ASCII)
_LONGEST = 60


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        path: of the page.
        figures: beside it, if they were asked for.
        pages: one for every group of runs, if groups were asked for; the page leads to them.
        note: what the runs lack, and how to come to it, if they hold no ζ.
    """

    path: Path
    figures: SavedFigures
    pages: tuple[Path, ...] = ()
    note: str | None = None


def report(
    runs: Runs,
    path: Path | str = "report.html",
    *,
    rule: str | Rule | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    group_by: str | None = None,
    per_cent: bool = False,
    options: Mapping[str, Any] | None = None,
    figures: Path | str | None = None,
    charts: Sequence[str | Chart] = (),
    command: str | None = None,
    under_way: UnderWay | None = None,
) -> Report:
    """Write the report: one page that needs nothing else, not even a network.

    Args:
        runs: as for ``rote.select``.
        path: the file to write; an older one is replaced.
        rule: which rule leads the verdict; by default the one of ``rote.select``.
        column: which ζ.
        mapping: as for ``rote.select``: where metrics have other names than rote's.
        where: as for ``rote.select``: only the runs that say this of themselves.
        group_by: a dotted name as in ``where``: a verdict for every group of runs, and a page of
            its own beside this one.
        per_cent: as for ``rote.select``: accuracies above 1 are per cent.
        options: of the rule, such as ``{"noise_rate": 0.4}``.
        figures: a folder for the same figures as SVG and PNG; none are written without it.
        charts: of your own, to be put on the page too: each with ``name``, ``title``, ``record``
            and ``draw`` (``rote.reporting.Chart``), as it is or as ``package.module:Name``.
        command: what is said to have made the page.
        under_way: how far runs are that go on: the page says so, and loads itself again
            (``rote.reporting.LivePage`` writes it anew).

    Returns:
        Where everything is.

    Raises:
        InputError: if there is no run, rule, column or checkpoint, or a file cannot be written.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file of a run is damaged.
    """
    path = Path(path)
    check_writable(path)
    own = find_charts(charts)
    chosen: dict[str, Any] = {"mapping": mapping, "where": where, "per_cent": per_cent}
    if group_by is None:
        contents = contents_of(
            runs, rule=rule, column=column, options=options, command=command, **chosen
        )
        return _written(contents, path, figures, own, under_way)
    leading = leading_rule(rule, options)
    groups = {}
    for value, table in tables_of(runs, group_by, **chosen).items():
        only = chosen | {"where": {**(where or {}), group_by: value}, "options": options}
        asked = select_words(named_runs(runs), rule, column=column, **only)
        groups[value] = contents_of_table(table, leading, column, asked, command)
    return _written_groups(groups, group_by, path, figures, own, under_way)


def write_waiting(path: Path, under_way: UnderWay, reason: str) -> None:
    """Write a page that says how far runs are, and why there is no verdict yet.

    Raises:
        InputError: if it cannot be written.
    """
    write_file(path, waiting_page(under_way, reason).encode())


def _written(
    contents: Contents,
    path: Path,
    figures: Path | str | None,
    own: Mapping[str, Chart],
    under_way: UnderWay | None,
) -> Report:
    drawn = SavedFigures() if figures is None else save_figures(contents, Path(figures), own)
    write_file(path, page_of(contents, own, under_way).encode())
    return Report(path, drawn, note=why_no_zeta(contents.candidates))


def _written_groups(
    groups: Mapping[str, Contents],
    key: str,
    path: Path,
    figures: Path | str | None,
    own: Mapping[str, Chart],
    under_way: UnderWay | None,
) -> Report:
    """A page for every group, and one with the verdict of each that leads to them."""
    written: dict[str, Report] = {}
    for place, (value, contents) in enumerate(groups.items(), start=1):
        name = f"{place}-{_ODD.sub('-', value)[:_LONGEST].strip('-.')}".strip("-")
        file = path.with_name(f"{path.stem}-{name}{path.suffix}")
        folder = None if figures is None else Path(figures) / name
        written[value] = _written(contents, file, folder, own, under_way)
    files = {value: one.path.name for value, one in written.items()}
    write_file(path, groups_page(groups, key, files, under_way).encode())
    drawn = [one.figures for one in written.values()]
    saved = SavedFigures(
        tuple(file for part in drawn for file in part.files),
        {name: why for part in drawn for name, why in part.missing.items()},
    )
    return Report(path, saved, tuple(one.path for one in written.values()))
