"""Parts that all charts share: data, size, tooltips, and the highlighted run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rote.formatting import escape_invisible
from rote.reporting.palette import add_colors, apply_style

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.checkpoints import Checkpoints

DATASET = "checkpoints"
CHOSEN = "chosen"
_WIDTH = 640
_TICKS = 8
_NEVER = "never"
"""An event name that no browser sends."""

_INHERITED = {
    *("__defineGetter__", "__defineSetter__", "__lookupGetter__", "__lookupSetter__"),
    *("__proto__", "constructor", "hasOwnProperty", "isPrototypeOf", "propertyIsEnumerable"),
    *("toLocaleString", "toString", "valueOf"),
}
"""Attributes of every object in JavaScript."""


@dataclass(frozen=True)
class Frame:
    """The target of charts: the page, a notebook, or a file.

    Attributes:
        rows: the checkpoints, for a chart of its own; None on the page, which holds them once.
        width: of one chart; ``container`` is the width of the page.
        is_live: whether the chart reacts to a pointer; figure files do not.
        tag: a suffix for parameter names, so that concatenated charts keep separate parameters.
    """

    rows: list[dict[str, Any]] | None
    width: int | Literal["container"]
    is_live: bool
    tag: str = ""

    @property
    def is_page(self) -> bool:
        """Whether the scripts of the page handle interaction."""
        return self.rows is None

    @property
    def data(self) -> alt.NamedData:
        """The checkpoints by name; ``finish`` fills in the values of a chart of its own."""
        import altair as alt

        return alt.NamedData(name=DATASET)

    def name_parameter(self, parameter: str) -> str:
        """Return the name of a parameter in this chart."""
        return f"{parameter}_{self.tag}" if self.tag else parameter

    def finish(self, chart: Any) -> Any:  # noqa: ANN401
        """Return a complete chart for a notebook, with its data.

        It has no configuration: altair cannot concatenate configured charts, and notebooks have a
        theme of their own.
        """
        import altair as alt

        whole = add_colors(chart)
        if self.rows is not None:
            _fill(whole, alt.InlineData(values=self.rows))
        return whole

    def spec(self, chart: Any, *, check: bool = True) -> dict[str, Any]:  # noqa: ANN401
        """Return a complete, styled chart for the page or a figure file, as Vega-Lite.

        Custom charts are validated; the tests validate the built-in ones.
        """
        # Concatenated charts have no single width that an expression could refer to.
        ticks = {"expr": "ceil(width / 70)"} if self.width == "container" else _TICKS
        spec = apply_style(chart, ticks, check=check)
        if self.rows is not None:
            spec["datasets"] = {**spec.get("datasets", {}), DATASET: self.rows}
        return spec


def _fill(chart: Any, data: alt.InlineData) -> None:  # noqa: ANN401
    """Insert the checkpoints at the end, as altair copies inline data on every change."""
    import altair as alt

    if isinstance(chart.data, alt.NamedData):
        chart.data = data
    for kind in ("layer", "hconcat", "vconcat"):
        for part in getattr(chart, kind, ()):
            _fill(part, data)


def make_page_frame() -> Frame:
    """Return the frame of the page, which holds the data once for all charts."""
    return Frame(rows=None, width="container", is_live=True)


def make_chart_frame(checkpoints: Checkpoints, *, is_live: bool, tag: str = "") -> Frame:
    """Return the frame of a chart of its own, with its data."""
    return Frame(checkpoints.rows(), _WIDTH, is_live, tag)


def make_run_choice(frame: Frame) -> alt.Parameter:
    """Make a parameter that highlights the clicked run; a double click resets it.

    The scripts of the page replace it: they take the nearest checkpoint, for touch screens.
    """
    import altair as alt

    event, end = (_NEVER, _NEVER) if frame.is_page else ("click", "dblclick")
    return alt.selection_point(
        name=frame.name_parameter(CHOSEN), fields=["run_key"], on=event, clear=end
    )


def make_title(text: str) -> str:
    """Return a text as a title that Vega can draw.

    Vega looks titles up in a plain object, where it finds ``constructor`` without having put it
    there. A space at the end, which is not seen, makes it another key.
    """
    return f"{text} " if text in _INHERITED else text


def make_tooltip(checkpoints: Checkpoints, frame: Frame) -> Any:  # noqa: ANN401
    """Make the tooltip of a checkpoint: its run and a few values.

    The scripts of the page replace it, because tooltips for many points are slow to build. Values
    are nominal, because numeric tooltips show missing values as 0.
    """
    import altair as alt

    if frame.is_page or not frame.is_live:
        return alt.TooltipValue(None)
    # Vega-Lite puts names into an expression and escapes quotes, but not backslashes.
    names = {m.field: escape_invisible(m.name).replace("\\", "\\\\") for m in checkpoints.hinted}
    metrics = (alt.Tooltip(f"{field}:N", title=make_title(name)) for field, name in names.items())
    return [alt.Tooltip("run:N"), alt.Tooltip("step:N"), *metrics]


def as_channel(channel: Callable[..., Any], told: Any) -> Any:  # noqa: ANN401
    """Wrap the result of ``alt.condition`` or ``alt.when`` in its channel.

    Without it, altair searches its whole schema for the channel every time.
    """
    return channel(**told)


def point_size(checkpoints: Checkpoints) -> int:
    """Return the area of a point: smaller for more points."""
    count = len(checkpoints.positions)
    return 44 if count <= 1_000 else 24 if count <= 4_000 else 12


def join_charts(join: Callable[..., Any], charts: Sequence[Any]) -> Any:  # noqa: ANN401
    """Concatenate charts that share the highlighted run."""
    with warnings.catch_warnings():
        # altair warns that it merges parameters of the same name, which is intended here.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        return join(*charts)
