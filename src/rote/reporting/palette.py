"""Colours of charts and page: light and dark, safe for the colour-blind.

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
"""What a chart calls each colour. They are parameters: the page changes them with its theme."""

REGION_COLOURS = ("#0072b2", "#d55e00", "#3d96c9", "#b87f00")
"""Neither too bright for white paper nor too dark for dark paper: 3:1 or more on both."""

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif"
_DARKEST, _BRIGHTEST = 0.18, 0.95


def colour(name: str) -> alt.ExprRef:
    """A colour that follows the theme."""
    import altair as alt

    if name not in LIGHT:
        raise KeyError(name)
    return alt.ExprRef(name)


def colour_parameters() -> list[alt.Parameter]:
    """The colours as parameters, light until somebody sets them."""
    import altair as alt

    return [alt.param(name=name, value=value) for name, value in LIGHT.items()]


def shades() -> alt.SchemeParams:
    """Viridis without its ends, which vanish on dark and on light paper."""
    import altair as alt

    return alt.SchemeParams(name="viridis", extent=[_DARKEST, _BRIGHTEST])


def dressed(chart: Any, ticks: Any) -> Any:  # noqa: ANN401
    """A finished chart in the house style, with its colours as parameters.

    Args:
        chart: of altair.
        ticks: about how many the axes of x have: a number, or an expression.
    """
    axis = {
        "domainColor": colour("line"),
        "tickColor": colour("line"),
        "gridColor": colour("grid"),
        "labelColor": colour("quiet"),
        "titleColor": colour("ink"),
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 8,
        "labelFont": FONT,
        "titleFont": FONT,
    }
    legend = {
        "labelColor": colour("quiet"),
        "titleColor": colour("ink"),
        "labelFontSize": 11,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titleLimit": 320,
        "labelFont": FONT,
        "titleFont": FONT,
    }
    title = {"color": colour("ink"), "subtitleColor": colour("quiet"), "font": FONT}
    return (
        chart.add_params(*colour_parameters())
        .properties(background=colour("paper"))
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .configure_axisX(tickCount=ticks)
        .configure_axisY(minExtent=36)
        .configure_legend(**legend)
        .configure_title(anchor="start", fontSize=14, subtitleFont=FONT, **title)
        .configure_text(font=FONT)
    )
