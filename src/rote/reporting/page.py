"""The pages as text: each is HTML with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError
from rote.formatting import visible
from rote.reporting.charts import CHARTS, Chart, drawable, parts_of
from rote.reporting.charts.filter import change, in_words
from rote.reporting.frame import page_frame
from rote.reporting.page_text import (
    breakable,
    coded,
    counted,
    interval,
    named,
    number,
    percent,
    points,
)
from rote.reporting.palette import DARK, DARK_SHADES, FONT, LIGHT, LIGHT_SHADES
from rote.reporting.payload import numbers_of, packed, packed_bytes, payload_of
from rote.selection import REGIONS, compared
from rote.version import __version__

if TYPE_CHECKING:
    import jinja2

    from rote.reporting.contents import Contents
    from rote.reporting.under_way import UnderWay

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
    "live.js",
    "start.js",
)


def page_of(
    contents: Contents,
    own: Mapping[str, Chart] | None = None,
    under_way: UnderWay | None = None,
) -> str:
    """The page as text, with charts besides those of every report, by name."""
    own = own or {}
    charts = drawable(CHARTS | dict(own), contents)
    records, missing = records_of(contents, charts)
    payload = payload_of(contents) | {
        "charts": page_charts(records, charts),
        "themes": {"light": LIGHT | LIGHT_SHADES, "dark": DARK | DARK_SHADES},
    }
    return (
        _environment()
        .get_template("page.html")
        .render(
            contents=contents,
            verdict=contents.verdict,
            charts=CHARTS,
            records=records,
            own=own,
            under_way=under_way,
            missing=missing,
            regions=REGIONS,
            codes={
                contents.candidates.runs[code]: at for at, code in enumerate(contents.sample.runs)
            },
            in_words=in_words,
            change=change,
            points=points,
            percent=percent,
            number=number,
            payload=packed(payload),
            numbers=packed_bytes(numbers_of(contents)),
            vega=_vega(),
            scripts="\n".join(map(_asset, _SCRIPTS)),
            **_dress(),
        )
    )


def groups_page(
    groups: Mapping[str, Contents], key: str, files: Mapping[str, str], under_way: UnderWay | None
) -> str:
    """The page with the verdict of every group of runs, which leads to the pages of each."""
    page = _environment().get_template("groups.html")
    return page.render(groups=groups, key=key, files=files, under_way=under_way, **_dress())


def waiting_page(under_way: UnderWay, reason: str) -> str:
    """A page that says how far runs are, and why there is no verdict yet."""
    page = _environment().get_template("waiting.html")
    return page.render(under_way=under_way, reason=reason, **_dress())


@cache
def _environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,  # everything that a user named is text, whatever it looks like
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    words = (percent, number, counted, interval, visible, named, breakable, coded, compared)
    environment.filters |= {word.__name__: word for word in words}
    return environment


def _dress() -> dict[str, Any]:
    """What every page of ours looks like."""
    now = datetime.now().astimezone()
    return {
        "style": _asset("style.css"),
        "light": LIGHT,
        "dark": DARK,
        "font": FONT,
        "version": __version__,
        "made": f"{now:%Y-%m-%d %H:%M:%S}",
    }


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
    return {
        place: _compiled(frame.spec(chart, check=name not in CHARTS))
        for name, record in records.items()
        for place, chart in parts_of(charts[name], record, frame).items()
    }


def _compiled(spec: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Vega-Lite as Vega, compiled once and not in every browser."""
    import vl_convert

    return vl_convert.vegalite_to_vega(json.dumps(spec))


@cache
def _vega() -> str:
    """The library that draws, packed. Of its parts only the embedder is within reach."""
    import vl_convert

    return packed(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
