"""The sensitivity chart: Region 1 for every pair of thresholds."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rote.reporting.palette import colour, plain_view, shades

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

HEIGHT = 380
_HALF = 2.5
_RIGHT = 60
"""Beyond this percentile, names stand to the left of their marks."""

_HINTS = {
    "zeta": "ζ at most",
    "train": "training accuracy at least",
    "count": "checkpoints in Region 1",
    "test_accuracy": "their mean test accuracy",
}


def sensitivity_chart(contents: Contents, frame: Frame) -> alt.LayerChart:
    """A cell per pair of percentiles: mean test accuracy in Region 1, or its size without truth.

    Args:
        contents: with a sensitivity map.
        frame: where it is drawn.
    """
    import altair as alt

    layers = [*_cells(contents), *_marks(contents)]
    return alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=plain_view())


def _cells(contents: Contents) -> list[alt.Chart]:
    import altair as alt

    field, title = (
        ("test_accuracy", "mean test accuracy in Region 1")
        if contents.has_truth
        else ("share", "share of checkpoints in Region 1")
    )
    values = [
        {name: _short(value) for name, value in asdict(cell).items()}
        for cell in contents.cells
        if cell.count
    ]
    ends = {
        "x_end": f"datum.zeta_percentile + {_HALF}",
        "x_start": f"datum.zeta_percentile - {_HALF}",
        "y_end": f"datum.train_percentile + {_HALF}",
        "y_start": f"datum.train_percentile - {_HALF}",
    }
    cells = (
        alt.Chart(alt.InlineData(values=values))
        .transform_calculate(**ends)
        .mark_rect(aria=False, stroke=colour("paper"), strokeWidth=0.5)
        .encode(
            x=_position(alt.X, "x_start", "percentile of ζ that is the threshold"),
            x2="x_end:Q",
            y=_position(alt.Y, "y_start", "percentile of training accuracy"),
            y2="y_end:Q",
            color=alt.Color(f"{field}:Q", title=title, scale=shades(), legend=_legend(contents)),
            tooltip=[alt.Tooltip(f"{name}:N", title=words) for name, words in _HINTS.items()],
        )
    )
    return [cells]


def _legend(contents: Contents) -> alt.Legend:
    import altair as alt

    highest = max((cell.test_accuracy or 0.0 for cell in contents.cells), default=0.0)
    return alt.Legend(
        format="%" if highest <= 1 else ",~f",
        orient="top",
        direction="horizontal",
        gradientLength=180,
        gradientThickness=10,
        titleLimit=320,
    )


def _position(channel: type, field: str, title: str) -> object:
    import altair as alt

    return channel(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[_HALF, 100 - _HALF], nice=False, zero=False),
        axis=alt.Axis(values=list(range(10, 100, 10)), grid=False),
    )


def _marks(contents: Contents) -> list[alt.Chart]:
    import altair as alt

    places: dict[tuple[float, float], list[str]] = {}
    for mark in contents.marks:
        place = (_within(mark.zeta_percentile), _within(mark.train_percentile))
        places.setdefault(place, []).append(mark.rule)
    values = [{"x": x, "y": y, "rule": ", ".join(rules)} for (x, y), rules in places.items()]
    base = alt.Chart(alt.InlineData(values=values)).encode(x="x:Q", y="y:Q")
    side: dict[str, Any] = {
        "align": alt.ExprRef(f"datum.x > {_RIGHT} ? 'right' : 'left'"),
        "dx": alt.ExprRef(f"datum.x > {_RIGHT} ? -11 : 11"),
        "dy": alt.ExprRef(f"datum.y > {_HALF} ? 0 : -8"),
    }
    ring = base.mark_point(
        aria=False,
        size=120,
        filled=True,
        fill="#ffffff",
        stroke="#1d2430",
        strokeWidth=2,
        opacity=1,
    )
    # White letters with a dark rim are readable on every shade.
    rim = base.mark_text(
        aria=False, fontSize=13, fontWeight=700, stroke="#1d2430", strokeWidth=3, **side
    )
    label = base.mark_text(aria=False, fontSize=13, fontWeight=700, color="#ffffff", **side)
    return [ring, rim.encode(text="rule:N"), label.encode(text="rule:N")]


def _within(percentile: float) -> float:
    return min(max(percentile, _HALF), 100 - _HALF)


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
