"""The chart of signals: how far those that were recorded agree about which checkpoint is better."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rote.errors import InputError
from rote.formatting import visible
from rote.reporting.palette import color, plain_view
from rote.reporting.signals import TRUTH, SignalPick, agreement_of

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

_CELL = 34
_NARROW = 560
"""Pixels below which rows have numbers instead of names; the table says whose they are."""


@dataclass(frozen=True)
class SignalsRecord:
    """What the chart draws, and the table beside it says.

    Attributes:
        picks: what each signal would keep.
        names: of the rows: the signals, and the truth at the end where it is known.
        agreement: Kendall's τ of every two rows; None where it is not defined.
        checkpoints: over how many.
        left_out: how many signals are left out.
    """

    picks: tuple[SignalPick, ...]
    names: tuple[str, ...]
    agreement: tuple[tuple[float | None, ...], ...]
    checkpoints: int
    left_out: int

    @property
    def has_estimate(self) -> bool:
        """Whether an accuracy is estimated for any of the picks."""
        return any(pick.estimated is not None for pick in self.picks)


class SignalsChart:
    """A cell per pair of signals: Kendall's τ over checkpoints, signed so that higher is better."""

    name: ClassVar[str] = "signals"
    title: ClassVar[str] = "What each signal would keep"
    order: ClassVar[int] = 50

    def applies(self, contents: Contents) -> bool:
        """Whether there is anything to compare."""
        return bool(contents.signals)

    def record(self, contents: Contents) -> SignalsRecord:
        """What is drawn.

        Raises:
            InputError: if fewer than two signals are recorded.
        """
        if not self.applies(contents):
            raise InputError(
                "Expected `runs` to have recorded at least 2 signals that differ between "
                "checkpoints, got fewer. Name some: `signals = [...]`."
            )
        columns = [pick.column for pick in contents.signal_picks]
        left_out = len(contents.signals) - len(columns)
        if contents.has_truth:
            columns.append(contents.candidates.describe(TRUTH))
        positions = contents.sample.positions
        return SignalsRecord(
            picks=contents.signal_picks,
            names=tuple(visible(column.label) for column in columns),
            agreement=agreement_of(contents.judged, columns, positions),
            checkpoints=len(positions),
            left_out=left_out,
        )

    def draw(self, record: SignalsRecord, frame: Frame) -> alt.LayerChart:
        """Cells with their numbers."""
        import altair as alt

        base = alt.Chart(alt.InlineData(values=_cells(record))).encode(
            # A number and a name: what is narrow shows the number alone.
            y=alt.Y("row:N", sort=None, title=None, axis=_axis("left", _NARROW_LABEL)),
            x=alt.X("column:N", sort=None, title=None, axis=_axis("top")),
            tooltip=[alt.Tooltip(f"{name}:N", title=name) for name in ("of", "and", "τ")],
        )
        scale = alt.Scale(
            domain=[-1, 0, 1],
            range=[color("highlight"), color("paper"), color("accent")],
            interpolate="rgb",
        )
        cells = base.mark_rect(aria=False, stroke=color("grid"), strokeWidth=1).encode(
            color=alt.Color("value:Q", scale=scale, legend=None)
        )
        numbers = base.mark_text(
            aria=False,
            fontSize=alt.ExprRef(f"clamp(width / {2.7 * len(record.names)}, 7.5, 13)"),
            color=alt.ExprRef(_READABLE),
        ).encode(text=alt.Text("text:N"))
        height = _CELL * len(record.names)
        layers = [cells, numbers]
        return alt.LayerChart(layer=layers, width=frame.width, height=height, view=plain_view())


_NARROW_LABEL = f"containerSize()[0] < {_NARROW} ? split(datum.label, ' ')[0] : datum.label"
_READABLE = (
    "contrast(scale('color', datum.value), '#ffffff') > contrast(scale('color', datum.value), "
    "'#000000') ? '#ffffff' : '#000000'"
)


def _axis(orient: Literal["left", "top"], label: str = "datum.label") -> alt.Axis:
    import altair as alt

    return alt.Axis(
        orient=orient,
        labelExpr=label,
        labelAngle=0,
        labelLimit=330,
        labelPadding=6,
        labelColor=color("ink"),
        domain=False,
        ticks=False,
        grid=False,
    )


def _cells(record: SignalsRecord) -> list[dict[str, object]]:
    """Every two rows; that of a row and itself is empty."""
    found: list[dict[str, object]] = []
    for i, values in enumerate(record.agreement):
        for j, value in enumerate(values):
            text = "–" if value is None else f"{value:.2f}".replace("0.", ".").replace("-", "−")
            cell = {"row": f"{i + 1} {record.names[i]}", "column": str(j + 1)}
            told = {"of": record.names[i], "and": record.names[j], "τ": text}
            is_same = i == j
            value = 0.0 if is_same or value is None else round(value, 4)
            found.append({**cell, **told, "value": value, "text": "" if is_same else text})
    return found
