"""The paper's figure of Theorem 2: both bounds over k̃ for several noise levels, and their mean."""

import csv
import io
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rote.errors import InputError
from rote.records import BoundsRow, BoundsTable
from rote.reporting.palette import FONT
from rote.store import write_whole

if TYPE_CHECKING:
    import altair

WIDTH, HEIGHT = 340, 280
COLUMNS = tuple(field.name for field in fields(BoundsRow))


def write_captions(table: BoundsTable, data: str) -> list[str]:
    """Return the sentences that accompany the bounds."""
    said = [
        f"{table.samples:,} samples of {data}: {table.labels.replace('-1', '−1')}. "
        f"η = {table.eta:g}, k = {table.k:,}, δ = {table.delta:g}."
    ]
    if table.reversed_from is None:
        said.append("More label noise lowers the mean at every step shown, as Proposition 1 says.")
    else:
        said.append(
            f"At step {table.reversed_from:,} (dotted line) more label noise stops lowering the "
            "mean: Proposition 1 is reversed."
        )
    share = _share_where_lower_rises(table)
    if share > 0:
        said.append(f"The lower bound is higher with the most noise at {share:.0%} of the steps.")
    if table.trace_error > 0:
        said.append(f"Low-rank spectrum: it leaves out {table.trace_error:.1%} of the trace.")
    return said


def _share_where_lower_rises(table: BoundsTable) -> float:
    """Return the share of k̃ at which the most noise has the highest lower bound."""
    by_noise: dict[float, list[float]] = {}
    for row in table.rows:
        by_noise.setdefault(row.noise, []).append(row.lower)
    pairs = list(zip(by_noise[min(by_noise)], by_noise[max(by_noise)], strict=True))
    return sum(most > least for least, most in pairs) / len(pairs)


def draw_bounds(table: BoundsTable, data: str) -> "altair.HConcatChart":
    """Draw the bounds as the paper does (lower dashed, upper solid), and their mean beside them.

    Returns:
        An altair chart.
    """
    import altair as alt

    title = alt.TitleParams(
        "How far a network is from random labels after k̃ steps on them",
        subtitle=write_captions(table, data),
        anchor="start",
        fontSize=15,
        subtitleFontSize=12,
        subtitleLineHeight=16,
        subtitlePadding=6,
        offset=14,
    )
    # A logarithmic axis shows where the close lines of the mean cross.
    is_positive = all(row.mu > 0 for row in table.rows)
    panels = (
        _draw_panel(table, ("upper", "lower"), "bounds of Theorem 2: μ/2 ± sqrt(Σ/δ)", "linear"),
        _draw_panel(table, ("mean",), "mean: μ/2", "log" if is_positive else "linear"),
    )
    chart: alt.HConcatChart = (
        alt.hconcat(*panels, spacing=70, bounds="flush", title=title)
        .configure(font=FONT)
        .configure_view(stroke=None)
        .configure_axis(labelFontSize=11, titleFontSize=12, gridColor="#e8e8e8")
        .configure_legend(labelFontSize=11, titleFontSize=12, symbolStrokeWidth=2, symbolSize=500)
    )
    return chart


def save_bounds(table: BoundsTable, data: str, folder: Path) -> dict[str, Path]:
    """Write the figure and its numbers: ``<data>-bounds.svg``, ``.png`` and ``.csv``.

    Each file is written completely or not at all; other files in the folder stay.

    Returns:
        From kind of file to its path.

    Raises:
        InputError: if the folder cannot be written.
    """
    contents = {**_render(draw_bounds(table, data)), "csv": _write_csv(table)}
    files = {kind: folder / f"{data}-bounds.{kind}" for kind in contents}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for kind, path in files.items():
            write_whole(path.resolve(), contents[kind], shared=True)
    except OSError as error:
        raise InputError(
            f"Cannot write to {folder}: {error.strerror}. Choose another folder."
        ) from error
    return files


def _draw_panel(
    table: BoundsTable, series: tuple[str, ...], title: str, scale: Literal["linear", "log"]
) -> "altair.LayerChart":
    """Draw lines over k̃ for the given series, one color per noise level."""
    import altair as alt

    levels = [f"{noise:g}" for noise in sorted({row.noise for row in table.rows})]
    lines = (
        alt.Chart(alt.InlineData(values=_list_values(table, series)))
        .mark_line(strokeWidth=2)
        .encode(
            x=alt.X("k_tilde:Q", title="k̃, steps on random labels", axis=alt.Axis(tickCount=6)),
            y=alt.Y("value:Q", title=title, scale=alt.Scale(type=scale, nice=scale == "linear")),
            color=alt.Color(
                "noise:O",
                title="label noise LNL",
                sort=levels,
                scale=alt.Scale(scheme=alt.SchemeParams(name="viridis", extent=[0.0, 0.9])),
            ),
            strokeDash=alt.StrokeDash(
                "bound:N",
                title="bound",
                scale=alt.Scale(domain=["upper", "lower"], range=[[1, 0], [6, 4]]),
                legend=alt.Legend() if "lower" in series else None,
            ),
        )
    )
    marked = [] if table.reversed_from is None else [{"k_tilde": table.reversed_from}]
    rule = (
        alt.Chart(alt.InlineData(values=marked))
        .mark_rule(color="#555555", strokeDash=[2, 3])
        .encode(x="k_tilde:Q")
    )
    return alt.LayerChart(layer=[lines, rule], width=WIDTH, height=HEIGHT)


def _list_values(table: BoundsTable, series: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {"k_tilde": row.k_tilde, "noise": f"{row.noise:g}", "bound": name, "value": value}
        for row in table.rows
        for name, value in (("lower", row.lower), ("upper", row.upper), ("mean", row.mu / 2))
        if name in series
    ]


def _render(chart: "altair.HConcatChart") -> dict[str, bytes]:
    """Return the chart as SVG, and as PNG at double size for high-resolution screens."""
    svg, png = io.StringIO(), io.BytesIO()
    chart.save(svg, format="svg")
    chart.save(png, format="png", scale_factor=2)
    return {"svg": svg.getvalue().encode(), "png": png.getvalue()}


def _write_csv(table: BoundsTable) -> bytes:
    """Return the rows as CSV with all digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([repr(getattr(row, name)) for name in COLUMNS] for row in table.rows)
    return text.getvalue().encode()
