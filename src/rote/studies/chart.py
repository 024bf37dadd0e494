"""The kinds of charts that studies draw, in the house style."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

_WIDTH, _HEIGHT, _BAR = 200, 150, 16
_COLUMNS = 3
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#b87f00", "#7b5ea7", "#5b6472")
Rows = Sequence[dict[str, Any]]


def as_svg(chart: Any) -> bytes:  # noqa: ANN401
    """Return a chart as a picture; no browser is needed."""
    import vl_convert

    from rote.reporting.palette import apply_style

    return vl_convert.vegalite_to_svg(json.dumps(apply_style(chart, 5))).encode()


def panels(
    rows: Rows,
    mark: str,
    x: str,
    y: str,
    *,
    titles: tuple[str, str],
    by: str = "pool",
    color: str | None = None,
    own_heights: bool = False,
) -> Any:  # noqa: ANN401
    """One panel for each pool.

    Args:
        rows: a dictionary for each mark.
        mark: ``circle``, ``line`` or ``bar``.
        x: a field with its kind, such as ``zeta:Q``.
        y: another.
        titles: of the axes.
        by: the field that panels differ in.
        color: a field that colors differ in.
        own_heights: whether each panel has a scale of its own upwards, too.
    """
    import altair as alt

    sizes = {"size": 14, "opacity": 0.7} if mark == "circle" else {}
    height = alt.Step(_BAR) if y.endswith(":N") else _HEIGHT
    chart = alt.Chart(width=_WIDTH, height=height)
    drawn = getattr(chart, f"mark_{mark}")(aria=False, **sizes).encode(
        x=_axis(alt.X, x, titles[0], begins_at_0=mark == "bar"),
        y=_axis(alt.Y, y, titles[1], begins_at_0=mark == "bar"),
        color=alt.value(_COLORS[0])
        if color is None
        else alt.Color(
            color,
            sort=None,
            title=None,
            scale=alt.Scale(range=list(_COLORS)),
            legend=alt.Legend(labelLimit=260),
        ),
    )
    upwards = "independent" if own_heights else "shared"
    return _one_each(drawn, rows, by).resolve_scale(x="independent", y=upwards)


def _axis(kind: Any, field: str, title: str, *, begins_at_0: bool) -> Any:  # noqa: ANN401
    import altair as alt

    if field.endswith(":N"):
        return kind(field, title=title, sort=None, axis=alt.Axis(labelAngle=0, labelLimit=260))
    scale = alt.Scale(zero=begins_at_0)
    return kind(field, title=title, axis=alt.Axis(tickCount=4, labelOverlap="greedy"), scale=scale)


def _one_each(drawn: Any, rows: Rows, by: str) -> Any:  # noqa: ANN401
    import altair as alt

    order = list(dict.fromkeys(row[by] for row in rows))
    return drawn.facet(
        alt.Facet(f"{by}:N", title=None, sort=order), columns=_COLUMNS, data=alt.InlineData(rows)
    )


def heat(
    rows: Rows, x: str, y: str, value: str, *, titles: tuple[str, str, str], by: str = "pool"
) -> Any:  # noqa: ANN401
    """Rectangles, colored from low to high; one panel for each pool."""
    import altair as alt

    from rote.reporting.palette import shade_scale

    drawn = (
        alt.Chart(width=_WIDTH, height=_WIDTH)
        .mark_rect(aria=False)
        .encode(
            x=alt.X(f"{x}:O", title=titles[0], axis=alt.Axis(labelAngle=0, labelOverlap=True)),
            y=alt.Y(f"{y}:O", title=titles[1], sort="descending"),
            color=alt.Color(f"{value}:Q", title=titles[2], scale=shade_scale()),
        )
    )
    return _one_each(drawn, rows, by)
