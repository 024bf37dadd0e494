"""Colors of charts and page: light and dark, safe for the color-blind.

They are Okabe's and Ito's, made darker or brighter where contrast would be too low.
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
"""Colors by their parameter names in charts; the page changes them with its theme."""

REGION_COLORS = ("#0072b2", "#d55e00", "#3d96c9", "#b87f00")
"""A contrast of at least 3:1 on both light and dark backgrounds."""

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
"""Viridis from low to high without the end of low contrast: 0.18 to 0.95, and 0.45 to 1."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"


def color(name: str) -> alt.ExprRef:
    """Return a reference to a color that follows the theme."""
    import altair as alt

    if name not in LIGHT:
        raise KeyError(name)
    return alt.ExprRef(name)


def make_color_parameters() -> list[alt.Parameter]:
    """Return the colors as parameters, light by default."""
    import altair as alt

    light = LIGHT | LIGHT_SHADES
    return [alt.param(name=name, value=value) for name, value in light.items()]


def make_shade_scale(**domain: Any) -> alt.Scale:  # noqa: ANN401
    """Return a color scale from low to high that follows the theme, with the given options."""
    import altair as alt

    return alt.Scale(
        range=[alt.ExprRef(name) for name in LIGHT_SHADES], interpolate="rgb", **domain
    )


def make_borderless() -> alt.ViewBackground:
    """Return a view without border; concatenated charts cannot be configured."""
    import altair as alt

    return alt.ViewBackground(stroke=None)


def add_colors(chart: Any) -> Any:  # noqa: ANN401
    """Add the colors to a chart as parameters, so that it can be concatenated with others."""
    return chart.add_params(*make_color_parameters())


def apply_style(chart: Any, ticks: Any, *, check: bool = True) -> dict[str, Any]:  # noqa: ANN401
    """Return a finished chart in the common style, with about ``ticks`` ticks along x.

    The style is added to plain values, because altair copies and validates a chart at every
    setting. With ``check`` the result is validated, which takes a quarter of the time of a page.
    """
    spec: dict[str, Any] = chart.to_dict(validate=check)
    light = LIGHT | LIGHT_SHADES
    colors = [{"name": name, "value": value} for name, value in light.items()]
    config = spec.get("config", {})
    style = {part: config.get(part, {}) | told for part, told in _make_style(ticks).items()}
    return spec | {
        "params": [*spec.get("params", ()), *colors],
        "background": _refer_to_color("paper"),
        "config": config | style,
    }


def _make_style(ticks: Any) -> dict[str, dict[str, Any]]:  # noqa: ANN401
    words = {
        "labelColor": _refer_to_color("quiet"),
        "titleColor": _refer_to_color("ink"),
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "labelFont": FONT,
        "titleFont": FONT,
    }
    lines = {
        "domainColor": _refer_to_color("line"),
        "tickColor": _refer_to_color("line"),
        "gridColor": _refer_to_color("grid"),
    }
    title = {
        "color": _refer_to_color("ink"),
        "subtitleColor": _refer_to_color("quiet"),
        "font": FONT,
    }
    return {
        "view": {"stroke": None},
        "axis": {**lines, **words, "titlePadding": 8},
        "axisX": {"tickCount": ticks},
        "axisY": {"minExtent": 36},
        "legend": {**words, "titleLimit": 320},
        "title": {"anchor": "start", "fontSize": 14, "subtitleFont": FONT, **title},
        "text": {"font": FONT},
    }


def _refer_to_color(name: str) -> dict[str, Any]:
    described: dict[str, Any] = color(name).to_dict()
    return described
