"""The figures of the report, each a chart of its own; and all of them as SVG and PNG."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError
from rote.reporting.file import write_file
from rote.reporting.filter_chart import after_filter, before_filter, correlation
from rote.reporting.frame import own_frame
from rote.reporting.region_chart import region_chart
from rote.reporting.sensitivity_chart import sensitivity_chart
from rote.reporting.tracking_chart import noisy_over_time, zeta_over_time

if TYPE_CHECKING:
    import altair as alt

    from rote.reporting.contents import Contents
    from rote.reporting.frame import Frame

_HALF = 340
_SCALE = 2.0
_NO_REGIONS = (
    "Expected `runs` to have checkpoints with ζ and training accuracy, got none. Pass "
    "train_accuracy= to the probe."
)


def regions_figure(contents: Contents, frame: Frame) -> alt.LayerChart:
    """Training accuracy against ζ, with sliders where somebody can move them.

    Raises:
        InputError: if no checkpoint has both.
    """
    if not contents.has_regions:
        raise InputError(_NO_REGIONS)
    made: alt.LayerChart = frame.finished(region_chart(contents, frame, with_sliders=frame.is_live))
    return made


def tracking_figure(contents: Contents, frame: Frame) -> alt.VConcatChart:
    """ζ over training and, where it is known, the accuracy on noisy labels below it."""
    import altair as alt

    charts = [zeta_over_time(contents, frame)]
    if contents.checkpoints.has("noisy"):
        charts.append(noisy_over_time(contents, frame))
    made: alt.VConcatChart = frame.finished(_joined(alt.vconcat, charts))
    return made


def filter_figure(contents: Contents, frame: Frame) -> alt.HConcatChart:
    """Training against test accuracy, before and after the filter.

    Raises:
        InputError: if no checkpoint has ζ and both accuracies.
    """
    import altair as alt

    if contents.filter is None:
        raise InputError(
            "Expected `runs` to have checkpoints with ζ, training and test accuracy, got none. "
            "Pass train_accuracy= and test_accuracy= to the probe."
        )
    found = contents.agreement
    known, kept = int(contents.filter.known.sum()), int(contents.filter.kept.sum())
    titles = (
        alt.TitleParams(
            f"All {known:,} checkpoints" if known > 1 else "The only checkpoint",
            subtitle=correlation(found.train_test_pearson, found.train_test_kendall),
            anchor="start",
        ),
        alt.TitleParams(
            f"The {kept:,} with ζ at most {contents.filter.threshold:.4g}",
            subtitle=correlation(found.filtered_pearson, found.filtered_kendall),
            anchor="start",
        ),
    )
    charts = [
        before_filter(contents, frame).properties(title=titles[0], width=_HALF),
        after_filter(contents, frame).properties(title=titles[1], width=_HALF),
    ]
    made: alt.HConcatChart = frame.finished(_joined(alt.hconcat, charts))
    return made


def sensitivity_figure(contents: Contents, frame: Frame) -> alt.LayerChart:
    """What Region 1 holds for other thresholds.

    Raises:
        InputError: if no checkpoint has both ζ and training accuracy.
    """
    if not contents.has_regions:
        raise InputError(_NO_REGIONS)
    made: alt.LayerChart = frame.finished(sensitivity_chart(contents, frame))
    return made


FIGURES: dict[str, Callable[[Contents, Frame], Any]] = {
    "regions": regions_figure,
    "tracking": tracking_figure,
    "filter": filter_figure,
    "sensitivity": sensitivity_figure,
}


@dataclass(frozen=True)
class SavedFigures:
    """What was drawn.

    Attributes:
        files: everything that was written.
        missing: why a figure could not be drawn, by its name.
    """

    files: tuple[Path, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def save_figures(contents: Contents, folder: Path) -> SavedFigures:
    """Write every figure as SVG and PNG; no browser is needed.

    Each file is there whole or not at all; others in the folder are left alone.

    Args:
        contents: what to draw.
        folder: where to; made if it is not there.

    Returns:
        The files, and what could not be drawn.

    Raises:
        InputError: if the folder cannot be written.
    """
    import vl_convert

    frame = own_frame(contents, is_live=False)
    files: list[Path] = []
    missing: dict[str, str] = {}
    for name, draw in FIGURES.items():
        try:
            spec = json.dumps(draw(contents, frame).to_dict())
        except InputError as error:
            missing[name] = str(error)
            continue
        drawn = {
            "svg": vl_convert.vegalite_to_svg(spec).encode(),
            "png": vl_convert.vegalite_to_png(spec, scale=_SCALE),
        }
        for kind, content in drawn.items():
            files.append(folder / f"{name}.{kind}")
            write_file(files[-1], content)
    return SavedFigures(tuple(files), missing)


def _joined(join: Callable[..., Any], charts: Sequence[Any]) -> Any:  # noqa: ANN401
    """Several charts as one, in which a run that is chosen in one is chosen in all."""
    with warnings.catch_warnings():
        # altair says that it makes one parameter of two of the same name: that is what links them.
        warnings.filterwarnings("ignore", "Automatically deduplicated selection parameter")
        return join(*charts)
