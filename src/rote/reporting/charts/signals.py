"""The chart of signals: the checkpoint each one selects, and how far they agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from rote.errors import InputError
from rote.formatting import escape_invisible
from rote.records import COLUMNS, ZETAS
from rote.reporting.palette import color, make_borderless
from rote.selection import find_rule, keep_usable

if TYPE_CHECKING:
    import altair as alt

    from rote.records import Column
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection import Candidates, Floats, Integers

MOST_COMPARED = 20
"""The most signals that are compared; more would not fit on a phone."""

TRUTH = "test_accuracy"
_FIRST = ("estimated_accuracy", "validation_accuracy")


@dataclass(frozen=True)
class SignalPick:
    """The checkpoint with the best value of one signal.

    Attributes:
        column: the signal.
        rule: the rule that selects it: ``max:COLUMN`` or ``min:COLUMN``.
        run: the name of the run.
        step: of the checkpoint.
        position: which candidate it is.
        value: of the signal at the checkpoint.
        estimated: its estimated accuracy; None if unknown.
        test: its test accuracy; None if unknown.
    """

    column: Column
    rule: str
    run: str
    step: int
    position: int
    value: float
    estimated: float | None
    test: float | None

    @property
    def knows(self) -> bool:
        """Whether the signal requires clean labels."""
        return _knows(self.column)


def find_signals(candidates: Candidates) -> tuple[Column, ...]:
    """Return the signals to compare, ζ first, those that need clean labels last; two or none.

    A signal is a column with a known better direction that differs between checkpoints. Of the four
    ζ only the selected one counts, and no column that rote itself computes from clean labels.

    Args:
        candidates: all checkpoints, with ``estimated_accuracy`` where it is known.
    """
    recorded = candidates.table.columns
    others = {*ZETAS, *(name for name, column in COLUMNS.items() if column.kind == "truth")}
    ordered = dict.fromkeys([*_FIRST, *recorded])
    names = [candidates.column, *(name for name in ordered if name not in others)]
    found = [recorded[n] for n in names if n in recorded and recorded[n].better]
    found = [column for column in found if _differs(candidates.values(column.name))]
    return tuple(sorted(found, key=_knows)) if len(found) > 1 else ()


def _knows(column: Column) -> bool:
    return column.kind == "truth"


def _differs(values: Floats) -> bool:
    known = values[np.isfinite(values)]
    return bool(len(known) and known.min() < known.max())


def select_by_signal(candidates: Candidates, column: Column) -> SignalPick:
    """Select the checkpoint with the best value of a signal.

    Args:
        candidates: all checkpoints, with ``estimated_accuracy`` where it is known.
        column: the signal.
    """
    rule = find_rule(f"{'max' if column.better == 'higher' else 'min'}:{column.name}")
    usable = keep_usable(rule, candidates)
    pick = rule.judge(usable).pick
    at = int(np.flatnonzero(candidates.position == usable.position[pick])[0])
    return SignalPick(
        column,
        rule.name,
        candidates.runs[candidates.run[at]],
        int(candidates.step[at]),
        at,
        float(candidates.values(column.name)[at]),
        _keep_finite(candidates.values("estimated_accuracy")[at]),
        _keep_finite(candidates.values(TRUTH)[at]),
    )


def compare_signals(
    candidates: Candidates, columns: Sequence[Column], positions: Integers
) -> tuple[tuple[float | None, ...], ...]:
    """Compute Kendall's τ-b of every two columns, signed so that higher is better.

    Args:
        candidates: all checkpoints.
        columns: the signals to compare.
        positions: the checkpoints; those with both values count.

    Returns:
        Columns × columns; None if one is constant, or fewer than 2 checkpoints have both.
    """
    values = [_sign(candidates, column)[positions] for column in columns]
    found: list[list[float | None]] = [[1.0] * len(values) for _ in values]
    for i, one in enumerate(values):
        for j in range(i):
            found[i][j] = found[j][i] = _compute_kendall(one, values[j])
    return tuple(map(tuple, found))


def _sign(candidates: Candidates, column: Column) -> Floats:
    values = candidates.values(column.name)
    return -values if column.better == "lower" else values


def _compute_kendall(one: Floats, other: Floats) -> float | None:
    from scipy import stats

    both = np.isfinite(one) & np.isfinite(other)
    if both.sum() < 2 or np.ptp(one[both]) == 0 or np.ptp(other[both]) == 0:
        return None
    return float(stats.kendalltau(one[both], other[both]).statistic)


def _keep_finite(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


_CELL = 34
_NARROW = 560
"""Below this width rows have numbers instead of names, as in the table."""


@dataclass(frozen=True)
class SignalsRecord:
    """What the chart and the table beside it show.

    Attributes:
        picks: the checkpoint that each signal selects.
        names: of the rows: the signals, and test accuracy if it is known.
        agreement: Kendall's τ of every two rows; None if undefined.
        checkpoints: the number of compared checkpoints.
        left_out: the number of signals that are left out.
    """

    picks: tuple[SignalPick, ...]
    names: tuple[str, ...]
    agreement: tuple[tuple[float | None, ...], ...]
    checkpoints: int
    left_out: int

    @property
    def has_estimate(self) -> bool:
        """Whether any of the selected checkpoints has an estimated accuracy."""
        return any(pick.estimated is not None for pick in self.picks)


class SignalsChart:
    """Cells with Kendall's τ of every two signals, signed so that higher is better."""

    name: ClassVar[str] = "signals"
    title: ClassVar[str] = "Signals"
    order: ClassVar[int] = 50

    def applies(self, contents: Contents) -> bool:
        """Return whether there is anything to compare."""
        return bool(contents.signals)

    def record(self, contents: Contents) -> SignalsRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if fewer than two signals are recorded.
        """
        if not self.applies(contents):
            raise InputError(
                "The runs recorded fewer than 2 signals that differ between checkpoints. Name "
                "some: `signals = [...]`."
            )
        columns = [pick.column for pick in contents.signal_picks]
        left_out = len(contents.signals) - len(columns)
        if contents.has_truth:
            columns.append(contents.candidates.describe(TRUTH))
        positions = contents.sample.positions
        return SignalsRecord(
            picks=contents.signal_picks,
            names=tuple(escape_invisible(column.label) for column in columns),
            agreement=compare_signals(contents.judged, columns, positions),
            checkpoints=len(positions),
            left_out=left_out,
        )

    def draw(self, record: SignalsRecord, frame: Frame) -> alt.LayerChart:
        """Draw the cells with their numbers."""
        import altair as alt

        base = alt.Chart(alt.InlineData(values=_list_cells(record))).encode(
            # A number and a name; narrow charts show the number only.
            y=alt.Y(
                "row:N",
                sort=None,
                title=None,
                axis=_make_axis("left", _NARROW_LABEL if frame.is_page else _LABEL),
            ),
            x=alt.X("column:N", sort=None, title=None, axis=_make_axis("top")),
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
        return alt.LayerChart(
            layer=layers, width=frame.width, height=height, view=make_borderless()
        )


_LABEL = "datum.label"
_NARROW_LABEL = f"containerSize()[0] < {_NARROW} ? split(datum.label, ' ')[0] : datum.label"
_READABLE = (
    "contrast(scale('color', datum.value), '#ffffff') > contrast(scale('color', datum.value), "
    "'#000000') ? '#ffffff' : '#000000'"
)


def _make_axis(orient: Literal["left", "top"], label: str = "datum.label") -> alt.Axis:
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


def _list_cells(record: SignalsRecord) -> list[dict[str, object]]:
    """Return a cell for every two rows; the diagonal is empty."""
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
