"""What all charts share: the data, the size, what is shown when pointed at, the chosen run."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from rote.formatting import visible
from rote.reporting.palette import colored, dressed

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.checkpoints import Checkpoints

DATASET = "checkpoints"
CHOSEN = "chosen"
_WIDTH = 640
_TICKS = 8
_NEVER = "never"
"""An event that no browser sends."""


@dataclass(frozen=True)
class Frame:
    """Where charts are drawn.

    Attributes:
        rows: the checkpoints, for a chart that stands alone; the page has them elsewhere.
        width: of one chart; ``container`` is the width of the page.
        is_live: whether somebody can point at things; a picture leaves out what waits for that.
        tag: ends the names of parameters, so that charts which are joined keep theirs apart.
    """

    rows: list[dict[str, Any]] | None
    width: int | Literal["container"]
    is_live: bool
    tag: str = ""

    @property
    def is_page(self) -> bool:
        """Whether scripts of the page do what a chart that stands alone must do itself."""
        return self.rows is None

    @property
    def data(self) -> alt.NamedData:
        """The checkpoints by name; a chart that stands alone gets them when it is finished."""
        import altair as alt

        return alt.NamedData(name=DATASET)

    def named(self, parameter: str) -> str:
        """What a parameter is called in this chart."""
        return f"{parameter}_{self.tag}" if self.tag else parameter

    def finished(self, chart: Any) -> Any:  # noqa: ANN401
        """A whole chart for a notebook, with its data in it.

        It goes without the house style: altair joins no charts that are configured, and in a
        notebook the theme is the reader's.
        """
        import altair as alt

        whole = colored(chart)
        if self.rows is not None:
            _fill(whole, alt.InlineData(values=self.rows))
        return whole

    def spec(self, chart: Any, *, check: bool = True) -> dict[str, Any]:  # noqa: ANN401
        """A whole chart for the page or a picture, in the house style, as Vega-Lite.

        Charts of one's own are checked; those of every report are by the tests.
        """
        # Charts that are joined have no width of one name that an expression could ask for.
        ticks = {"expr": "ceil(width / 70)"} if self.width == "container" else _TICKS
        spec = dressed(chart, ticks, check=check)
        if self.rows is not None:
            spec["datasets"] = {**spec.get("datasets", {}), DATASET: self.rows}
        return spec


def _fill(chart: Any, data: alt.InlineData) -> None:  # noqa: ANN401
    """Put the checkpoints wherever a chart names them: at the end, for altair copies them often."""
    import altair as alt

    if isinstance(chart.data, alt.NamedData):
        chart.data = data
    for kind in ("layer", "hconcat", "vconcat"):
        for part in getattr(chart, kind, ()):
            _fill(part, data)


def page_frame() -> Frame:
    """For the page, which has its data elsewhere, once for all charts."""
    return Frame(rows=None, width="container", is_live=True)


def own_frame(checkpoints: Checkpoints, *, is_live: bool, tag: str = "") -> Frame:
    """For a chart that stands alone, with its data in it."""
    return Frame(checkpoints.rows(), _WIDTH, is_live, tag)


def chosen_run(frame: Frame) -> alt.Parameter:
    """Click on a mark to see its run; click twice to see all again.

    The page does it by itself: it takes the nearest checkpoint, because fingers are wide.
    """
    import altair as alt

    event, end = (_NEVER, _NEVER) if frame.is_page else ("click", "dblclick")
    return alt.selection_point(name=frame.named(CHOSEN), fields=["run"], on=event, clear=end)


def hints(checkpoints: Checkpoints, frame: Frame) -> Any:  # noqa: ANN401
    """What is shown of a checkpoint that is pointed at: its run, and a few lines.

    The page does it by itself: twenty words for each of many points are slow to make. Nominal,
    because numbers would show what is missing as 0.
    """
    import altair as alt

    if frame.is_page or not frame.is_live:
        return alt.TooltipValue(None)
    # Vega-Lite writes names into an expression, and escapes quotes there, but no backslashes.
    names = {m.field: visible(m.name).replace("\\", "\\\\") for m in checkpoints.hinted}
    metrics = (alt.Tooltip(f"{field}:N", title=name) for field, name in names.items())
    return [alt.Tooltip("run:N"), alt.Tooltip("step:N"), *metrics]


def valued(channel: Callable[..., Any], told: Any) -> Any:  # noqa: ANN401
    """What ``alt.condition`` and ``alt.when`` tell, as the channel that it is for.

    Where altair has to find that channel, it goes through its whole schema each time.
    """
    return channel(**told)


def point_size(checkpoints: Checkpoints) -> int:
    """The area of a point: smaller, the more there are."""
    count = len(checkpoints.positions)
    return 44 if count <= 1_000 else 24 if count <= 4_000 else 12


def joined(join: Callable[..., Any], charts: Sequence[Any]) -> Any:  # noqa: ANN401
    """Several charts as one, in which a run that is chosen in one is chosen in all."""
    with warnings.catch_warnings():
        # altair says that it makes one parameter of two of the same name: that is what links them.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        return join(*charts)
