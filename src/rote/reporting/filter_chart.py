"""The filter charts: training against test accuracy, before and after the ζ filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rote.reporting.axis import accuracy_axis
from rote.reporting.frame import chosen_run, hints, point_size
from rote.reporting.palette import colour, plain_view

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame
    from rote.selection.agreement import Agreement
    from rote.selection.bootstrap import Estimate

HEIGHT = 300


def before_filter(contents: Contents, frame: Frame) -> alt.Chart:
    """All checkpoints with both accuracies, those that the filter drops in another colour.

    Args:
        contents: with a filter.
        frame: where it is drawn.
    """
    return _points(contents, frame, "isValid(datum.zeta)")


def after_filter(contents: Contents, frame: Frame) -> alt.Chart:
    """Those that stay.

    Args:
        contents: with a filter.
        frame: where it is drawn.
    """
    return _points(contents, frame, "datum.kept")


def correlation(pearson: Estimate, kendall: Estimate) -> str:
    """Two correlations in words, with their intervals where there are any."""
    return f"Pearson r {_words(pearson)} · Kendall τ {_words(kendall)}"


def change(found: Agreement) -> str:
    """What the filter does to both correlations, and whether they agree about it; may be empty."""
    pairs = (
        ("Pearson’s r", found.train_test_pearson.value, found.filtered_pearson.value),
        ("Kendall’s τ", found.train_test_kendall.value, found.filtered_kendall.value),
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


def _words(estimate: Estimate) -> str:
    if estimate.value is None:
        return "is not defined"
    text = f"= {estimate.value:.2f}".replace("-", "−")
    if estimate.low is None or estimate.high is None:
        return text
    return f"{text} [{estimate.low:.2f}, {estimate.high:.2f}]".replace("-", "−")


def _points(contents: Contents, frame: Frame, which: str) -> alt.Chart:
    import altair as alt

    chosen = chosen_run(frame)
    known = np.isfinite(contents.candidates.train_accuracy)
    test = accuracy_axis(contents.candidates.test_accuracy[known])
    train = contents.train_axis
    chart: alt.Chart = (
        alt.Chart(frame.data, width=frame.width, height=HEIGHT, view=plain_view())
        .transform_filter(which)
        .transform_filter("isValid(datum.train) && isValid(datum.test)")
        .mark_circle(aria=False, size=point_size(contents.checkpoints))
        .encode(
            x=alt.X(
                "train:Q",
                title="training accuracy",
                scale=alt.Scale(domain=[train.low, train.high], nice=False, zero=False),
                axis=alt.Axis(format=train.ticks),
            ),
            y=alt.Y(
                "test:Q",
                title="test accuracy",
                scale=alt.Scale(domain=[test.low, test.high], nice=False, zero=False),
                axis=alt.Axis(format=test.ticks),
            ),
            color=alt.when(chosen, empty=False)
            .then(alt.value(colour("highlight")))
            .when("datum.kept")
            .then(alt.value(colour("accent")))
            .otherwise(alt.value(colour("line"))),
            opacity=alt.condition(chosen, alt.value(0.85), alt.value(0.12)),
            tooltip=hints(contents.checkpoints, frame),
        )
        .add_params(chosen)
    )
    return chart
