"""The overview chart: accuracies and ζ of the selected run over its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rote.errors import InputError
from rote.formatting import escape_invisible, format_share
from rote.reporting.axis import Axis, make_accuracy_axis, make_zeta_axis
from rote.reporting.charts.tracking import make_step_axis
from rote.reporting.checkpoints import round_values
from rote.reporting.frame import join_charts
from rote.reporting.palette import color, make_borderless

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection import Integers

HEIGHT = 260
ZETA_HEIGHT = 110
MEMORIZING = "memorizing"
LATER = "later steps"
_RISE = 0.02
"""The least rise of training accuracy after the selected step that is called memorization."""

_MOST_POINTS = 400
_LEFT = 46
"""The width of both vertical axes, so that the panels are aligned."""

_WIDE = 0.15
"""The least share of the steps that the label of the shaded part needs."""

_BESIDE = 20
"""How far the title of the lower axis may reach beyond its ends."""

_LATE = 0.7
_ABOVE = -3
"""Where the name of the selected step stands, above the panel: no line passes there."""

_LEGEND_OFFSET = 26
"""The distance of the legend from the panel, with room for that name."""

_NARROW = 560


@dataclass(frozen=True)
class Series:
    """One line.

    Attributes:
        column: the recorded column.
        label: its name in the legend.
        color: its color in the palette.
        dash: its dashes.
        width: of the line.
        values: one per step; None where unknown.
    """

    column: str
    label: str
    color: str
    dash: tuple[int, int]
    width: float
    values: tuple[float | None, ...]


_STYLES: dict[str, tuple[str, str, tuple[int, int], float]] = {
    "estimated_accuracy": ("estimated accuracy", "accent", (1, 0), 3.0),
    "train_accuracy": ("training accuracy", "line", (1, 0), 2.0),
    "validation_accuracy": ("noisy validation accuracy", "highlight", (6, 3), 2.0),
    "test_accuracy": ("test accuracy", "ink", (2, 3), 2.0),
}
"""Label, color, dashes and width of each line; the first known one has the ring."""


@dataclass(frozen=True)
class OverviewRecord:
    """The data that the chart draws.

    Attributes:
        run: the selected run.
        step: the selected step.
        last: the last step of the run.
        steps: the steps that are drawn.
        series: the known accuracies.
        axis: of the accuracies.
        zeta: ζ by step, None where unknown; empty if it is unknown everywhere.
        zeta_axis: of ζ.
        zeta_label: the name of ζ.
    """

    run: str
    step: int
    last: int
    steps: tuple[int, ...]
    series: tuple[Series, ...]
    axis: Axis
    zeta: tuple[float | None, ...]
    zeta_axis: Axis
    zeta_label: str

    def change_after(self, column: str) -> tuple[float, float] | None:
        """Return an accuracy at the selected and at the last step; None if unknown."""
        for series in self.series:
            if series.column == column:
                values = dict(zip(self.steps, series.values, strict=True))
                first, last = values[self.step], values[self.last]
                return None if first is None or last is None else (first, last)
        return None

    @property
    def is_late(self) -> bool:
        """Whether the selected step is near the end."""
        first, length = self.steps[0], self.last - self.steps[0]
        return length > 0 and self.step - first > _LATE * length

    @property
    def later_label(self) -> str:
        """What the steps after the selected one are called."""
        change = self.change_after("train_accuracy")
        is_flat = change is not None and change[1] - change[0] < _RISE * max(1.0, self.axis.high)
        return LATER if is_flat else MEMORIZING


class OverviewChart:
    """Accuracies of the selected run over its steps, and ζ below on an aligned axis."""

    name: ClassVar[str] = "overview"
    title: ClassVar[str] = "Training and memorization"
    order: ClassVar[int] = 0

    def applies(self, contents: Contents) -> bool:
        """Return whether any accuracy or ζ of the selected run is known."""
        try:
            self.record(contents)
        except InputError:
            return False
        return True

    def record(self, contents: Contents) -> OverviewRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if neither ζ nor an accuracy of the selected run is known.
        """
        candidates, pick = contents.judged, contents.verdict.selection.pick
        code = candidates.runs.index(pick.run)
        places = np.flatnonzero(candidates.run == code)
        places = _thin_out(places, int(np.flatnonzero(candidates.step[places] == pick.step)[0]))
        found = []
        for column, (label, paint, dash, width) in _STYLES.items():
            values = candidates.values(column)[places]
            if np.isfinite(values).any():
                known = tuple(round_values(values))
                found.append(Series(column, label, paint, dash, width, known))
        zeta = candidates.zeta[places]
        if not found and not np.isfinite(zeta).any():
            raise InputError("Neither ζ nor an accuracy of the selected run is recorded.")
        everything = np.array([v for one in found for v in one.values], dtype=np.float64)
        steps = tuple(int(step) for step in candidates.step[places])
        return OverviewRecord(
            run=escape_invisible(pick.run),
            step=pick.step,
            last=steps[-1],
            steps=steps,
            series=tuple(found),
            axis=make_accuracy_axis(everything),
            zeta=tuple(round_values(zeta)) if np.isfinite(zeta).any() else (),
            zeta_axis=make_zeta_axis(zeta),
            zeta_label=contents.label,
        )

    def parts(self, record: OverviewRecord, frame: Frame) -> dict[str, alt.LayerChart]:
        """Draw the panels, each for its place on the page."""
        found = {}
        if record.series:
            found["overview"] = _draw_accuracies(record, frame)
        if record.zeta:
            found["overview-zeta"] = _draw_zeta(record, frame)
        return found

    def draw(self, record: OverviewRecord, frame: Frame) -> alt.VConcatChart:
        """Draw the panels one above the other."""
        import altair as alt

        charts = list(self.parts(record, frame).values())
        made: alt.VConcatChart = join_charts(alt.vconcat, charts).properties(spacing=8)
        return made


def describe_overview(record: OverviewRecord) -> str:
    """Describe what happens after the selected step; empty if little is known."""
    if record.step == record.last:
        return "The selected step is the last one of its run: no sign of memorization to avoid."
    train, estimate = (
        record.change_after(name) for name in ("train_accuracy", "estimated_accuracy")
    )
    if train is None and estimate is None:
        return f"The shaded part is training after step {record.step}."
    parts = [
        f"{name} goes from {format_share(change[0], 1)} to {format_share(change[1], 1)}"
        for name, change in (("training accuracy", train), ("estimated accuracy", estimate))
        if change is not None
    ]
    return f"After step {record.step}, {' and '.join(parts)}."


def find_gap(record: OverviewRecord) -> float:
    """Return the height at which a label over the later steps is farthest from all lines.

    Args:
        record: what the chart draws.

    Returns:
        A share of the height of the panel, from 0 at the bottom to 1 at the top.
    """
    heights = np.linspace(0.95, 0.05, 19)
    span = max(record.axis.high - record.axis.low, 1e-12)
    lines = [
        (value - record.axis.low) / span
        for one in record.series
        for step, value in zip(record.steps, one.values, strict=True)
        if step >= record.step and value is not None
    ]
    distances = np.abs(heights[:, None] - np.array([*lines, -1.0])).min(axis=1)
    return float(heights[int(distances.argmax())])


def _thin_out(places: Integers, kept: int) -> Integers:
    """Return evenly spaced places, with the first, the last and the selected one."""
    if len(places) <= _MOST_POINTS:
        return places
    spaced = np.linspace(0, len(places) - 1, _MOST_POINTS).round().astype(np.int64)
    return np.asarray(places[np.unique(np.append(spaced, kept))])


def _draw_accuracies(record: OverviewRecord, frame: Frame) -> alt.LayerChart:
    import altair as alt

    rows = [
        {"step": step, "value": value, "series": one.label}
        for one in record.series
        for step, value in zip(record.steps, one.values, strict=True)
        if value is not None
    ]
    labels = [one.label for one in record.series]
    legend = alt.Legend(
        orient="top",
        direction="horizontal",
        columns=2 if frame.width != "container" else alt.ExprRef(f"width < {_NARROW} ? 1 : 4"),
        labelLimit=0,
        labelFontSize=12,
        symbolType="stroke",
        symbolStrokeWidth=3,
        symbolSize=400,
        columnPadding=16,
        offset=_LEGEND_OFFSET,
        title=None,
    )
    axis = record.axis
    y = alt.Y(
        "value:Q",
        title="accuracy",
        scale=alt.Scale(domain=[axis.low, axis.high], nice=False, zero=False),
        axis=_make_axis(format=axis.tick_format, tickCount=5),
    )
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=make_step_axis(record.steps[0], record.last, has_labels=not record.zeta), y=y
    )
    scales: dict[str, list[Any]] = {
        "color": [color(one.color) for one in record.series],
        "strokeDash": [list(one.dash) for one in record.series],
        "strokeWidth": [one.width for one in record.series],
    }
    lines = base.mark_line(aria=False).encode(
        color=alt.Color(
            "series:N", scale=alt.Scale(domain=labels, range=scales["color"]), legend=legend
        ),
        strokeDash=alt.StrokeDash(
            "series:N",
            scale=alt.Scale(domain=labels, range=scales["strokeDash"]),
            legend=legend,
        ),
        strokeWidth=alt.StrokeWidth(
            "series:N",  # without the type, widths would be spaced between two ends
            scale=alt.Scale(type="ordinal", domain=labels, range=scales["strokeWidth"]),
            legend=None,
        ),
    )
    first = record.series[0]
    at = dict(zip(record.steps, first.values, strict=True))[record.step]
    layers = [
        *_draw_selected(record, has_label=True),
        lines,
        *_draw_ring(record.step, at),
        *_draw_targets(base, frame, "series"),
    ]
    return alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=make_borderless())


def _draw_zeta(record: OverviewRecord, frame: Frame) -> alt.LayerChart:
    import altair as alt

    rows = [
        {"step": step, "value": value}
        for step, value in zip(record.steps, record.zeta, strict=True)
        if value is not None
    ]
    axis = record.zeta_axis
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        x=make_step_axis(record.steps[0], record.last),
        y=alt.Y(
            "value:Q",
            title="susceptibility ζ" if record.zeta_label == "ζ" else record.zeta_label,
            scale=alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False),
            axis=_make_axis(tickCount=3, titleLimit=ZETA_HEIGHT + 2 * _BESIDE),
        ),
    )
    at = dict(zip(record.steps, record.zeta, strict=True))[record.step]
    layers = [
        *_draw_selected(record, has_label=False),
        base.mark_line(aria=False, color=color("ink"), strokeWidth=2),
        *_draw_ring(record.step, at),
        *_draw_targets(base, frame),
    ]
    return alt.LayerChart(
        layer=layers, width=frame.width, height=ZETA_HEIGHT, view=make_borderless()
    )


def _make_axis(**options: Any) -> alt.Axis:  # noqa: ANN401
    import altair as alt

    return alt.Axis(minExtent=_LEFT, maxExtent=_LEFT, titlePadding=2, **options)


def _draw_selected(record: OverviewRecord, *, has_label: bool) -> list[alt.Chart]:
    """Shade the steps after the selected one, and draw a line at it, with its name above."""
    import altair as alt

    ends = {"start": record.step, "end": record.last}
    base = alt.Chart(alt.InlineData(values=[ends]))
    layers = []
    if record.step < record.last:
        shade = base.mark_rect(aria=False, color=color("highlight"), opacity=0.1)
        layers.append(shade.encode(x=alt.X("start:Q"), x2=alt.X2("end:Q")))
        share = (record.last - record.step) / max(record.last - record.steps[0], 1)
        if has_label and share >= _WIDE:
            middle = alt.Chart(alt.InlineData(values=[{"at": (record.step + record.last) / 2}]))
            text = middle.mark_text(
                aria=False,
                text=record.later_label,
                color=color("highlight"),
                fontSize=12,
                fontWeight=600,
                baseline="middle",
                y=HEIGHT * (1 - find_gap(record)),
            )
            layers.append(text.encode(x=alt.X("at:Q")))
    line = base.mark_rule(aria=False, color=color("accent"), strokeDash=[4, 3], strokeWidth=1.5)
    layers.append(line.encode(x=alt.X("start:Q")))
    if has_label:
        name = base.mark_text(
            aria=False,
            text=f"step {record.step:,}",
            color=color("accent"),
            fontSize=13,
            fontWeight=700,
            align="right" if record.is_late else "left",
            baseline="bottom",
            y=_ABOVE,
        )
        layers.append(name.encode(x=alt.X("start:Q")))
    return layers


def _draw_ring(step: int, value: float | None) -> list[alt.Chart]:
    """Draw a ring around a checkpoint."""
    import altair as alt

    if value is None:
        return []
    base = alt.Chart(alt.InlineData(values=[{"step": step, "value": value}])).encode(
        x=alt.X("step:Q"), y=alt.Y("value:Q")
    )
    ring = base.mark_point(
        aria=False,
        size=150,
        filled=True,
        fill=color("paper"),
        stroke=color("accent"),
        strokeWidth=3,
        opacity=1,
    )
    return [ring]


def _draw_targets(base: alt.Chart, frame: Frame, *fields: str) -> list[alt.Chart]:
    """Draw invisible points that show their values when pointed at."""
    import altair as alt

    if not frame.is_live:
        return []
    points = base.mark_point(aria=False, size=180, filled=True, opacity=0)
    names = [*fields, "step", "value"]
    return [points.encode(tooltip=[alt.Tooltip(f"{name}:N", title=name) for name in names])]
