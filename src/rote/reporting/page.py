"""The page: one file of HTML with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.reporting.charts import CHARTS, Chart, find_charts, parts_of
from rote.reporting.charts.filter import change, in_words
from rote.reporting.contents import Contents, Runs, contents_of
from rote.reporting.figures import SavedFigures, save_figures
from rote.reporting.file import check_writable, write_file
from rote.reporting.frame import page_frame
from rote.reporting.page_text import (
    coded,
    counted,
    interval,
    named,
    number,
    percent,
    points,
    visible,
)
from rote.reporting.palette import DARK, DARK_SHADES, FONT, LIGHT, LIGHT_SHADES
from rote.reporting.payload import numbers_of, packed, packed_bytes, payload_of
from rote.selection import DEFAULT_RULE, REGIONS, Rule
from rote.version import __version__

_ASSETS = Path(__file__).parent / "assets"
_SCRIPTS = (
    "payload.js",
    "numbers.js",
    "charts.js",
    "theme.js",
    "paper.js",
    "hint.js",
    "pointing.js",
    "choice.js",
    "thresholds.js",
    "run_table.js",
    "scrolling.js",
    "start.js",
)


@dataclass(frozen=True)
class Report:
    """What was written.

    Attributes:
        path: of the page.
        figures: beside it, if they were asked for.
    """

    path: Path
    figures: SavedFigures


def report(
    runs: Runs,
    path: Path | str = "report.html",
    *,
    rule: str | Rule | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    figures: Path | str | None = None,
    charts: Sequence[str | Chart] = (),
    command: str | None = None,
) -> Report:
    """Write the report: one page that needs nothing else, not even a network.

    Args:
        runs: as for ``rote.select``.
        path: the file to write; an older one is replaced.
        rule: which rule leads the verdict; by default ``staged``, or ``before-rise`` for one run.
        column: which ζ.
        mapping: as for ``rote.select``: where metrics have other names than rote's.
        figures: a folder for the same figures as SVG and PNG; none are written without it.
        charts: of your own, to be put on the page too: each with ``name``, ``title``, ``record``
            and ``draw`` (``rote.reporting.Chart``), as it is or as ``package.module:Name``.
        command: what is said to have made the page.

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
    contents = contents_of(runs, rule=rule, column=column, mapping=mapping, command=command)
    drawn = SavedFigures() if figures is None else save_figures(contents, Path(figures), own)
    write_file(path, page_of(contents, own).encode())
    return Report(path, drawn)


def page_of(contents: Contents, own: Mapping[str, Chart] | None = None) -> str:
    """The page as text, with charts besides those of every report, by name."""
    import jinja2

    own = own or {}
    records, missing = records_of(contents, CHARTS | dict(own))
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,  # everything that a user named is text, whatever it looks like
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    words = (percent, number, counted, interval, visible, named, coded)
    environment.filters |= {word.__name__: word for word in words}
    payload = payload_of(contents) | {
        "charts": page_charts(records, CHARTS | dict(own)),
        "themes": {"light": LIGHT | LIGHT_SHADES, "dark": DARK | DARK_SHADES},
    }
    return environment.get_template("page.html").render(
        contents=contents,
        verdict=contents.verdict,
        charts=CHARTS,
        records=records,
        own=own,
        missing=missing,
        regions=REGIONS,
        default_rule=DEFAULT_RULE,
        codes={contents.candidates.runs[code]: at for at, code in enumerate(contents.sample.runs)},
        in_words=in_words,
        change=change,
        points=points,
        percent=percent,
        number=number,
        payload=packed(payload),
        numbers=packed_bytes(numbers_of(contents)),
        vega=_vega(),
        style=_asset("style.css"),
        scripts="\n".join(map(_asset, _SCRIPTS)),
        light=LIGHT,
        dark=DARK,
        font=FONT,
        version=__version__,
    )


def records_of(
    contents: Contents, charts: Mapping[str, Chart]
) -> tuple[dict[str, Any], dict[str, str]]:
    """What every chart draws, and why some cannot, by name."""
    records: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, chart in charts.items():
        try:
            records[name] = chart.record(contents)
        except InputError as error:
            missing[name] = str(error)
    return records, missing


def page_charts(records: Mapping[str, Any], charts: Mapping[str, Chart]) -> dict[str, Any]:
    """The charts as Vega, by the place on the page where they are drawn."""
    frame = page_frame()
    parts = [parts_of(charts[name], record, frame) for name, record in records.items()]
    return {
        place: _compiled(frame.finished(chart)) for part in parts for place, chart in part.items()
    }


def _compiled(chart: Any) -> Any:  # noqa: ANN401
    """A chart of altair as Vega, compiled once and not in every browser."""
    import vl_convert

    return vl_convert.vegalite_to_vega(json.dumps(chart.to_dict()))


@cache
def _vega() -> str:
    """The library that draws, packed. Of its parts only the embedder is within reach."""
    import vl_convert

    return packed(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
