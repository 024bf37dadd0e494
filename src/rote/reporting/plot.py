"""The charts of the report for notebooks, such as ``rote.plot.regions(runs)``."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

from rote.reporting.charts import CHARTS, Chart
from rote.reporting.charts.tracking import TrackingChart
from rote.reporting.contents import Contents, Runs, read_contents
from rote.reporting.frame import make_chart_frame

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
    """Plot training accuracy against ζ in four regions, with a slider for each threshold.

    Args:
        runs: see ``rote.select``.
        rule: the rule whose thresholds and selected checkpoint are shown; by default the report's.
        column: the column of ζ.
        mapping: as for ``rote.select``, if metrics have other names than rote's.

    Returns:
        An altair chart; click on a checkpoint to follow its run.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.LayerChart = _draw(
        CHARTS["regions"], read_contents(runs, rule=rule, column=column, mapping=mapping)
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
    """Plot ζ over steps, then the accuracy on noisy labels where it is known, then signals.

    Args:
        runs: see ``rote.select``.
        rule: the rule whose selected checkpoint is marked; by default the report's.
        column: the column of ζ.
        columns: any other recorded columns to draw below.
        mapping: as for ``rote.select``, if metrics have other names than rote's.

    Returns:
        An altair chart; click on a line to see one run.

    Raises:
        InputError: if there are no runs, or a column is not recorded.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    chart: alt.VConcatChart = _draw(
        TrackingChart(tuple(columns)),
        read_contents(runs, rule=rule, column=column, mapping=mapping),
    )
    return chart


def filter(  # noqa: A001
    runs: Runs,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
) -> alt.HConcatChart:
    """Plot training against test accuracy, for all checkpoints and those with ζ up to its median.

    Runs, column and mapping are as for ``regions``.

    Raises:
        InputError: if there are no runs, or no checkpoint has ζ, training and test accuracy.
    """
    chart: alt.HConcatChart = _draw(
        CHARTS["filter"], read_contents(runs, column=column, mapping=mapping)
    )
    return chart


def sensitivity(
    runs: Runs,
    *,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
) -> alt.LayerChart:
    """Plot the contents of Region 1 for all pairs of thresholds.

    Runs, column and mapping are as for ``regions``.

    Raises:
        InputError: if there are no runs, or none has both ζ and training accuracy.
    """
    chart: alt.LayerChart = _draw(
        CHARTS["sensitivity"], read_contents(runs, column=column, mapping=mapping)
    )
    return chart


def _draw(chart: Chart, contents: Contents) -> Any:  # noqa: ANN401
    record = chart.record(contents)
    # Identical charts share parameter names, different ones do not: sliders stay independent.
    tag = hashlib.sha256(repr((chart.name, record)).encode()).hexdigest()[:8]
    frame = make_chart_frame(contents.checkpoints, is_live=True, tag=tag)
    return _show_offline(frame.finish(chart.draw(record, frame)))


_ROOMY = {"axis": {"titlePadding": 12}, "padding": 12}
"""Padding of pictures: a reader's fonts may be wider than those measured here."""


def _show_offline(chart: Any) -> Any:  # noqa: ANN401
    """Make a notebook show a chart without the network; nothing else about the chart changes."""
    kind = _make_offline_class(type(chart))  # type: ignore[arg-type]  # classes are hashable
    object.__setattr__(chart, "__class__", kind)  # past altair's own
    return chart


@cache
def _make_offline_class(kind: type[Any]) -> type[Any]:
    """Return a subclass whose output in a notebook loads no script.

    Altair's default output is a page that loads Vega from the net. Here it is the specification,
    which JupyterLab and VS Code draw by themselves, and a picture for every other notebook. A
    renderer that the user has enabled goes on to decide.
    """
    import altair as alt

    def make_bundle(self: Any, *args: Any, **options: Any) -> Any:  # noqa: ANN401
        import vl_convert

        if alt.renderers.active != "default":
            return kind._repr_mimebundle_(self, *args, **options)
        spec = self.to_dict()
        major = alt.SCHEMA_VERSION.removeprefix("v").partition(".")[0]
        return {
            f"application/vnd.vegalite.v{major}+json": spec,
            "image/svg+xml": vl_convert.vegalite_to_svg(json.dumps(spec), config=_ROOMY),
        }

    return type(kind.__name__, (kind,), {"_repr_mimebundle_": make_bundle})
