"""The sensitivity chart: the contents of Region 1 for every pair of thresholds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from rote.reporting.axis import choose_tick_format
from rote.reporting.palette import color, make_borderless, make_shade_scale
from rote.reporting.verdict import PAIR

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection import Candidates, Floats


@dataclass(frozen=True)
class RegionSums:
    """Sums between neighboring thresholds, over all checkpoints with ζ and training accuracy.

    They suffice to count and average every region exactly.

    Attributes:
        zeta: thresholds of ζ, increasing.
        train: thresholds of training accuracy, increasing.
        sums: counts of checkpoints, the sums of ζ, training and test accuracy, and how many have a
            test accuracy; each thresholds of ζ + 1 × thresholds of training accuracy + 1. ζ is at
            most threshold k in cells 0 to k; training accuracy is at least threshold k in cells
            k + 1 to the last.
    """

    zeta: Floats
    train: Floats
    sums: Floats

    def region_one(self) -> Floats:
        """Return the sums over Region 1, by threshold of ζ × threshold of training accuracy."""
        resistant = self.sums.cumsum(axis=1)[:, :-1]
        return np.asarray(resistant[:, :, ::-1].cumsum(axis=2)[:, :, -2::-1])


def sum_regions(candidates: Candidates, zeta: Floats, train: Floats) -> RegionSums:
    """Sum checkpoints between thresholds, given in any order."""
    zeta, train = np.sort(zeta), np.sort(train)
    known = candidates.known("zeta", "train_accuracy")
    names = ("zeta", "train_accuracy", "test_accuracy")
    values = [candidates.values(name)[known] for name in names]
    cell = np.searchsorted(zeta, values[0], side="left") * (len(train) + 1)
    cell += np.searchsorted(train, values[1], side="right")
    shape = (len(zeta) + 1, len(train) + 1)
    is_tested = np.isfinite(values[2])
    tested = cell[is_tested]

    def sum_cells(cells: np.ndarray, weights: Floats | None = None) -> Floats:
        found = np.bincount(cells, weights, minlength=shape[0] * shape[1])
        return np.asarray(found.reshape(shape), dtype=np.float64)

    sums = [sum_cells(cell), sum_cells(cell, values[0]), sum_cells(cell, values[1])]
    sums += [sum_cells(tested, values[2][is_tested]), sum_cells(tested)]
    return RegionSums(zeta, train, np.stack(sums))


HEIGHT = 380
_HALF = 2.5
_RIGHT = 60
"""Beyond this percentile, names are to the left of their marks."""

_HINTS = {
    "zeta": "ζ at most",
    "train": "training accuracy at least",
    "count": "checkpoints in Region 1",
    "test_accuracy": "their mean test accuracy",
}
PERCENTILES = tuple(range(5, 100, 5))


@dataclass(frozen=True)
class Cell:
    """Region 1 for one pair of thresholds.

    Attributes:
        zeta_percentile: percentile of ζ; at most this is resistant.
        train_percentile: percentile of training accuracy; at least this is trainable.
        zeta: ζ at that percentile.
        train: training accuracy at that percentile.
        count: how many checkpoints are both.
        share: of all.
        test_accuracy: the mean of those for which it is known.
    """

    zeta_percentile: int
    train_percentile: int
    zeta: float
    train: float
    count: int
    share: float
    test_accuracy: float | None


@dataclass(frozen=True)
class Mark:
    """The position of a rule's thresholds on the map, in percent of the checkpoints."""

    rule: str
    zeta_percentile: float
    train_percentile: float


@dataclass(frozen=True)
class SensitivityRecord:
    """The data that the chart draws.

    Attributes:
        cells: the map.
        marks: the thresholds of the two region rules.
        has_truth: whether the color is the mean test accuracy, or the size of Region 1.
    """

    cells: tuple[Cell, ...]
    marks: tuple[Mark, ...]
    has_truth: bool


class SensitivityChart:
    """One cell per pair of percentiles: the mean test accuracy of Region 1, or its size."""

    name: ClassVar[str] = "sensitivity"
    title: ClassVar[str] = "Other thresholds"
    order: ClassVar[int] = 40
    of_regions: ClassVar[bool] = True

    def record(self, contents: Contents) -> SensitivityRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if no checkpoint has both ζ and training accuracy.
        """
        contents.check_regions()
        found = [contents.outcomes[name].selection for name in PAIR]
        marks = [_make_mark(contents.candidates, one.rule, one.thresholds) for one in found if one]
        cells = map_sensitivity(contents.candidates)
        return SensitivityRecord(cells, tuple(marks), contents.has_truth)

    def draw(self, record: SensitivityRecord, frame: Frame) -> alt.LayerChart:
        """Draw the cells and the marks of rules."""
        import altair as alt

        layers = [*_draw_cells(record), *_draw_marks(record)]
        return alt.LayerChart(
            layer=layers, width=frame.width, height=HEIGHT, view=make_borderless()
        )


def map_sensitivity(candidates: Candidates) -> tuple[Cell, ...]:
    """Return Region 1 for thresholds at every fifth percentile; empty without data."""
    known = candidates.known("zeta", "train_accuracy")
    if not known.any():
        return ()
    zetas, trains = (
        np.percentile(candidates.values(name)[known], PERCENTILES)
        for name in ("zeta", "train_accuracy")
    )
    counts, _, _, test, tested = sum_regions(candidates, zetas, trains).region_one()
    total = int(known.sum())
    return tuple(
        Cell(
            low,
            high,
            float(zetas[i]),
            float(trains[j]),
            int(counts[i, j]),
            float(counts[i, j] / total),
            float(test[i, j] / tested[i, j]) if tested[i, j] else None,
        )
        for i, low in enumerate(PERCENTILES)
        for j, high in enumerate(PERCENTILES)
    )


def _make_mark(candidates: Candidates, rule: str, thresholds: Mapping[str, float]) -> Mark:
    """Return which share of the checkpoints the thresholds of a rule leave below them."""
    known = candidates.known("zeta", "train_accuracy")
    below = (candidates.zeta[known] <= thresholds["susceptibility"]).mean()
    weaker = (candidates.values("train_accuracy")[known] < thresholds["train_accuracy"]).mean()
    return Mark(rule, 100 * float(below), 100 * float(weaker))


def _draw_cells(record: SensitivityRecord) -> list[alt.Chart]:
    import altair as alt

    field, title = (
        ("test_accuracy", "mean test accuracy in Region 1")
        if record.has_truth
        else ("share", "share of checkpoints in Region 1")
    )
    values = [
        {name: _shorten(value) for name, value in asdict(cell).items()}
        for cell in record.cells
        if cell.count
    ]
    ends = {
        "x_end": f"datum.zeta_percentile + {_HALF}",
        "x_start": f"datum.zeta_percentile - {_HALF}",
        "y_end": f"datum.train_percentile + {_HALF}",
        "y_start": f"datum.train_percentile - {_HALF}",
    }
    cells = (
        alt.Chart(alt.InlineData(values=values))
        .transform_calculate(**ends)
        .mark_rect(aria=False, stroke=color("paper"), strokeWidth=0.5)
        .encode(
            x=_make_position(alt.X, "x_start", "percentile of ζ that is the threshold"),
            x2=alt.X2("x_end:Q"),
            y=_make_position(alt.Y, "y_start", "percentile of training accuracy"),
            y2=alt.Y2("y_end:Q"),
            color=alt.Color(
                f"{field}:Q", title=title, scale=make_shade_scale(), legend=_make_legend(record)
            ),
            tooltip=[alt.Tooltip(f"{name}:N", title=words) for name, words in _HINTS.items()],
        )
    )
    return [cells]


def _make_legend(record: SensitivityRecord) -> alt.Legend:
    import altair as alt

    highest = max((cell.test_accuracy or 0.0 for cell in record.cells), default=0.0)
    return alt.Legend(
        format=choose_tick_format(highest),
        orient="top",
        direction="horizontal",
        gradientLength=180,
        gradientThickness=10,
        titleLimit=320,
    )


def _make_position(channel: type, field: str, title: str) -> object:
    import altair as alt

    return channel(
        f"{field}:Q",
        title=title,
        scale=alt.Scale(domain=[_HALF, 100 - _HALF], nice=False, zero=False),
        axis=alt.Axis(values=list(range(10, 100, 10)), grid=False),
    )


def _draw_marks(record: SensitivityRecord) -> list[alt.Chart]:
    import altair as alt

    places: dict[tuple[float, float], list[str]] = {}
    for mark in record.marks:
        place = (_clamp(mark.zeta_percentile), _clamp(mark.train_percentile))
        places.setdefault(place, []).append(mark.rule)
    values = [{"x": x, "y": y, "rule": ", ".join(rules)} for (x, y), rules in places.items()]
    base = alt.Chart(alt.InlineData(values=values)).encode(x=alt.X("x:Q"), y=alt.Y("y:Q"))
    side: dict[str, Any] = {
        "align": alt.ExprRef(f"datum.x > {_RIGHT} ? 'right' : 'left'"),
        "dx": alt.ExprRef(f"datum.x > {_RIGHT} ? -11 : 11"),
        "dy": alt.ExprRef(f"datum.y > {_HALF} ? 0 : -8"),
    }
    ring = base.mark_point(
        aria=False,
        size=120,
        filled=True,
        fill="#ffffff",
        stroke="#1d2430",
        strokeWidth=2,
        opacity=1,
    )
    # White letters with a dark outline are readable on every shade.
    rim = base.mark_text(
        aria=False, fontSize=13, fontWeight=700, stroke="#1d2430", strokeWidth=3, **side
    )
    label = base.mark_text(aria=False, fontSize=13, fontWeight=700, color="#ffffff", **side)
    return [ring, rim.encode(text=alt.Text("rule:N")), label.encode(text=alt.Text("rule:N"))]


def _clamp(percentile: float) -> float:
    return min(max(percentile, _HALF), 100 - _HALF)


def _shorten(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")
