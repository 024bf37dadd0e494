"""The charts of the report for notebooks: ``rote.plot.regions(runs)`` and its kin."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rote.reporting.charts import CHARTS, Chart
from rote.reporting.charts.tracking import TrackingChart
from rote.reporting.contents import Contents, Runs, contents_of
from rote.reporting.frame import own_frame

if TYPE_CHECKING:
    import altair as alt

__all__ = ["filter", "regions", "sensitivity", "tracking"]


def regions(
    runs: Runs,
    *,
    rule: str | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
) -> alt.LayerChart:
    """Training accuracy against ζ, four regions, with a slider for each threshold.

    Args:
        runs: as for ``rote.select``.
        rule: whose thresholds and pick are shown; by default those of the report.
        column: which ζ.
        mapping: as for ``rote.select``: where metrics have other names than rote's.

    Returns:
        An altair chart; click on a checkpoint to follow its run.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.LayerChart = _drawn(
        CHARTS["regions"], contents_of(runs, rule=rule, column=column, mapping=mapping)
    )
    return chart


def tracking(
    runs: Runs,
    *,
    rule: str | None = None,
    column: str = "susceptibility",
    columns: Sequence[str] = (),
    mapping: Mapping[str, str] | None = None,
) -> alt.VConcatChart:
    """ζ over training and, where it is known, the accuracy on noisy labels below it; then signals.

    Args:
        runs: as for ``rote.select``.
        rule: whose pick is marked; by default that of the report.
        column: which ζ.
        columns: any other recorded columns to draw below.
        mapping: as for ``rote.select``: where metrics have other names than rote's.

    Returns:
        An altair chart; click on a line to see one run.

    Raises:
        InputError: if there are no runs, or a column is not recorded.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.VConcatChart = _drawn(
        TrackingChart(tuple(columns)),
        contents_of(runs, rule=rule, column=column, mapping=mapping),
    )
    return chart


def filter(  # noqa: A001
    runs: Runs,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
) -> alt.HConcatChart:
    """Training against test accuracy, all checkpoints and those with ζ at most its median.

    Runs, column and mapping are as for ``regions``.

    Raises:
        InputError: if there are no runs, or no checkpoint has ζ, training and test accuracy.
    """
    chart: alt.HConcatChart = _drawn(
        CHARTS["filter"], contents_of(runs, column=column, mapping=mapping)
    )
    return chart


def sensitivity(
    runs: Runs,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
) -> alt.LayerChart:
    """What Region 1 holds for other thresholds.

    Runs, column and mapping are as for ``regions``.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
    """
    chart: alt.LayerChart = _drawn(
        CHARTS["sensitivity"], contents_of(runs, column=column, mapping=mapping)
    )
    return chart


def _drawn(chart: Chart, contents: Contents) -> Any:  # noqa: ANN401
    record = chart.record(contents)
    # The same for the same chart, another for any other: a slider moves the lines of its own.
    tag = hashlib.sha256(repr((chart.name, record)).encode()).hexdigest()[:8]
    frame = own_frame(contents.checkpoints, is_live=True, tag=tag)
    return frame.finished(chart.draw(record, frame))
