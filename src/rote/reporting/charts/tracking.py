"""The tracking charts: ζ, and the accuracy on noisy labels, over training; one line per run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rote.records import COLUMNS
from rote.reporting.axis import Axis, accuracy_axis
from rote.reporting.frame import chosen_run, hints, joined
from rote.reporting.palette import colour, plain_view

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.checkpoints import Checkpoints
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

HEIGHT = 230
_MANY = 60


@dataclass(frozen=True)
class TrackingRecord:
    """What the charts draw.

    Attributes:
        label: what axes call ζ.
        checkpoints: the points of the lines.
        runs: how many lines.
        steps: the first and the last.
        run: that of the pick.
        step: that of the pick.
        zeta: the axis of ζ.
        noisy: the axis of the accuracy on noisy labels; None if it is not known.
    """

    label: str
    checkpoints: Checkpoints
    runs: int
    steps: tuple[int, int]
    run: str
    step: int
    zeta: Axis
    noisy: Axis | None


class TrackingChart:
    """ζ over training and, where it is known, the accuracy on noisy labels below it."""

    name: ClassVar[str] = "tracking"
    title: ClassVar[str] = "Memorization over training"
    order: ClassVar[int] = 20

    def record(self, contents: Contents) -> TrackingRecord:
        """What is drawn."""
        candidates, pick = contents.candidates, contents.verdict.selection.pick
        noisy = accuracy_axis(candidates.values("noisy_accuracy"))
        return TrackingRecord(
            label=contents.label,
            checkpoints=contents.checkpoints,
            runs=candidates.num_runs,
            steps=(int(candidates.step.min()), int(candidates.step.max())),
            run=pick.run,
            step=pick.step,
            zeta=contents.zeta_axis,
            noisy=noisy if contents.checkpoints.has("noisy") else None,
        )

    def parts(self, record: TrackingRecord, frame: Frame) -> dict[str, alt.LayerChart]:
        """A chart for each."""
        charts = {"zeta": _zeta_over_time(record, frame)}
        if record.noisy is not None:
            charts["noisy"] = _noisy_over_time(record, record.noisy, frame)
        return charts

    def draw(self, record: TrackingRecord, frame: Frame) -> alt.VConcatChart:
        """One above the other."""
        import altair as alt

        charts = list(self.parts(record, frame).values())
        made: alt.VConcatChart = joined(alt.vconcat, charts)
        return made


def _zeta_over_time(record: TrackingRecord, frame: Frame) -> alt.LayerChart:
    import altair as alt

    y = alt.Y(
        "zeta:Q",
        title=f"susceptibility {record.label}",
        scale=alt.Scale(
            domain=[record.zeta.low, record.zeta.high], clamp=True, nice=False, zero=False
        ),
    )
    return _lines(record, frame, "zeta", y)


def _noisy_over_time(record: TrackingRecord, axis: Axis, frame: Frame) -> alt.LayerChart:
    """Accuracy on the training samples with a wrong label, which is what ζ stands for."""
    import altair as alt

    y = alt.Y(
        "noisy:Q",
        title=COLUMNS["noisy_accuracy"].label,
        scale=alt.Scale(domain=[0, axis.high], clamp=True, nice=False),
        axis=alt.Axis(format=axis.ticks),
    )
    return _lines(record, frame, "noisy", y)


def _lines(record: TrackingRecord, frame: Frame, field: str, y: alt.Y) -> alt.LayerChart:
    import altair as alt

    chosen = chosen_run(frame)
    is_chosen = alt.ParameterPredicate(param=chosen.name, empty=False)
    base = alt.Chart(frame.data).encode(x=_x(record), y=y, detail="run:N")
    is_pointed_at = frame.is_live and not frame.is_page
    is_many = record.runs > _MANY
    everything = base.mark_line(
        aria=False, color=colour("line"), strokeWidth=0.8 if is_many else 1.3
    ).encode(opacity=alt.condition(chosen, alt.value(0.85), alt.value(0.2)))
    one = base.transform_filter(is_chosen).mark_line(
        aria=False, color=colour("highlight"), strokeWidth=2.5
    )
    kept = _kept(record, base)
    dots = (
        base.transform_filter(
            f"isValid(datum.{field})" if is_pointed_at else f"datum.{field}_alone"
        )
        .mark_circle(aria=False, size=50, color=colour("line"))
        .encode(
            opacity=alt.condition(f"datum.{field}_alone", alt.value(0.9), alt.value(0)),
            tooltip=hints(record.checkpoints, frame),
        )
        .add_params(chosen)
    )
    layers: list[Any] = [everything, *kept, one, dots]
    return alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=plain_view())


def _x(record: TrackingRecord) -> alt.X:
    import altair as alt

    first, last = record.steps
    ticks = {"values": [first]} if first == last else {"tickMinStep": 1}
    domain = [first - 1, last + 1] if first == last else [first, last]
    return alt.X(
        "step:Q",
        title="step",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(format=",d", grid=False, **ticks),
    )


def _kept(record: TrackingRecord, base: alt.Chart) -> list[alt.Chart]:
    """The run of the pick, and the pick on it."""
    import altair as alt

    here = alt.FieldEqualPredicate(field="run", equal=record.run)
    line = base.transform_filter(here).mark_line(
        aria=False, color=colour("accent"), strokeWidth=2.2
    )
    ring = (
        base.transform_filter(here)
        .transform_filter(f"datum.step === {record.step}")
        .mark_point(
            aria=False, size=130, filled=True, fill=colour("paper"), stroke=colour("accent")
        )
        .encode(strokeWidth=alt.value(2.5), opacity=alt.value(1))
    )
    return [line, ring]
