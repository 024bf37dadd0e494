"""The page: one file of HTML with everything in it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from rote.reporting.contents import Contents, Runs, contents_of
from rote.reporting.figures import SavedFigures, save_figures
from rote.reporting.file import check_writable, write_file
from rote.reporting.filter_chart import after_filter, before_filter, change, correlation
from rote.reporting.frame import page_frame
from rote.reporting.palette import DARK, DARK_SHADES, FONT, LIGHT, LIGHT_SHADES
from rote.reporting.payload import counts_all, numbers_of, packed, packed_bytes, payload_of
from rote.reporting.region_chart import region_chart
from rote.reporting.sensitivity_chart import sensitivity_chart
from rote.reporting.tracking_chart import noisy_over_time, zeta_over_time
from rote.reporting.verdict import DIVIDING
from rote.reporting.words import coded, counted, interval, named, number, percent, points, visible
from rote.selection.regions import REGIONS
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
    rule: str | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    figures: Path | str | None = None,
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
    contents = contents_of(runs, rule=rule, column=column, mapping=mapping, command=command)
    drawn = SavedFigures() if figures is None else save_figures(contents, Path(figures))
    write_file(path, page_of(contents).encode())
    return Report(path, drawn)


def page_of(contents: Contents) -> str:
    """The page as text.

    Args:
        contents: what it says.
    """
    import jinja2

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
        "charts": page_charts(contents),
        "themes": {"light": LIGHT | LIGHT_SHADES, "dark": DARK | DARK_SHADES},
    }
    return environment.get_template("page.html").render(
        contents=contents,
        verdict=contents.verdict,
        regions=REGIONS,
        codes={name: code for code, name in enumerate(contents.candidates.runs)},
        correlation=correlation,
        change=change,
        dividing=DIVIDING,
        points=points,
        percent=percent,
        number=number,
        counts_all=counts_all(contents),
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


def page_charts(contents: Contents) -> dict[str, Any]:
    """The charts as Vega, by the place on the page where they are drawn.

    Args:
        contents: what they show.
    """
    frame = page_frame()
    charts: dict[str, Any] = {"zeta": zeta_over_time(contents, frame)}
    if contents.has_regions:
        charts["regions"] = region_chart(contents, frame, with_sliders=False)
        charts["sensitivity"] = sensitivity_chart(contents, frame)
    if contents.checkpoints.has("noisy"):
        charts["noisy"] = noisy_over_time(contents, frame)
    if contents.filter is not None:
        charts["before"] = before_filter(contents, frame)
        charts["after"] = after_filter(contents, frame)
    return {name: _compiled(frame.finished(chart)) for name, chart in charts.items()}


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
