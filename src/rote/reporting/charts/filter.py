"""The filter charts: training against test accuracy, before and after the ζ filter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.errors import InputError
from rote.records import COLUMNS
from rote.reporting.axis import Axis, make_accuracy_axis
from rote.reporting.frame import as_channel, join_charts, make_run_choice, make_tooltip, point_size
from rote.reporting.palette import color, make_borderless
from rote.selection import correlation

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.checkpoints import Checkpoints
    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection import Estimate

HEIGHT = 300
_HALF = 340


@dataclass(frozen=True)
class FilterRecord:
    """The data that the chart draws.

    Attributes:
        checkpoints: the points.
        train: the axis of training accuracy.
        test: the axis of test accuracy.
        known: the number of checkpoints that have ζ and both accuracies.
        kept: how many of them the filter keeps.
        threshold: the median of ζ.
        pearson: of training with test accuracy, all checkpoints.
        kendall: the same, τ-b.
        filtered_pearson: the same among those that the filter keeps.
        filtered_kendall: the same, τ-b.
    """

    checkpoints: Checkpoints
    train: Axis
    test: Axis
    known: int
    kept: int
    threshold: float
    pearson: Estimate
    kendall: Estimate
    filtered_pearson: Estimate
    filtered_kendall: Estimate


class FilterChart:
    """Training against test accuracy, all checkpoints and those with ζ at most its median."""

    name: ClassVar[str] = "filter"
    title: ClassVar[str] = "Does training accuracy tell test accuracy?"
    order: ClassVar[int] = 30

    def record(self, contents: Contents) -> FilterRecord:
        """Return the data that the chart draws.

        Raises:
            InputError: if no checkpoint has ζ and both accuracies.
        """
        candidates, kept, draws = contents.candidates, contents.filter, contents.draws
        if kept is None:
            raise InputError(
                "The runs have no checkpoints with ζ, training accuracy and test accuracy. Pass "
                "train_accuracy= and test_accuracy= to the probe."
            )
        both = ("train_accuracy", "test_accuracy")
        has_train = np.isfinite(candidates.values("train_accuracy"))
        return FilterRecord(
            checkpoints=contents.checkpoints,
            train=contents.train_axis,
            test=make_accuracy_axis(candidates.values("test_accuracy")[has_train]),
            known=int(kept.known.sum()),
            kept=int(kept.kept.sum()),
            threshold=kept.threshold,
            pearson=correlation(candidates, *both, "pearson", draws),
            kendall=correlation(candidates, *both, "kendall", draws),
            filtered_pearson=correlation(candidates, *both, "pearson", draws, is_filtered=True),
            filtered_kendall=correlation(candidates, *both, "kendall", draws, is_filtered=True),
        )

    def parts(self, record: FilterRecord, frame: Frame) -> dict[str, alt.Chart]:
        """Draw all checkpoints, in two colors, and those that the filter keeps."""
        before = _draw_points(record, frame, "isValid(datum.zeta)")
        return {"before": before, "after": _draw_points(record, frame, "datum.kept")}

    def draw(self, record: FilterRecord, frame: Frame) -> alt.HConcatChart:
        """Draw both side by side, with the correlations above."""
        import altair as alt

        titles = (
            alt.TitleParams(
                f"All {record.known:,} checkpoints" if record.known > 1 else "The only checkpoint",
                subtitle=describe_correlations(record.pearson, record.kendall),
                anchor="start",
            ),
            alt.TitleParams(
                f"The {record.kept:,} with ζ at most {record.threshold:.4g}",
                subtitle=describe_correlations(record.filtered_pearson, record.filtered_kendall),
                anchor="start",
            ),
        )
        parts = self.parts(record, frame).values()
        charts = [
            part.properties(title=title, width=_HALF)
            for part, title in zip(parts, titles, strict=True)
        ]
        made: alt.HConcatChart = join_charts(alt.hconcat, charts)
        return made


def describe_correlations(pearson: Estimate, kendall: Estimate) -> str:
    """Describe two correlations, with their intervals if known."""
    return f"Pearson r {_describe(pearson)} · Kendall τ {_describe(kendall)}"


def describe_change(found: FilterRecord) -> str:
    """Describe how the filter changes both correlations; empty if they are undefined."""
    pairs = (
        ("Pearson’s r", found.pearson.value, found.filtered_pearson.value),
        ("Kendall’s τ", found.kendall.value, found.filtered_kendall.value),
    )
    known = [
        (name, round(before, 2), round(after, 2))
        for name, before, after in pairs
        if before is not None and after is not None
    ]
    if not known:
        return ""
    parts = [f"from {before:.2f} to {after:.2f}".replace("-", "−") for _, before, after in known]
    text = f"Here {known[0][0]} goes {parts[0]}"
    text += "." if len(known) == 1 else f" and {known[1][0]} {parts[1]}."
    if all(after <= before for _, before, after in known):
        return f"{text} The filter does not help here."
    if any(after < before for _, before, after in known):
        return f"{text} They disagree about whether the filter helps: do not rely on one alone."
    return text


def _describe(estimate: Estimate) -> str:
    if estimate.value is None:
        return "is not defined"
    text = f"= {estimate.value:.2f}".replace("-", "−")
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-", "−")


def _draw_points(record: FilterRecord, frame: Frame, which: str) -> alt.Chart:
    import altair as alt

    chosen = make_run_choice(frame)
    train, test = record.train, record.test
    chart: alt.Chart = (
        alt.Chart(frame.data, width=frame.width, height=HEIGHT, view=make_borderless())
        .transform_filter(which)
        .transform_filter("isValid(datum.train) && isValid(datum.test)")
        .mark_circle(aria=False, size=point_size(record.checkpoints))
        .encode(
            x=alt.X(
                "train:Q",
                title=COLUMNS["train_accuracy"].label,
                scale=alt.Scale(domain=[train.low, train.high], nice=False, zero=False),
                axis=alt.Axis(format=train.tick_format),
            ),
            y=alt.Y(
                "test:Q",
                title=COLUMNS["test_accuracy"].label,
                scale=alt.Scale(domain=[test.low, test.high], nice=False, zero=False),
                axis=alt.Axis(format=test.tick_format),
            ),
            color=as_channel(
                alt.ColorValue,
                alt.when(chosen, empty=False)
                .then(alt.value(color("highlight")))
                .when("datum.kept")
                .then(alt.value(color("accent")))
                .otherwise(alt.value(color("line"))),
            ),
            opacity=as_channel(
                alt.OpacityValue, alt.condition(chosen, alt.value(0.85), alt.value(0.12))
            ),
            tooltip=make_tooltip(record.checkpoints, frame),
        )
        .add_params(chosen)
    )
    return chart
