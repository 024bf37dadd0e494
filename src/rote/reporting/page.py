"""The pages as HTML text, and the data that they carry for their scripts."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.formatting import escape_invisible
from rote.reporting.charts import CHARTS, Chart, find_drawable, split_chart
from rote.reporting.charts.filter import describe_change, describe_correlations
from rote.reporting.charts.overview import describe_overview
from rote.reporting.charts.sensitivity import RegionSums, sum_regions
from rote.reporting.checkpoints import Metric, list_names, round_values
from rote.reporting.frame import make_page_frame
from rote.reporting.page_text import FILTERS, count_points
from rote.reporting.palette import DARK, DARK_SHADES, FONT, LIGHT, LIGHT_SHADES
from rote.selection import REGIONS
from rote.version import __version__

if TYPE_CHECKING:
    import jinja2

    from rote.reporting.contents import Contents
    from rote.reporting.live import RunProgress
    from rote.selection import RegionSummary, Selection


def build_payload(contents: Contents) -> dict[str, Any]:
    """Return the data for the scripts of the page, without charts and ``list_numbers``.

    A column that equals another one is stored as the name of that one.
    """
    candidates, sums = contents.candidates, sum_between_thresholds(contents)
    return {
        "runs": list_names(candidates, contents.sample.runs),
        "keys": contents.sample.runs.tolist(),
        "columns": _build_columns(contents),
        "metrics": [_describe_metric(contents, metric) for metric in contents.checkpoints.hinted],
        "own": {
            metric.field: _describe_metric(contents, metric)
            for metric in _find_line_metrics(contents)
        },
        "positions": _find_positions(contents),
        "cells": None if sums is None else [sums.zeta.tolist(), sums.train.tolist()],
        "units": {"zeta": contents.zeta_axis.unit, "train": contents.train_axis.unit},
        "presets": {
            rule: _build_preset(selection) for rule, selection in _find_dividing(contents).items()
        },
        "leading": contents.verdict.selection.rule,
        "signals": [metric.field for metric in contents.checkpoints.signals],
    }


def list_numbers(contents: Contents) -> bytes:
    """Return ζ, training and test accuracy in full as float64 arrays, NaN where unknown.

    The page counts and averages them as Python does, in the same order, and so shows the same
    digits. If there are too many, only those of drawn checkpoints are included, followed by the
    sums between all slider positions.
    """
    candidates, sums = contents.candidates, sum_between_thresholds(contents)
    drawn = contents.checkpoints.positions
    told = candidates if sums is None and contents.shows_regions else candidates.take(drawn)
    names = ("zeta", "train_accuracy", "test_accuracy")
    arrays = [told.values(name) for name in names] + ([] if sums is None else [sums.sums.ravel()])
    return np.concatenate(arrays).astype("<f8").tobytes()


def sum_between_thresholds(contents: Contents) -> RegionSums | None:
    """Return the sums between thresholds; None if the page holds every checkpoint."""
    if contents.counts_each or not contents.shows_regions:
        return None
    thresholds = [selection.thresholds for selection in _find_dividing(contents).values()]
    return sum_regions(
        contents.candidates,
        np.append(contents.zeta_axis.stops, [at["susceptibility"] for at in thresholds]),
        np.append(contents.train_axis.stops, [at["train_accuracy"] for at in thresholds]),
    )


def pack_json(payload: object) -> str:
    """Return values as compressed JSON in base64, which cannot close a script element."""
    return pack_bytes(json.dumps(payload, separators=(",", ":"), allow_nan=False).encode())


def pack_bytes(content: bytes) -> str:
    """Return bytes compressed and in base64, which cannot close a script element."""
    return base64.b64encode(zlib.compress(content, 9)).decode()


def _find_dividing(contents: Contents) -> dict[str, Selection]:
    """Return the selections of rules with regions, by name, if regions are shown."""
    found = {outcome.rule: outcome.selection for outcome in contents.outcomes.values()}
    if not contents.shows_regions:
        return {}
    return {rule: one for rule, one in found.items() if one and one.has_regions}


def _find_positions(contents: Contents) -> list[int] | None:
    """Return the drawn positions among the listed numbers; None if all are drawn."""
    if not contents.checkpoints.is_thinned or not contents.counts_each:
        return None
    if not contents.shows_regions:
        return None
    return [int(position) for position in contents.checkpoints.positions]


def _build_columns(contents: Contents) -> dict[str, Any]:
    checkpoints = contents.checkpoints
    shown = contents.candidates.take(checkpoints.positions)
    kept = [metric.field for metric in (*checkpoints.hinted, *checkpoints.signals)]
    left = {m.field for m in checkpoints.metrics} - set(kept)
    columns: dict[str, Any] = {
        name: values
        for name, values in checkpoints.columns.items()
        if name.removesuffix("_alone") not in left
    }
    columns["run"] = np.searchsorted(contents.sample.runs, shown.run).tolist()
    for name in ("kept", *(name for name in columns if name.endswith("_alone"))):
        columns[name] = [None if value is None else int(value) for value in columns[name]]
    for name in ("run_key", "zeta", "train", "test"):
        del columns[name]
    told = {
        "zeta": round_values(shown.zeta),
        "train": round_values(shown.values("train_accuracy")),
        "test": round_values(shown.values("test_accuracy")),
        "noisy": columns["noisy"],
    }
    for field in kept:
        same = [name for name, values in told.items() if values == columns[field]]
        columns[field] = same[0] if same else columns[field]
    return columns


def _find_line_metrics(contents: Contents) -> list[Metric]:
    """Return the metrics with a chart over steps besides ζ."""
    noisy = [Metric("noisy", "noisy_accuracy")] if contents.checkpoints.has("noisy") else []
    return [*noisy, *contents.checkpoints.signals]


def _describe_metric(contents: Contents, metric: Metric) -> list[str]:
    """Return the field, label and unit of a metric."""
    column = contents.estimated.describe(metric.name)
    return [metric.field, escape_invisible(column.label), column.unit]


def _build_preset(selection: Selection) -> dict[str, Any]:
    return {
        "zeta": selection.thresholds["susceptibility"],
        "train": selection.thresholds["train_accuracy"],
        "regions": [_build_region(entry) for entry in selection.regions],
    }


def _build_region(entry: RegionSummary) -> dict[str, Any]:
    return {
        "count": entry.count,
        "train": entry.train_accuracy,
        "zeta": entry.susceptibility,
        "test": entry.test_accuracy,
    }


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


def render_page(
    contents: Contents,
    own: Mapping[str, Chart] | None = None,
    progress: RunProgress | None = None,
) -> str:
    """Render the page, with the custom charts ``own`` by name."""
    own = own or {}
    charts = find_drawable(CHARTS | dict(own), contents)
    records, missing = collect_records(contents, charts)
    payload = build_payload(contents) | {
        "charts": compile_charts(records, charts),
        "themes": {"light": LIGHT | LIGHT_SHADES, "dark": DARK | DARK_SHADES},
    }
    return (
        _make_environment()
        .get_template("page.html")
        .render(
            contents=contents,
            verdict=contents.verdict,
            charts=CHARTS,
            records=records,
            own=own,
            progress=progress,
            missing=missing,
            regions=REGIONS,
            codes={
                contents.candidates.runs[code]: at for at, code in enumerate(contents.sample.runs)
            },
            in_words=describe_correlations,
            change=describe_change,
            describe_overview=describe_overview,
            points=count_points,
            payload=pack_json(payload),
            numbers=pack_bytes(list_numbers(contents)),
            vega=_pack_vega(),
            scripts="\n".join(map(_read_asset, _SCRIPTS)),
            **_describe_style(),
        )
    )


def render_groups(
    groups: Mapping[str, Contents], key: str, files: Mapping[str, str], progress: RunProgress | None
) -> str:
    """Render the page with the verdict of every group, which links to their pages."""
    page = _make_environment().get_template("groups.html")
    return page.render(groups=groups, key=key, files=files, progress=progress, **_describe_style())


def render_waiting(progress: RunProgress, reason: str) -> str:
    """Render a page with the progress of runs and the reason why there is no verdict yet."""
    page = _make_environment().get_template("waiting.html")
    return page.render(progress=progress, reason=reason, **_describe_style())


@cache
def _make_environment() -> jinja2.Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_ASSETS),
        autoescape=True,  # names given by users are always text, never markup
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= FILTERS
    return environment


def _describe_style() -> dict[str, Any]:
    """Return the styles and scripts that every page shares."""
    now = datetime.now().astimezone()
    return {
        "style": _read_asset("style.css"),
        "light": LIGHT,
        "dark": DARK,
        "font": FONT,
        "version": __version__,
        "made": f"{now:%Y-%m-%d %H:%M:%S}",
    }


def collect_records(
    contents: Contents, charts: Mapping[str, Chart]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Collect the records of all charts, and the reasons of those that cannot be drawn."""
    records: dict[str, Any] = {}
    missing: dict[str, str] = {}
    for name, chart in charts.items():
        try:
            records[name] = chart.record(contents)
        except InputError as error:
            missing[name] = str(error)
    return records, missing


def compile_charts(records: Mapping[str, Any], charts: Mapping[str, Chart]) -> dict[str, Any]:
    """Compile the charts to Vega, by their place on the page."""
    frame = make_page_frame()
    return {
        place: _compile(frame.spec(chart, check=name not in CHARTS))
        for name, record in records.items()
        for place, chart in split_chart(charts[name], record, frame).items()
    }


def _compile(spec: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Compile Vega-Lite to Vega once, instead of in every browser."""
    import vl_convert

    return vl_convert.vegalite_to_vega(json.dumps(spec))


@cache
def _pack_vega() -> str:
    """Return the compressed Vega library, of which only the embedder is exposed."""
    import vl_convert

    return pack_json(vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;"))


def _read_asset(name: str) -> str:
    return (_ASSETS / name).read_text(encoding="utf-8")
