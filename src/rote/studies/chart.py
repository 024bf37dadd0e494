"""The kinds of charts that studies draw, in the house style."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from textwrap import wrap
from typing import Any, NamedTuple

from rote.studies.markdown import format_number
from rote.studies.pool import describe_pool

_WIDE, _HALF, _THIRD = 520, 250, 160
"""Widths of a panel in a row of one, two or three; a row stays below 700."""
_BESIDE_NAMES = 0.78
"""The share of the width that is left to bars, whose names stand beside them."""
_SHARE = 0.66
_BAR = 16
_LETTER = 6
"""The width of a letter of a title."""
_STAR = (
    "M0,-1L0.23,-0.31L0.95,-0.31L0.36,0.12L0.59,0.81"
    "L0,0.38L-0.59,0.81L-0.36,0.12L-0.95,-0.31L-0.23,-0.31Z"
)
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b87f00", "#7b5ea7", "#5b6472")

ARCHITECTURE_COLORS = {
    "alexnet": "#5b6472",
    "cnn": "#0072b2",
    "densenet121": "#8c564b",
    "dla": "#17becf",
    "efficientnet_b0": "#b87f00",
    "googlenet": "#9467bd",
    "mlp": "#333333",
    "mobilenet": "#d55e00",
    "mobilenet_v2": "#e8a33d",
    "preact_resnet18": "#56b4e9",
    "regnetx_200mf": "#6b8e23",
    "resnet18": "#009e73",
    "resnet34": "#3cb371",
    "resnet50": "#2e8b57",
    "resnext29_2x64d": "#a0522d",
    "senet18": "#cc79a7",
    "shufflenet_v2": "#7b5ea7",
    "squeezenet": "#bc8f8f",
    "vgg11": "#e7298a",
    "vgg13": "#f7a6cf",
    "vgg16": "#8b0000",
    "vgg19": "#b5651d",
}
"""An architecture has the same color in every figure."""

Rows = Sequence[dict[str, Any]]


_ROOM = {"left": 36, "right": 18, "top": 12, "bottom": 8}
"""Padding of a picture: a reader's fonts may be wider than those measured here."""


def as_svg(chart: Any) -> bytes:  # noqa: ANN401
    """Return a chart as a picture; no browser is needed."""
    import vl_convert

    from rote.reporting.palette import apply_style

    spec = apply_style(chart, 5) | {"padding": _ROOM}
    return vl_convert.vegalite_to_svg(json.dumps(spec)).encode()


def draw_panels(
    rows: Rows,
    mark: str,
    x: str,
    y: str,
    *,
    titles: tuple[str, str],
    by: str = "pool",
    color: str | None = None,
    dash: str | None = None,
    own_heights: bool = False,
) -> Any:  # noqa: ANN401
    """Draw one panel for each pool.

    Args:
        rows: a dictionary for each mark.
        mark: ``circle``, ``line`` or ``bar``.
        x: a field with its kind, such as ``zeta:Q``.
        y: another.
        titles: of the axes.
        by: the field with one panel per value.
        color: the field with one color per value.
        dash: the field with one stroke per value.
        own_heights: whether each panel has its own vertical scale as well.
    """
    import altair as alt

    sizes: dict[str, Any] = {"size": 18, "opacity": 0.7} if mark == "circle" else {}
    width, columns = _choose_sizes(rows, by)
    if own_heights and columns > 2:
        width, columns = _HALF, 2  # every panel has its own labels
    if y.endswith(":N"):
        width = round(_BESIDE_NAMES * width)
    height = alt.Step(_BAR) if y.endswith(":N") else max(width * _SHARE, 120)
    chart = alt.Chart(width=width, height=height)
    channels: dict[str, Any] = {"color": alt.value(_COLORS[0])} if color is None else {}
    if color is not None:
        channels["color"] = _encode_color(rows, color)
    if dash is not None:
        legend = (
            None
            if dash == color
            else alt.Legend(labelLimit=260, orient="top", columns=2, columnPadding=20)
        )
        channels["strokeDash"] = alt.StrokeDash(dash, sort=None, title=None, legend=legend)
        channels["detail"] = alt.Detail(dash)
    drawn = getattr(chart, f"mark_{mark}")(aria=False, **sizes).encode(
        x=_make_axis(
            alt.X,
            x,
            wrap(titles[0], width // _LETTER),
            begins_at_0=mark == "bar",
            ticks=_count_ticks(width),
        ),
        y=_make_axis(alt.Y, y, titles[1], begins_at_0=mark == "bar"),
        **channels,
    )
    upwards = "independent" if own_heights else "shared"
    return _split_into_facets(drawn, rows, by, columns).resolve_scale(x="independent", y=upwards)


def _choose_sizes(rows: Rows, by: str) -> tuple[int, int]:
    """Return the width of a panel, and the number of panels in a row."""
    count = len({row[by] for row in rows})
    return {0: (_WIDE, 1), 1: (_WIDE, 1), 2: (_HALF, 2)}.get(count, (_THIRD, 3))


def _count_ticks(width: int) -> int:
    """Return how many labels of four digits fit below a panel."""
    return 4 if width > _THIRD else 3


def _make_color_scale(rows: Rows, field: str) -> Any:  # noqa: ANN401
    import altair as alt

    name = field.partition(":")[0]
    shown = list(dict.fromkeys(row[name] for row in rows))
    if all(value in ARCHITECTURE_COLORS for value in shown):
        colors = [ARCHITECTURE_COLORS[value] for value in shown]
    else:
        colors = list(_COLORS)
    return alt.Scale(domain=shown, range=colors)


def _encode_color(rows: Rows, field: str) -> Any:  # noqa: ANN401
    import altair as alt

    return alt.Color(
        field,
        sort=None,
        title=None,
        scale=_make_color_scale(rows, field),
        legend=alt.Legend(
            labelLimit=260, orient="bottom", columns=4, columnPadding=20, symbolOpacity=1
        ),
    )


def _make_axis(
    kind: Any,  # noqa: ANN401
    field: str,
    title: str | list[str],
    *,
    begins_at_0: bool,
    ticks: int = 4,
) -> Any:  # noqa: ANN401
    import altair as alt

    if field.endswith(":N"):
        return kind(field, title=title, sort=None, axis=alt.Axis(labelAngle=0, labelLimit=260))
    scale = alt.Scale(zero=begins_at_0)
    if field.endswith(":O"):
        steps = alt.Axis(labelAngle=0, labelOverlap="greedy", labelSeparation=4)
        return kind(field, title=title, axis=steps)
    # Labels like 2,000 touch in a narrow panel before Vega's own measure of overlap sees it.
    axis = alt.Axis(tickCount=ticks, labelOverlap="greedy", labelSeparation=8)
    return kind(field, title=title, axis=axis, scale=scale)


def _split_into_facets(drawn: Any, rows: Rows, by: str, columns: int) -> Any:  # noqa: ANN401
    import altair as alt

    titles = _align_titles([row[by] for row in rows], is_broken=columns > 1)
    header = alt.Header(
        labelLimit=600,
        labelFontSize=12,
        labelFontWeight="bold",
        labelExpr=r"split(datum.label, '\n')",
    )
    rows = [{**row, by: titles[row[by]]} for row in rows]
    order = list(dict.fromkeys(titles.values()))
    return drawn.facet(
        alt.Facet(f"{by}:N", title=None, sort=order, header=header),
        columns=columns,
        data=alt.InlineData(rows),
    )


def _align_titles(names: Sequence[str], *, is_broken: bool) -> dict[str, str]:
    """Return the titles of panels by name, in lines of which all have equally many.

    ``MNIST, 50 % resampled (6 of 12 runs)`` is wider than a panel. A panel below a shorter title
    would be higher than its neighbors, beside other names than its own.
    """
    titles = {name: describe_pool(name) for name in names}
    if not is_broken:
        return titles
    lines = {n: t.replace(" (", "\n(").replace(", ", "\n").split("\n") for n, t in titles.items()}
    most = max(map(len, lines.values()), default=0)
    return {n: "\n".join([" "] * (most - len(of)) + of) for n, of in lines.items()}


def draw_memorization(pools: Mapping[str, Mapping[str, Any]], zeta: str = "ζ") -> Any:  # noqa: ANN401
    """Draw the accuracy on noisy labels over ζ: a point for each checkpoint, by architecture.

    Args:
        pools: by name, with ``points``.
        zeta: the title of the axis of ζ.
    """
    rows = [{"pool": name, **point} for name, pool in pools.items() for point in pool["points"]]
    titles = (zeta, "accuracy on noisy labels")
    return draw_panels(
        rows, "circle", "zeta:Q", "memorized:Q", titles=titles, color="architecture:N"
    )


class Plane(NamedTuple):
    """Checkpoints between two means, which divide them into four regions.

    Attributes:
        title: above the panel; long lines are wrapped.
        axes: the titles of both axes.
        points: with ``x``, ``y`` and ``test``.
        means: of x and y, drawn as lines.
    """

    title: str
    axes: tuple[str, str]
    points: Rows
    means: Sequence[float | None]


def draw_planes(planes: Sequence[Plane]) -> Any:  # noqa: ANN401
    """Draw panels with both means as lines and test accuracy as color."""
    import altair as alt

    drawn = [plane for plane in planes if plane.points]
    width, columns = {0: (_WIDE, 1), 1: (_WIDE, 1), 3: (_THIRD, 3)}.get(len(drawn), (_HALF, 2))
    parts = [_draw_plane(plane, width) for plane in drawn]
    return alt.concat(*parts, columns=columns).resolve_scale(color="shared")


def _draw_plane(plane: Plane, width: int) -> Any:  # noqa: ANN401
    """Draw one panel; a few x far above the others are drawn at the edge."""
    import altair as alt

    from rote.reporting.palette import make_shade_scale

    highest = max(point["x"] for point in plane.points)
    edge = _find_edge([p["x"] for p in plane.points]) if plane.axes[0] == "ζ" else highest
    rows = [{**point, "x": min(point["x"], edge)} for point in plane.points]
    beyond = "" if edge >= highest else f" (up to {highest:.2g} at the edge)"
    x, y = plane.axes
    legend = alt.Legend(orient="bottom", format="%", gradientLength=200)
    color = alt.Color("test:Q", title="test accuracy", scale=make_shade_scale(), legend=legend)
    circles = alt.Chart(alt.InlineData(rows)).mark_circle(aria=False, size=26, opacity=0.85)
    encoded = circles.encode(
        x=_make_axis(alt.X, "x:Q", f"{x}{beyond}", begins_at_0=False),
        y=_make_axis(alt.Y, "y:Q", y, begins_at_0=False),
        color=color,
    )
    rules = [
        alt.Chart(alt.InlineData([{key: mean}]))
        .mark_rule(strokeDash=[5, 4], aria=False)
        .encode(**{key: alt.Y(f"{key}:Q") if key == "y" else alt.X(f"{key}:Q")})
        for key, mean in zip(("x", "y"), plane.means, strict=True)
        if mean is not None and (key == "y" or mean <= edge)
    ]
    layer = alt.layer(encoded, *rules).properties(width=width, height=max(width * _SHARE, 120))
    lines = _wrap_title(plane.title, width)
    return layer.properties(title=alt.TitleParams(lines, fontSize=12))


def _wrap_title(title: str, width: int) -> list[str]:
    """Return a title in lines that fit above a panel."""
    most = max(width // _LETTER, 40)
    return [part for line in title.split("\n") for part in wrap(line, most, break_on_hyphens=False)]


def _find_edge(values: Sequence[float]) -> float:
    """Return the end of an axis of ζ, such that a diverged run does not squeeze all others."""
    ordered = sorted(values)
    high = ordered[int(0.95 * (len(ordered) - 1))]
    low = ordered[0]
    return min(ordered[-1], high + 0.5 * (high - low))


def filter_pairs(pools: Mapping[str, tuple[Rows, Mapping[str, float | None]]]) -> Any:  # noqa: ANN401
    """Draw test over training accuracy: all checkpoints left, the lower half of ζ right.

    Args:
        pools: by name, points with ``train``, ``test``, ``kept`` and ``architecture``, and the
            correlation of both panels, ``all`` and ``kept``.
    """
    import altair as alt

    parts = []
    every = [point for points, _ in pools.values() for point in points]
    for name, (points, found) in pools.items():
        for title, key in (("all", "all"), ("ζ below its median", "kept")):
            shown = [point for point in points if key == "all" or point["kept"]]
            drawn = (
                alt.Chart(alt.InlineData(shown), width=_HALF, height=_HALF * _SHARE)
                .mark_circle(aria=False, size=18, opacity=0.7)
                .encode(
                    x=_make_axis(alt.X, "train:Q", "training accuracy", begins_at_0=False),
                    y=_make_axis(alt.Y, "test:Q", "test accuracy", begins_at_0=False),
                    color=_encode_color(every, "architecture:N"),
                )
            )
            lines = [
                *_wrap_title(describe_pool(name), _HALF),
                f"{title}, ρ = {format_number(found[key])}",
            ]
            words = alt.TitleParams(lines, fontSize=12)
            parts.append(drawn.properties(title=words))
    return alt.concat(*parts, columns=2).resolve_scale(color="shared")


def draw_jumps(points: Mapping[str, Rows], jumps: Mapping[str, Rows]) -> Any:  # noqa: ANN401
    """Draw accuracies over ζ, one panel for each key, with sharp rises as stars.

    Args:
        points: by title, with ``zeta``, ``accuracy`` and ``on``, the subset.
        jumps: by title, with ``zeta``, ``accuracy`` and ``cause``, the subset that rose most.
    """
    import altair as alt

    every = [row for rows in points.values() for row in rows]
    parts: list[Any] = []
    for title, rows in points.items():
        if not rows:
            continue
        x = _make_axis(alt.X, "zeta:Q", "ζ", begins_at_0=False, ticks=3)
        named = "" if parts else "training accuracy"
        y = _make_axis(alt.Y, "accuracy:Q", named, begins_at_0=True)
        circles = alt.Chart(alt.InlineData(rows)).mark_circle(aria=False, size=14, opacity=0.5)
        stars = alt.Chart(alt.InlineData(jumps[title])).mark_point(
            aria=False,
            shape=_STAR,
            size=130,
            filled=True,
            opacity=1,
            stroke="#1d2430",
            strokeWidth=0.6,
        )
        color = _encode_color(every, "on:N")
        cause = alt.Color("cause:N", scale=_make_color_scale(every, "on:N"), legend=None)
        layer = alt.layer(
            circles.encode(x=x, y=y, color=color), stars.encode(x=x, y=y, color=cause)
        )
        words = f"{title}, {len(jumps[title])} jumps"
        parts.append(layer.properties(width=_THIRD - 10, height=_HALF * _SHARE, title=words))
    return alt.concat(*parts, columns=3).resolve_scale(color="shared")


def draw_heat(
    rows: Rows, x: str, y: str, value: str, *, titles: tuple[str, str, str], by: str = "pool"
) -> Any:  # noqa: ANN401
    """Draw rectangles, blue above 0 and orange below; one panel for each value of a field."""
    width, columns = _choose_sizes(rows, by)
    drawn = _draw_rectangles(x, y, value, titles, min(width, 320), diverges=True)
    return _split_into_facets(drawn, rows, by, columns)


def draw_heat_panels(
    rows: Rows,
    x: str,
    y: str,
    values: Mapping[str, str],
    *,
    titles: tuple[str, str],
    diverging: Sequence[str] = (),
) -> Any:  # noqa: ANN401
    """Draw rectangles, one panel for each value of each pool, side by side.

    Args:
        rows: a dictionary for each rectangle, with its ``pool``.
        x: a field of percentiles.
        y: another.
        values: the fields of the panels, with their titles.
        titles: of the axes.
        diverging: the fields that are colored around 0.
    """
    import altair as alt

    parts = []
    for name in dict.fromkeys(row["pool"] for row in rows):
        for field, title in values.items():
            shown = [r for r in rows if r["pool"] == name and r[field] is not None]
            drawn = _draw_rectangles(
                x, y, field, (*titles, title), _HALF, is_top_down=True, diverges=field in diverging
            )
            words = alt.TitleParams([*_wrap_title(describe_pool(name), _HALF), title], fontSize=12)
            parts.append(drawn.properties(data=alt.InlineData(shown), title=words))
    return alt.concat(*parts, columns=len(values)).resolve_scale(color="independent")


def _draw_rectangles(
    x: str,
    y: str,
    value: str,
    titles: tuple[str, str, str],
    width: int,
    *,
    is_top_down: bool = False,
    diverges: bool = False,
) -> Any:  # noqa: ANN401
    import altair as alt

    from rote.reporting.palette import make_shade_scale

    order = "ascending" if is_top_down else "descending"
    around_0 = alt.Scale(domainMid=0, range=[_COLORS[1], "#f4f4f4", _COLORS[0]])
    scale = around_0 if diverges else make_shade_scale()
    legend = alt.Legend(
        orient="bottom", gradientLength=min(width, 200), tickCount=5, labelOverlap="greedy"
    )
    return (
        alt.Chart(width=width, height=width)
        .mark_rect(aria=False)
        .encode(
            x=alt.X(f"{x}:O", title=titles[0], axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y(f"{y}:O", title=wrap(titles[1], width // _LETTER), sort=order),
            color=alt.Color(f"{value}:Q", title=titles[2], scale=scale, legend=legend),
        )
    )
