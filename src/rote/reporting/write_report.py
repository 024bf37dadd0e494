"""``rote.report``: read runs and write the page, its figures, and a page for every group."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, quote as as_shown
from rote.extras import check_docstrings
from rote.reporting.charts import CHARTS, Chart, find_charts, find_drawable
from rote.reporting.contents import (
    Contents,
    Runs,
    find_leading_rule,
    make_contents,
    name_runs,
    read_contents,
)
from rote.reporting.frame import make_chart_frame
from rote.reporting.output_file import check_writable, write_file
from rote.reporting.page import render_groups, render_page, render_waiting
from rote.reporting.provenance import select_arguments
from rote.selection import Rule, explain_no_zeta, read_groups

if TYPE_CHECKING:
    from rote.reporting.charts import Chart
    from rote.reporting.contents import Contents
    from rote.reporting.live import RunProgress

_SCALE = 2.0
_PLACE = re.compile(
    r'viewBox="0 0 ([\d.]+) ([\d.]+)">.*?transform="translate\(([\d.]+),', re.DOTALL
)
_PADDING = {"left": 8, "top": 8, "right": 48, "bottom": 8}
"""Room for viewers whose font is wider than the one that the converter measured."""


@dataclass(frozen=True)
class SavedFigures:
    """The figures that were written.

    Attributes:
        files: all files that were written.
        missing: the reasons why figures could not be drawn, by name.
    """

    files: tuple[Path, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def save_figures(
    contents: Contents, folder: Path, more: Mapping[str, Chart] | None = None
) -> SavedFigures:
    """Write every figure as SVG and PNG, without a browser.

    Each file is written completely or not at all; other files in the folder stay.

    Returns:
        The files, and the figures that could not be drawn.

    Raises:
        InputError: if the folder cannot be written.
    """
    import vl_convert

    frame = make_chart_frame(contents.checkpoints, is_live=False)
    files: list[Path] = []
    missing: dict[str, str] = {}
    everything = CHARTS | dict(more or {})
    shown = find_drawable(everything, contents)
    rule = contents.verdict.selection.rule
    for name in everything.keys() - shown.keys():
        if getattr(everything[name], "of_regions", False):
            missing[name] = (
                f"Rule `{rule}` has no regions. Ask for one that has, such as --rule staged."
            )
    for name, chart in shown.items():
        try:
            record = chart.record(contents)
        except InputError as error:
            missing[name] = str(error)
            continue
        drawing = frame.spec(chart.draw(record, frame), check=name not in CHARTS)
        spec = json.dumps(drawing | {"padding": _PADDING})
        try:
            drawn = {
                "svg": widen(vl_convert.vegalite_to_svg(spec)).encode(),
                "png": vl_convert.vegalite_to_png(spec, scale=_SCALE),
            }
        except ValueError as error:  # an empty chart, or labels larger than the figure
            missing[name] = f"Expected a chart that can be drawn, got: {_find_last_line(error)}."
            continue
        for kind, content in drawn.items():
            files.append(folder / f"{name}.{kind}")
            write_file(files[-1], content)
    return SavedFigures(tuple(files), missing)


def widen(svg: str) -> str:
    """Widen a figure to its left, where labels end, for viewers with wider fonts.

    The converter measures text with its own font; that of a viewer may be a third wider.

    Example:
        >>> widen('<svg width="100" height="9" viewBox="0 0 100 9"><rect width="100" height="9" '
        ...       'fill="#fff"/><g transform="translate(50,5)"></g></svg>')[:42]
        '<svg width="117" height="9" viewBox="-17 0'
    """
    place = _PLACE.search(svg)
    if place is None:
        return svg
    width, height, left = (int(float(number)) for number in place.groups())
    more = math.ceil(left / 3)
    old = (f'width="{width}"', f'viewBox="0 0 {width} {height}"')
    new = (f'width="{width + more}"', f'viewBox="{-more} 0 {width + more} {height}"')
    svg = svg.replace(old[1], new[1], 1).replace(old[0], new[0], 1)
    return svg.replace(f"<rect {old[0]}", f'<rect x="{-more}" {new[0]}', 1)


def _find_last_line(error: ValueError) -> str:
    """Return the message of the converter without its stack trace."""
    said = [line for line in str(error).splitlines() if not line.startswith("    at ")]
    return as_shown(said[-1].strip()) if said else "nothing"


_ODD = re.compile(r"[^\w.=+-]+", re.ASCII)
_LONGEST = 60


@dataclass(frozen=True)
class Report:
    """The files of a report.

    Attributes:
        path: the path of the page.
        figures: the figures, if requested.
        pages: one for every group of runs, if requested; the page links to them.
        note: if the runs have no ζ, how to record it.

    Example:
        >>> from pathlib import Path
        >>> from rote.reporting import report
        >>> import polars as pl, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> pl.DataFrame({"step": [1, 2], "susceptibility": [0.1, 0.2],
        ...     "train_accuracy": [0.5, 0.9]}).write_csv(folder / "a.csv")
        >>> report(f"csv:{folder}/a.csv", folder / "report.html").path.name
        'report.html'
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
    percent: bool = False,
    options: Mapping[str, Any] | None = None,
    figures: Path | str | None = None,
    charts: Sequence[str | Chart] = (),
    command: str | None = None,
    progress: RunProgress | None = None,
) -> Report:
    """Write the report: one self-contained page that works offline.

    Args:
        runs: see ``rote.select``.
        path: the file to write; an existing one is replaced.
        rule: the rule of the verdict; by default that of ``rote.select``.
        column: the column of ζ.
        mapping: as for ``rote.select``, if metrics have other names than rote's.
        where: as for ``rote.select``: only the runs with these properties.
        group_by: a dotted name as in ``where``, for a verdict and a page per group of runs.
        percent: as for ``rote.select``: accuracies above 1 are in percent.
        options: options of the rule, such as ``{"noise_rate": 0.4}``.
        figures: a folder for the figures as SVG and PNG; by default none are written.
        charts: custom charts to add, each with ``name``, ``title``, ``record`` and ``draw``
            (``rote.reporting.Chart``), as an object or as ``package.module:Name``.
        command: the command that the page names as its origin.
        progress: the progress of runs, for a page that reloads itself
            (``rote.reporting.LivePage`` writes it again).

    Returns:
        The files that were written.

    Raises:
        InputError: if there is no run, rule, column or checkpoint, or a file cannot be written.
        MissingExtraError: if the package of a source is not installed, or Python runs with ``-OO``.
        CorruptRunError: if a file of a run is damaged.

    Example:
        >>> from pathlib import Path
        >>> import polars as pl, tempfile
        >>> folder = Path(tempfile.mkdtemp())
        >>> pl.DataFrame({"step": [1, 2], "susceptibility": [0.1, 0.2],
        ...     "train_accuracy": [0.5, 0.9]}).write_csv(folder / "a.csv")
        >>> report(f"csv:{folder}/a.csv", folder / "report.html").path.name
        'report.html'
    """
    path = Path(path)
    check_docstrings("altair")
    check_writable(path)
    own = find_charts(charts)
    chosen: dict[str, Any] = {"mapping": mapping, "where": where, "percent": percent}
    if group_by is None:
        contents = read_contents(
            runs, rule=rule, column=column, options=options, command=command, **chosen
        )
        return _write_one(contents, path, figures, own, progress)
    leading = find_leading_rule(rule, options)
    groups = {}
    for value, table in read_groups(runs, group_by, **chosen).items():
        only = chosen | {"where": {**(where or {}), group_by: value}, "options": options}
        asked = select_arguments(name_runs(runs), rule, column=column, **only)
        groups[value] = make_contents(table, leading, column, asked, command)
    return _write_groups(groups, group_by, path, figures, own, progress)


def write_waiting(path: Path, progress: RunProgress, reason: str) -> None:
    """Write a page with the progress of runs and the reason why there is no verdict yet.

    Raises:
        InputError: if it cannot be written.
    """
    write_file(path, render_waiting(progress, reason).encode())


def _write_one(
    contents: Contents,
    path: Path,
    figures: Path | str | None,
    own: Mapping[str, Chart],
    progress: RunProgress | None,
) -> Report:
    drawn = SavedFigures() if figures is None else save_figures(contents, Path(figures), own)
    write_file(path, render_page(contents, own, progress).encode())
    return Report(path, drawn, note=explain_no_zeta(contents.candidates))


def _write_groups(
    groups: Mapping[str, Contents],
    key: str,
    path: Path,
    figures: Path | str | None,
    own: Mapping[str, Chart],
    progress: RunProgress | None,
) -> Report:
    """Write a page for every group, and one with all verdicts that links to them."""
    written: dict[str, Report] = {}
    for place, (value, contents) in enumerate(groups.items(), start=1):
        name = f"{place}-{_ODD.sub('-', value)[:_LONGEST].strip('-.')}".strip("-")
        file = path.with_name(f"{path.stem}-{name}{path.suffix}")
        folder = None if figures is None else Path(figures) / name
        written[value] = _write_one(contents, file, folder, own, progress)
    files = {value: one.path.name for value, one in written.items()}
    write_file(path, render_groups(groups, key, files, progress).encode())
    drawn = [one.figures for one in written.values()]
    saved = SavedFigures(
        tuple(file for part in drawn for file in part.files),
        {name: why for part in drawn for name, why in part.missing.items()},
    )
    return Report(path, saved, tuple(one.path for one in written.values()))
