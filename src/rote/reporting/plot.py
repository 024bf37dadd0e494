"""The charts of the report for notebooks: ``rote.plot.regions(runs)`` and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.reporting.contents import Runs, contents_of
from rote.reporting.figures import FIGURES
from rote.reporting.frame import own_frame

if TYPE_CHECKING:
    import altair as alt

__all__ = ["filter", "regions", "sensitivity", "tracking"]


def regions(
    runs: Runs, *, rule: str | None = None, column: str = "susceptibility"
) -> alt.LayerChart:
    """Training accuracy against ζ, four regions, with a slider for each threshold.

    Args:
        runs: as for ``rote.select``.
        rule: whose thresholds and pick are shown; by default those of the report.
        column: which ζ.

    Returns:
        An altair chart; click on a checkpoint to follow its run.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.LayerChart = _drawn("regions", runs, rule, column)
    return chart


def tracking(
    runs: Runs, *, rule: str | None = None, column: str = "susceptibility"
) -> alt.VConcatChart:
    """ζ over training and, where it is known, the accuracy on noisy labels below it.

    Args:
        runs: as for ``rote.select``.
        rule: whose pick is marked; by default that of the report.
        column: which ζ.

    Returns:
        An altair chart; click on a line to see one run.

    Raises:
        InputError: if there are no runs.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.VConcatChart = _drawn("tracking", runs, rule, column)
    return chart


def filter(runs: Runs, *, column: str = "susceptibility") -> alt.HConcatChart:  # noqa: A001
    """Training against test accuracy, all checkpoints and those with ζ at most its median.

    Args:
        runs: as for ``rote.select``.
        column: which ζ.

    Returns:
        An altair chart.

    Raises:
        InputError: if there are no runs, or no checkpoint has ζ, training and test accuracy.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.HConcatChart = _drawn("filter", runs, None, column)
    return chart


def sensitivity(runs: Runs, *, column: str = "susceptibility") -> alt.LayerChart:
    """What Region 1 holds for other thresholds.

    Args:
        runs: as for ``rote.select``.
        column: which ζ.

    Returns:
        An altair chart.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.LayerChart = _drawn("sensitivity", runs, None, column)
    return chart


def _drawn(figure: str, runs: Runs, rule: str | None, column: str) -> Any:  # noqa: ANN401
    contents = contents_of(runs, rule=rule, column=column)
    return FIGURES[figure](contents, own_frame(contents, is_live=True))
