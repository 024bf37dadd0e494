"""The tracking charts: ζ, and the accuracy on noisy labels, over training; one line per run."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.reporting.axis import accuracy_axis
from rote.reporting.checkpoints import known_column
from rote.reporting.frame import chosen_run, hints
from rote.reporting.palette import colour, plain_view

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

HEIGHT = 230


def zeta_over_time(contents: Contents, frame: Frame) -> alt.LayerChart:
    """ζ of every run.

    Args:
        contents: with checkpoints.
        frame: where it is drawn.
    """
    import altair as alt

    axis = contents.zeta_axis
    y = alt.Y(
        "zeta:Q",
        title=f"susceptibility {contents.label}",
        scale=alt.Scale(domain=[axis.low, axis.high], clamp=True, nice=False, zero=False),
    )
    return _lines(contents, frame, "zeta", y)


def noisy_over_time(contents: Contents, frame: Frame) -> alt.LayerChart:
    """Accuracy on the training samples with a wrong label, which is what ζ stands for.

    Args:
        contents: with checkpoints.
        frame: where it is drawn.
    """
    import altair as alt

    axis = accuracy_axis(known_column(contents.candidates, "noisy_accuracy"))
    y = alt.Y(
        "noisy:Q",
        title="accuracy on noisy labels",
        scale=alt.Scale(domain=[0, axis.high], clamp=True, nice=False),
        axis=alt.Axis(format=axis.ticks),
    )
    return _lines(contents, frame, "noisy", y)


def _lines(contents: Contents, frame: Frame, field: str, y: alt.Y) -> alt.LayerChart:
    import altair as alt

    chosen = chosen_run(frame)
    is_chosen = alt.ParameterPredicate(param=chosen.name, empty=False)
    base = alt.Chart(frame.data).encode(x=_x(contents), y=y, detail="run:N")
    is_pointed_at = frame.is_live and not frame.is_page
    is_many = contents.candidates.num_runs > 60
    everything = base.mark_line(
        aria=False, color=colour("line"), strokeWidth=0.8 if is_many else 1.3
    ).encode(opacity=alt.condition(chosen, alt.value(0.85), alt.value(0.2)))
    one = base.transform_filter(is_chosen).mark_line(
        aria=False, color=colour("highlight"), strokeWidth=2.5
    )
    kept = _kept(contents, base)
    dots = (
        base.transform_filter(
            f"isValid(datum.{field})" if is_pointed_at else f"datum.{field}_alone"
        )
        .mark_circle(aria=False, size=50, color=colour("line"))
        .encode(
            opacity=alt.condition(f"datum.{field}_alone", alt.value(0.9), alt.value(0)),
            tooltip=hints(contents.checkpoints, frame),
        )
        .add_params(chosen)
    )
    layers: list[Any] = [everything, *kept, one, dots]
    return alt.LayerChart(layer=layers, width=frame.width, height=HEIGHT, view=plain_view())


def _x(contents: Contents) -> alt.X:
    import altair as alt

    first, last = int(contents.candidates.step.min()), int(contents.candidates.step.max())
    ticks = {"values": [first]} if first == last else {"tickMinStep": 1}
    domain = [first - 1, last + 1] if first == last else [first, last]
    return alt.X(
        "step:Q",
        title="step",
        scale=alt.Scale(domain=domain, nice=False, zero=False),
        axis=alt.Axis(format=",d", grid=False, **ticks),
    )


def _kept(contents: Contents, base: alt.Chart) -> list[alt.Chart]:
    """The run of the pick, and the pick on it."""
    import altair as alt

    pick = contents.verdict.selection.pick
    here = alt.FieldEqualPredicate(field="run", equal=pick.run)
    line = base.transform_filter(here).mark_line(
        aria=False, color=colour("accent"), strokeWidth=2.2
    )
    ring = (
        base.transform_filter(here)
        .transform_filter(f"datum.step === {pick.step}")
        .mark_point(
            aria=False, size=130, filled=True, fill=colour("paper"), stroke=colour("accent")
        )
        .encode(strokeWidth=alt.value(2.5), opacity=alt.value(1))
    )
    return [line, ring]
