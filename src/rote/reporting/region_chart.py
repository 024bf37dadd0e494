"""The region chart: training accuracy against ζ, and the two thresholds that divide it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.reporting.frame import chosen_run, hints, point_size
from rote.reporting.palette import REGION_COLOURS, colour, plain_view, shades
from rote.selection.regions import REGIONS

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.reporting.verdict import Verdict
    from rote.selection import Pick

ZETA_THRESHOLD = "zeta_threshold"
TRAIN_THRESHOLD = "train_threshold"
HEIGHT = 420
_APART = 9


def region_chart(contents: Contents, frame: Frame, *, with_sliders: bool) -> alt.LayerChart:
    """One point per checkpoint; colour is test accuracy, or the region where it is not known.

    Args:
        contents: with regions.
        frame: where it is drawn.
        with_sliders: whether the thresholds have sliders of their own (the page has better ones).
    """
    import altair as alt

    chosen = chosen_run(frame)
    layers = [
        _region_one(contents, frame),
        _points(contents, frame, chosen),
        _path(frame, chosen),
        *_threshold_lines(frame),
        *_region_names(contents),
        *_picks(contents),
    ]
    chart = alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=plain_view())
    return chart.add_params(*_thresholds(contents, frame, with_sliders=with_sliders))


def _thresholds(contents: Contents, frame: Frame, *, with_sliders: bool) -> list[alt.Parameter]:
    import altair as alt

    at = contents.verdict.selection.thresholds
    parameters = []
    for name, axis, value, label in (
        (ZETA_THRESHOLD, contents.zeta_axis, at["susceptibility"], "ζ at most "),
        (TRAIN_THRESHOLD, contents.train_axis, at["train_accuracy"], "training accuracy at least "),
    ):
        bind: Any = alt.Undefined
        if with_sliders:
            ends: dict[str, Any] = {
                "min": axis.first_stop / axis.unit,
                "max": axis.last_stop / axis.unit,
            }
            bind = alt.binding_range(name=label, step=axis.step / axis.unit, **ends)
        parameters.append(alt.param(name=frame.named(name), value=value, bind=bind))
    return parameters


def _x(contents: Contents, field: str = "zeta") -> alt.X:
    import altair as alt

    axis = contents.zeta_axis
    scale = alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False)
    return alt.X(f"{field}:Q", title=f"susceptibility {contents.label}", scale=scale)


def _y(contents: Contents, field: str = "train") -> alt.Y:
    import altair as alt

    axis = contents.train_axis
    return alt.Y(
        f"{field}:Q",
        title="training accuracy",
        scale=alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False),
        axis=alt.Axis(format=axis.ticks),
    )


def _points(contents: Contents, frame: Frame, chosen: alt.Parameter) -> alt.Chart:
    import altair as alt

    top: dict[str, Any] = {
        "orient": "top",
        "direction": "horizontal",
        "offset": 6,
        "titleLimit": 320,
    }
    if contents.has_truth:
        low, high = _test_range(contents)
        ticks = "%" if high <= 1 else ",~f"
        legend = alt.Legend(format=ticks, gradientLength=180, gradientThickness=10, **top)
        scale = shades(domain=[low, high], clamp=True)
        paint = alt.Color("test:Q", title="test accuracy", scale=scale, legend=legend)
    else:
        scale = alt.Scale(domain=list(REGIONS), range=list(REGION_COLOURS))
        paint = alt.Color(
            "region:O", title="region", scale=scale, legend=alt.Legend(symbolType="circle", **top)
        )
    chart: alt.Chart = (
        alt.Chart(frame.data)
        .transform_filter("isValid(datum.zeta) && isValid(datum.train)")
        .transform_calculate(region=_region(frame))
        .mark_circle(aria=False, size=point_size(contents.checkpoints), invalid=None)
        .encode(
            x=_x(contents),
            y=_y(contents),
            color=paint,
            opacity=alt.condition(chosen, alt.value(0.85), alt.value(0.12)),
            tooltip=hints(contents.checkpoints, frame),
        )
        .add_params(chosen)
    )
    return chart


def _region(frame: Frame) -> str:
    zeta, train = frame.named(ZETA_THRESHOLD), frame.named(TRAIN_THRESHOLD)
    return f"1 + (datum.zeta > {zeta} ? 1 : 0) + (datum.train < {train} ? 2 : 0)"


def _test_range(contents: Contents) -> list[float]:
    """From low to high test accuracy; the lowest twentieth, of first epochs, has one colour."""
    test = contents.candidates.test_accuracy
    low, high = np.percentile(test[np.isfinite(test)], [5, 100]).tolist()
    low = math.floor(20 * low) / 20
    return [low, high if high > low else low + 0.05]


def _path(frame: Frame, chosen: alt.Parameter) -> alt.Chart:
    """The way of the chosen run through the regions."""
    import altair as alt

    chart: alt.Chart = (
        alt.Chart(frame.data)
        .transform_filter(alt.ParameterPredicate(param=chosen.name, empty=False))
        .mark_line(aria=False, color=colour("highlight"), strokeWidth=1.5, interpolate="linear")
        .encode(x="zeta:Q", y="train:Q", order="step:Q", detail="run:N")
    )
    return chart


def _region_one(contents: Contents, frame: Frame) -> alt.Chart:
    import altair as alt

    ends = {
        "left": str(contents.zeta_axis.low),
        "right": frame.named(ZETA_THRESHOLD),
        "bottom": frame.named(TRAIN_THRESHOLD),
        "top": str(contents.train_axis.high),
    }
    chart: alt.Chart = (
        alt.Chart(alt.InlineData(values=[{}]))
        .transform_calculate(**ends)
        .mark_rect(aria=False, color=colour("accent"), opacity=0.09)
        .encode(x=_x(contents, "left"), x2="right:Q", y=_y(contents, "bottom"), y2="top:Q")
    )
    return chart


def _threshold_lines(frame: Frame) -> list[alt.Chart]:
    import altair as alt

    base = alt.Chart(alt.InlineData(values=[{}])).transform_calculate(
        zeta=frame.named(ZETA_THRESHOLD), train=frame.named(TRAIN_THRESHOLD)
    )
    mark: dict[str, Any] = {
        "aria": False,
        "color": colour("accent"),
        "strokeWidth": 1.5,
        "clip": True,
    }
    return [base.mark_rule(**mark).encode(x="zeta:Q"), base.mark_rule(**mark).encode(y="train:Q")]


def _region_names(contents: Contents) -> list[alt.Chart]:
    """In the corners, which are found by their values: joined charts have no width to ask for."""
    import altair as alt

    zeta, train = contents.zeta_axis, contents.train_axis
    corners: dict[int, tuple[float, float, dict[str, Any]]] = {
        1: (zeta.low, train.high, {"align": "left", "dx": 8, "dy": 14}),
        2: (zeta.high, train.high, {"align": "right", "dx": -8, "dy": 14}),
        3: (zeta.low, train.low, {"align": "left", "dx": 8, "dy": -10}),
        4: (zeta.high, train.low, {"align": "right", "dx": -8, "dy": -10}),
    }
    return [
        layer
        for region, (x, y, place) in corners.items()
        for layer in _rimmed(
            alt.Chart(alt.InlineData(values=[{"zeta": x, "train": y}])).encode(
                x="zeta:Q", y="train:Q"
            ),
            colour("accent" if region == 1 else "quiet"),
            text=f"Region {region}",
            fontSize=12,
            fontWeight=600,
            **place,
        )
    ]


def _rimmed(base: alt.Chart, paint: alt.ExprRef, **mark: Any) -> list[alt.Chart]:  # noqa: ANN401
    """Text with a rim of paper, readable on top of points."""
    rim = base.mark_text(
        aria=False, color=colour("paper"), stroke=colour("paper"), strokeWidth=4, **mark
    )
    return [rim, base.mark_text(aria=False, color=paint, **mark)]


def _labelled(verdict: Verdict) -> list[tuple[str, Pick]]:
    """Every pick once, with the rules that would keep it."""
    rules: dict[tuple[str, int], list[str]] = {}
    picks = {}
    for outcome in verdict.others:
        if outcome.pick is not None and not verdict.agrees(outcome):
            place = (outcome.pick.run, outcome.pick.step)
            rules.setdefault(place, []).append(outcome.rule)
            picks[place] = outcome.pick
    others = [(", ".join(names), picks[place]) for place, names in rules.items()]
    return [("keep", verdict.selection.pick), *others]


def _picks(contents: Contents) -> list[alt.Chart]:
    """Rings around what the leading rule, and the other of the pair, would keep."""
    import altair as alt

    values: list[dict[str, Any]] = [
        {
            "run": pick.run,
            "step": pick.step,
            "zeta": pick.susceptibility,
            "train": pick.train_accuracy,
            "label": label,
        }
        for label, pick in _labelled(contents.verdict)
        if pick.susceptibility is not None and pick.train_accuracy is not None
    ]
    # Away from each other, so that picks close by do not write over one another.
    values.sort(key=lambda value: -value["train"])
    for rank, value in enumerate(values):
        value["shift"] = 0 if len(values) == 1 else -_APART if rank == 0 else _APART
    base = alt.Chart(alt.InlineData(values=values))
    middle = (contents.zeta_axis.low + contents.zeta_axis.high) / 2
    is_right = f"datum.zeta > {middle!r}"
    ring = base.mark_point(
        aria=False, size=190, filled=False, strokeWidth=2.5, color=colour("ink"), opacity=1
    )
    label = _rimmed(
        base.encode(text="label:N"),
        colour("ink"),
        align=alt.ExprRef(f"{is_right} ? 'right' : 'left'"),
        dx=alt.ExprRef(f"{is_right} ? -13 : 13"),
        dy=alt.ExprRef("datum.shift"),
        fontSize=13,
        fontWeight=700,
    )
    return [layer.encode(x="zeta:Q", y="train:Q") for layer in (ring, *label)]
