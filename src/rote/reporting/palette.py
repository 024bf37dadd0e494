"""Colors of charts and page: light and dark, safe for the color-blind.

They are Okabe's and Ito's, darker or brighter where text or marks would be too faint otherwise.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import altair as alt

LIGHT = {
    "ink": "#1d2430",
    "quiet": "#5b6472",
    "line": "#76818f",
    "grid": "#e6e9ee",
    "paper": "#ffffff",
    "accent": "#0072b2",
    "highlight": "#b34d00",
}
DARK = {
    "ink": "#e8ebf0",
    "quiet": "#a3adbb",
    "line": "#7b8799",
    "grid": "#2b323d",
    "paper": "#171b22",
    "accent": "#56b4e9",
    "highlight": "#ff9d4d",
}
"""What a chart calls each color. They are parameters: the page changes them with its theme."""

REGION_COLORS = ("#0072b2", "#d55e00", "#3d96c9", "#b87f00")
"""Neither too bright for white paper nor too dark for dark paper: 3:1 or more on both."""

LIGHT_SHADES = {
    "shade0": "#433e85",
    "shade1": "#365d8d",
    "shade2": "#2a788e",
    "shade3": "#20938c",
    "shade4": "#27ad81",
    "shade5": "#52c469",
    "shade6": "#93d841",
    "shade7": "#dee41b",
}
DARK_SHADES = {
    "shade0": "#25858e",
    "shade1": "#1f978b",
    "shade2": "#24aa83",
    "shade3": "#3dbc74",
    "shade4": "#65cc5e",
    "shade5": "#95d840",
    "shade6": "#cae11f",
    "shade7": "#fde725",
}
"""Viridis from low to high, without the end that vanishes: 0.18 to 0.95 of it, and 0.45 to 1."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def color(name: str) -> alt.ExprRef:
    """A color that follows the theme."""
    import altair as alt

    if name not in LIGHT:
        raise KeyError(name)
    return alt.ExprRef(name)


def color_parameters() -> list[alt.Parameter]:
    """The colors as parameters, light until somebody sets them."""
    import altair as alt

    light = LIGHT | LIGHT_SHADES
    return [alt.param(name=name, value=value) for name, value in light.items()]


def shades(**domain: Any) -> alt.Scale:  # noqa: ANN401
    """A scale from low to high that follows the theme; ``domain`` is what else it is told."""
    import altair as alt

    return alt.Scale(
        range=[alt.ExprRef(name) for name in LIGHT_SHADES], interpolate="rgb", **domain
    )


def plain_view() -> alt.ViewBackground:
    """No box around a chart; it says so itself, because joined charts have no configuration."""
    import altair as alt

    return alt.ViewBackground(stroke=None)


def colored(chart: Any) -> Any:  # noqa: ANN401
    """A chart with its colors as parameters, which can be joined with others."""
    return chart.add_params(*color_parameters())


def dressed(chart: Any, ticks: Any, *, check: bool = True) -> dict[str, Any]:  # noqa: ANN401
    """A finished chart in the house style; axes of x have about so many ticks.

    As plain values: for every setting of a chart altair copies and checks all of it. To ``check``
    the whole once more, against altair's schema, takes a quarter of the time of making a page.
    """
    spec: dict[str, Any] = chart.to_dict(validate=check)
    light = LIGHT | LIGHT_SHADES
    colors = [{"name": name, "value": value} for name, value in light.items()]
    config = spec.get("config", {})
    style = {part: config.get(part, {}) | told for part, told in _style(ticks).items()}
    return spec | {
        "params": [*spec.get("params", ()), *colors],
        "background": _named("paper"),
        "config": config | style,
    }


def _style(ticks: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    words = {
        "labelColor": _named("quiet"),
        "titleColor": _named("ink"),
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "labelFont": FONT,
        "titleFont": FONT,
    }
    lines = {
        "domainColor": _named("line"),
        "tickColor": _named("line"),
        "gridColor": _named("grid"),
    }
    title = {"color": _named("ink"), "subtitleColor": _named("quiet"), "font": FONT}
    return {
        "view": {"stroke": None},
        "axis": {**lines, **words, "titlePadding": 8},
        "axisX": {"tickCount": ticks},
        "axisY": {"minExtent": 36},
        "legend": {**words, "titleLimit": 320},
        "title": {"anchor": "start", "fontSize": 14, "subtitleFont": FONT, **title},
        "text": {"font": FONT},
    }


def _named(name: str) -> dict[str, Any]:
    described: dict[str, Any] = color(name).to_dict()
    return described
