"""The tracking charts: ζ, the accuracy on noisy labels, and signals over steps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rote.errors import InputError, did_you_mean
from rote.formatting import escape_invisible
from rote.reporting.axis import Axis, make_accuracy_axis, make_zeta_axis
from rote.reporting.checkpoints import MOST_SIGNALS
from rote.reporting.frame import as_channel, join_charts, make_run_choice, make_title, make_tooltip
from rote.reporting.palette import color, make_borderless

if TYPE_CHECKING:
    import altair as alt

    from rote.records import Column
    from rote.reporting.checkpoints import Checkpoints
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection import Candidates

HEIGHT = 230
_MANY = 60
_FEW = 3
"""Below this many steps Vega puts ticks at halves, despite ``tickMinStep``."""

_NOISY = "noisy"


@dataclass(frozen=True)
class Line:
    """A column over steps.

    Attributes:
        field: its name in the chart, and its place on the page.
        label: its title.
        axis: of its values.
        ticks: the number format of the axis; None for the default.
    """

    field: str
    label: str
    axis: Axis
    ticks: str | None = None


@dataclass(frozen=True)
class TrackingRecord:
    """The data that the chart draws.

    Attributes:
        checkpoints: the points of the lines.
        lines: ζ first, then the accuracy on noisy labels, signals, and requested columns, each
            if known.
        left_out: the number of signals that have no chart.
        runs: how many.
        steps: the first and the last.
        run_key: the number of the selected checkpoint's run.
        step: of the selected checkpoint.
    """

    checkpoints: Checkpoints
    lines: tuple[Line, ...]
    left_out: int
    runs: int
    steps: tuple[int, int]
    run_key: int
    step: int

    @property
    def has_zeta(self) -> bool:
        """Whether ζ is drawn; if it is unknown, all other recorded columns are."""
        return any(line.field == "zeta" for line in self.lines)

    @property
    def has_noisy(self) -> bool:
        """Whether the accuracy on noisy labels is known."""
        return any(line.field == _NOISY for line in self.lines)

    @property
    def signals(self) -> tuple[Line, ...]:
        """The lines of columns that only these runs have."""
        return tuple(line for line in self.lines if line.field not in ("zeta", _NOISY))


@dataclass(frozen=True)
class TrackingChart:
    """ζ over steps, then the accuracy on noisy labels where it is known, then signals.

    Attributes:
        columns: further columns to draw.
    """

    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "tracking"
    title: ClassVar[str] = "Memorization over training"
    order: ClassVar[int] = 20

    def record(self, contents: Contents) -> TrackingRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if a requested column is not recorded.
        """
        candidates, pick = contents.estimated, contents.verdict.selection.pick
        zeta = Line("zeta", f"susceptibility {contents.label}", contents.zeta_axis)
        others = tuple(_find_others(contents, self.columns))
        lines = (zeta, *others) if contents.has_zeta or not others else others
        columns = candidates.table.columns.values()
        signals = sum(column.kind == "signal" for column in columns)
        return TrackingRecord(
            checkpoints=contents.checkpoints,
            lines=lines,
            left_out=max(signals - MOST_SIGNALS, 0),
            runs=candidates.num_runs,
            steps=(int(candidates.step.min()), int(candidates.step.max())),
            run_key=candidates.runs.index(pick.run),
            step=pick.step,
        )

    def parts(self, record: TrackingRecord, frame: Frame) -> dict[str, alt.LayerChart]:
        """Draw one chart per line."""
        return {line.field: _draw_line(record, line, frame) for line in record.lines}

    def draw(self, record: TrackingRecord, frame: Frame) -> alt.VConcatChart:
        """Draw the charts one above the other."""
        import altair as alt

        charts = list(self.parts(record, frame).values())
        made: alt.VConcatChart = join_charts(alt.vconcat, charts)
        return made


def _find_others(contents: Contents, asked: tuple[str, ...]) -> Iterator[Line]:
    candidates, checkpoints = contents.estimated, contents.checkpoints
    if checkpoints.has(_NOISY):
        yield _make_line(_NOISY, candidates.describe("noisy_accuracy"), candidates)
    fields = {metric.name: metric.field for metric in checkpoints.metrics}
    signals = [metric.name for metric in checkpoints.signals]
    for name in dict.fromkeys((*signals, *asked)):
        if name not in fields and name in candidates.table.columns and checkpoints.left_out:
            raise InputError(
                f"Column {name!r} is not drawn: for so many checkpoints, the chart draws only "
                f"{len(fields)} metrics. Read fewer runs."
            )
        if name not in fields:
            raise InputError(
                f"The runs did not record {name!r} (`columns`).{did_you_mean(name, fields)}"
            )
        yield _make_line(fields[name], candidates.describe(name), candidates)


def _make_line(field: str, column: Column, candidates: Candidates) -> Line:
    values = candidates.values(column.name)
    label = escape_invisible(column.label)
    if column.unit != "share":
        return Line(field, label, make_zeta_axis(values))
    axis = replace(make_accuracy_axis(values), low=0.0)
    return Line(field, label, axis, axis.tick_format)


def _draw_line(record: TrackingRecord, line: Line, frame: Frame) -> alt.LayerChart:
    import altair as alt

    domain = [line.axis.low, line.axis.high]
    y = alt.Y(
        f"{line.field}:Q",
        title=make_title(line.label),
        scale=alt.Scale(domain=domain, clamp=True, nice=False, zero=False),
        axis=alt.Undefined if line.ticks is None else alt.Axis(format=line.ticks),
    )
    return _draw_lines(record, frame, line.field, y)


def _draw_lines(record: TrackingRecord, frame: Frame, field: str, y: alt.Y) -> alt.LayerChart:
    import altair as alt

    chosen = make_run_choice(frame)
    is_chosen = alt.ParameterPredicate(param=chosen.name, empty=False)
    base = alt.Chart(frame.data).encode(
        x=make_step_axis(*record.steps), y=y, detail=alt.Detail("run_key:N")
    )
    is_pointed_at = frame.is_live and not frame.is_page
    is_many = record.runs > _MANY
    everything = base.mark_line(
        aria=False, color=color("line"), strokeWidth=0.8 if is_many else 1.3
    ).encode(
        opacity=as_channel(alt.OpacityValue, alt.condition(chosen, alt.value(0.85), alt.value(0.2)))
    )
    one = base.transform_filter(is_chosen).mark_line(
        aria=False, color=color("highlight"), strokeWidth=2.5
    )
    kept = _draw_kept(record, base)
    dots = (
        base.transform_filter(
            f"isValid(datum.{field})" if is_pointed_at else f"datum.{field}_alone"
        )
        .mark_circle(aria=False, size=50, color=color("line"))
        .encode(
            opacity=as_channel(
                alt.OpacityValue,
                alt.condition(f"datum.{field}_alone", alt.value(0.9), alt.value(0)),
            ),
            tooltip=make_tooltip(record.checkpoints, frame),
        )
        .add_params(chosen)
    )
    layers: list[Any] = [everything, *kept, one, dots]
    return alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=make_borderless())


def make_step_axis(first: int, last: int, *, has_labels: bool = True) -> alt.X:
    """Return the horizontal axis of steps.

    Args:
        first: the first step.
        last: the last step.
        has_labels: whether it has a title and numbers.
    """
    import altair as alt

    few = list(range(first, last + 1)) if last - first < _FEW else None
    ticks: dict[str, Any] = {"tickMinStep": 1} if few is None else {"values": few}
    domain = [first - 1, last + 1] if first == last else [first, last]
    return alt.X(
        "step:Q",
        title="step" if has_labels else None,
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(format=",d", grid=False, labels=has_labels, **ticks),
    )


def _draw_kept(record: TrackingRecord, base: alt.Chart) -> list[alt.Chart]:
    """Draw the run of the selected checkpoint, with a ring around the checkpoint."""
    import altair as alt

    here = alt.FieldEqualPredicate(field="run_key", equal=record.run_key)
    line = base.transform_filter(here).mark_line(aria=False, color=color("accent"), strokeWidth=2.2)
    ring = (
        base.transform_filter(here)
        .transform_filter(f"datum.step === {record.step}")
        .mark_point(aria=False, size=130, filled=True, fill=color("paper"), stroke=color("accent"))
        .encode(strokeWidth=alt.StrokeWidthValue(2.5), opacity=alt.OpacityValue(1))
    )
    return [line, ring]
