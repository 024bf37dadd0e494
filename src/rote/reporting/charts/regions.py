"""The region chart: training accuracy against ζ, divided by two thresholds."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rote.formatting import escape_invisible
from rote.records import COLUMNS
from rote.reporting.axis import Axis, choose_tick_format
from rote.reporting.frame import as_channel, make_run_choice, make_tooltip, point_size
from rote.reporting.palette import REGION_COLORS, color, make_borderless, make_shade_scale
from rote.selection import REGIONS

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.checkpoints import Checkpoints
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.reporting.verdict import PageVerdict
    from rote.selection import Floats, Pick

ZETA_THRESHOLD = "zeta_threshold"
TRAIN_THRESHOLD = "train_threshold"
HEIGHT = 420
_APART = 9
_TRAIN = COLUMNS["train_accuracy"].label


@dataclass(frozen=True)
class LabeledPick:
    """A ringed checkpoint with its ζ and training accuracy."""

    label: str
    run: str
    step: int
    zeta: float
    train: float


@dataclass(frozen=True)
class RegionRecord:
    """The data that the chart draws.

    Attributes:
        label: the name of ζ on axes.
        checkpoints: the points.
        zeta: the axis of ζ.
        train: the axis of training accuracy.
        zeta_threshold: at most this is resistant.
        train_threshold: at least this is trainable.
        test_range: test accuracies of the first and last color; None if unknown, and the color is
            the region.
        picks: the checkpoints of the leading rule and of the other region rule.
    """

    label: str
    checkpoints: Checkpoints
    zeta: Axis
    train: Axis
    zeta_threshold: float
    train_threshold: float
    test_range: tuple[float, float] | None
    picks: tuple[LabeledPick, ...]


class RegionChart:
    """Training accuracy against ζ in four regions, with sliders if the chart is interactive."""

    name: ClassVar[str] = "regions"
    title: ClassVar[str] = "Four regions"
    order: ClassVar[int] = 10
    of_regions: ClassVar[bool] = True

    def record(self, contents: Contents) -> RegionRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if no checkpoint has both ζ and training accuracy.
        """
        contents.check_regions()
        thresholds = contents.verdict.selection.thresholds
        return RegionRecord(
            label=contents.label,
            checkpoints=contents.checkpoints,
            zeta=contents.zeta_axis,
            train=contents.train_axis,
            zeta_threshold=thresholds["susceptibility"],
            train_threshold=thresholds["train_accuracy"],
            test_range=_find_test_range(contents.candidates.values("test_accuracy")),
            picks=_label_picks(contents.verdict),
        )

    def draw(self, record: RegionRecord, frame: Frame) -> alt.LayerChart:
        """Draw one point per checkpoint, colored by test accuracy or else by region."""
        import altair as alt

        chosen = make_run_choice(frame)
        layers = [
            _draw_region_one(record, frame),
            _draw_points(record, frame, chosen),
            _draw_path(frame, chosen),
            *_draw_thresholds(frame),
            *_draw_names(record),
            *_draw_rings(record),
        ]
        chart = alt.LayerChart(
            layer=layers, width=frame.width, height=HEIGHT, view=make_borderless()
        )
        return chart.add_params(*_make_thresholds(record, frame))


def _make_thresholds(record: RegionRecord, frame: Frame) -> list[alt.Parameter]:
    """Return the thresholds as parameters; the page has sliders of its own."""
    import altair as alt

    parameters = []
    for name, axis, value, label in (
        (ZETA_THRESHOLD, record.zeta, record.zeta_threshold, "ζ at most "),
        (TRAIN_THRESHOLD, record.train, record.train_threshold, f"{_TRAIN} at least "),
    ):
        bind: Any = alt.Undefined
        if frame.is_live and not frame.is_page:
            ends: dict[str, Any] = {
                "min": axis.first_stop / axis.unit,
                "max": axis.last_stop / axis.unit,
            }
            bind = alt.binding_range(name=label, step=axis.step / axis.unit, **ends)
        parameters.append(alt.param(name=frame.name_parameter(name), value=value, bind=bind))
    return parameters


def _make_x(record: RegionRecord, field: str = "zeta") -> alt.X:
    import altair as alt

    axis = record.zeta
    scale = alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False)
    return alt.X(f"{field}:Q", title=f"susceptibility {record.label}", scale=scale)


def _make_y(record: RegionRecord, field: str = "train") -> alt.Y:
    import altair as alt

    axis = record.train
    return alt.Y(
        f"{field}:Q",
        title=_TRAIN,
        scale=alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False),
        axis=alt.Axis(format=axis.tick_format),
    )


def _draw_points(record: RegionRecord, frame: Frame, chosen: alt.Parameter) -> alt.Chart:
    import altair as alt

    top: dict[str, Any] = {
        "orient": "top",
        "direction": "horizontal",
        "offset": 6,
        "titleLimit": 320,
    }
    if record.test_range is not None:
        shown = choose_tick_format(record.test_range[1])
        legend = alt.Legend(format=shown, gradientLength=180, gradientThickness=10, **top)
        scale = make_shade_scale(domain=list(record.test_range), clamp=True)
        title = COLUMNS["test_accuracy"].label
        paint = alt.Color("test:Q", title=title, scale=scale, legend=legend)
    else:
        scale = alt.Scale(domain=list(REGIONS), range=list(REGION_COLORS))
        paint = alt.Color(
            "region:O", title="region", scale=scale, legend=alt.Legend(symbolType="circle", **top)
        )
    chart: alt.Chart = (
        alt.Chart(frame.data)
        .transform_filter("isValid(datum.zeta) && isValid(datum.train)")
        .transform_calculate(region=_write_region_formula(frame))
        .mark_circle(aria=False, size=point_size(record.checkpoints), invalid=None)
        .encode(
            x=_make_x(record),
            y=_make_y(record),
            color=paint,
            opacity=as_channel(
                alt.OpacityValue, alt.condition(chosen, alt.value(0.85), alt.value(0.12))
            ),
            tooltip=make_tooltip(record.checkpoints, frame),
        )
        .add_params(chosen)
    )
    return chart


def _write_region_formula(frame: Frame) -> str:
    zeta, train = frame.name_parameter(ZETA_THRESHOLD), frame.name_parameter(TRAIN_THRESHOLD)
    return f"1 + (datum.zeta > {zeta} ? 1 : 0) + (datum.train < {train} ? 2 : 0)"


def _find_test_range(test: Floats) -> tuple[float, float] | None:
    """Return the range of colors, from the 5th percentile of test accuracy to its maximum."""
    known = test[np.isfinite(test)]
    if not len(known):
        return None
    low, high = np.percentile(known, [5, 100]).tolist()
    low = math.floor(20 * low) / 20
    return low, high if high > low else low + 0.05


def _draw_path(frame: Frame, chosen: alt.Parameter) -> alt.Chart:
    """Draw the path of the highlighted run through the regions."""
    import altair as alt

    chart: alt.Chart = (
        alt.Chart(frame.data)
        .transform_filter(alt.ParameterPredicate(param=chosen.name, empty=False))
        .mark_line(aria=False, color=color("highlight"), strokeWidth=1.5, interpolate="linear")
        .encode(
            x=alt.X("zeta:Q"),
            y=alt.Y("train:Q"),
            order=alt.Order("step:Q"),
            detail=alt.Detail("run_key:N"),
        )
    )
    return chart


def _draw_region_one(record: RegionRecord, frame: Frame) -> alt.Chart:
    import altair as alt

    ends = {
        "left": str(record.zeta.low),
        "right": frame.name_parameter(ZETA_THRESHOLD),
        "bottom": frame.name_parameter(TRAIN_THRESHOLD),
        "top": str(record.train.high),
    }
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=[{}]))
        .transform_calculate(**ends)
        .mark_rect(aria=False, color=color("accent"), opacity=0.09)
        .encode(
            x=_make_x(record, "left"),
            x2=alt.X2("right:Q"),
            y=_make_y(record, "bottom"),
            y2=alt.Y2("top:Q"),
        )
    )
    return chart


def _draw_thresholds(frame: Frame) -> list[alt.Chart]:
    import altair as alt

    base = alt.Chart(alt.InlineData(values=[{}])).transform_calculate(
        zeta=frame.name_parameter(ZETA_THRESHOLD), train=frame.name_parameter(TRAIN_THRESHOLD)
    )
    mark: dict[str, Any] = {
        "aria": False,
        "color": color("accent"),
        "strokeWidth": 1.5,
        "clip": True,
    }
    return [
        base.mark_rule(**mark).encode(x=alt.X("zeta:Q")),
        base.mark_rule(**mark).encode(y=alt.Y("train:Q")),
    ]


def _draw_names(record: RegionRecord) -> list[alt.Chart]:
    """Draw the names in the corners, placed by value: concatenated charts have no common width."""
    import altair as alt

    zeta, train = record.zeta, record.train
    corners: dict[int, tuple[float, float, dict[str, Any]]] = {
        1: (zeta.low, train.high, {"align": "left", "dx": 8, "dy": 14}),
        2: (zeta.high, train.high, {"align": "right", "dx": -8, "dy": 14}),
        3: (zeta.low, train.low, {"align": "left", "dx": 8, "dy": -10}),
        4: (zeta.high, train.low, {"align": "right", "dx": -8, "dy": -10}),
    }
    return [
        layer
        for region, (x, y, place) in corners.items()
        for layer in _draw_outlined(
            alt.Chart(alt.InlineData(values=[{"zeta": x, "train": y}])).encode(
                x=alt.X("zeta:Q"), y=alt.Y("train:Q")
            ),
            color("accent" if region == 1 else "quiet"),
            text=f"Region {region}",
            fontSize=12,
            fontWeight=600,
            **place,
        )
    ]


def _draw_outlined(base: alt.Chart, paint: alt.ExprRef, **mark: Any) -> list[alt.Chart]:  # noqa: ANN401
    """Draw text with a background-colored outline, readable on top of points."""
    rim = base.mark_text(
        aria=False, color=color("paper"), stroke=color("paper"), strokeWidth=4, **mark
    )
    return [rim, base.mark_text(aria=False, color=paint, **mark)]


def _label_picks(verdict: PageVerdict) -> tuple[LabeledPick, ...]:
    """Return every selected checkpoint once, with the rules that select it."""
    picks = {_place(verdict.selection.pick): ("keep", verdict.selection.pick)}
    for outcome in verdict.others:
        if outcome.pick is not None and not verdict.agrees(outcome):
            place = _place(outcome.pick)
            names = [picks[place][0]] if place in picks else []
            picks[place] = (", ".join([*names, outcome.rule]), outcome.pick)
    return tuple(
        LabeledPick(
            label, escape_invisible(pick.run), pick.step, pick.susceptibility, pick.train_accuracy
        )
        for label, pick in picks.values()
        if pick.susceptibility is not None and pick.train_accuracy is not None
    )


def _place(pick: Pick) -> tuple[str, int]:
    return pick.run, pick.step


def _draw_rings(record: RegionRecord) -> list[alt.Chart]:
    """Draw rings around the checkpoints of the leading rule and the other region rule."""
    import altair as alt

    values = [asdict(pick) for pick in record.picks]
    # Shift labels apart, so that those of close checkpoints do not overlap.
    values.sort(key=lambda value: -value["train"])
    for rank, value in enumerate(values):
        value["shift"] = 0 if len(values) == 1 else -_APART if rank == 0 else _APART
    base = alt.Chart(alt.InlineData(values=values))
    middle = (record.zeta.low + record.zeta.high) / 2
    is_right = f"datum.zeta > {middle!r}"
    ring = base.mark_point(
        aria=False, size=190, filled=False, strokeWidth=2.5, color=color("ink"), opacity=1
    )
    label = _draw_outlined(
        base.encode(text=alt.Text("label:N")),
        color("ink"),
        align=alt.ExprRef(f"{is_right} ? 'right' : 'left'"),
        dx=alt.ExprRef(f"{is_right} ? -13 : 13"),
        dy=alt.ExprRef("datum.shift"),
        fontSize=13,
        fontWeight=700,
    )
    return [layer.encode(x=alt.X("zeta:Q"), y=alt.Y("train:Q")) for layer in (ring, *label)]
