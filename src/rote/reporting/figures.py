"""The charts as figures of their own: for notebooks, and as SVG and PNG."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.errors import shown as as_shown
from rote.reporting.charts import CHARTS, drawable
from rote.reporting.frame import own_frame
from rote.reporting.output_file import write_file

if TYPE_CHECKING:
    from rote.reporting.charts import Chart
    from rote.reporting.contents import Contents

_SCALE = 2.0


@dataclass(frozen=True)
class SavedFigures:
    """What was drawn.

    Attributes:
        files: everything that was written.
        missing: why a figure could not be drawn, by its name.
    """

    files: tuple[Path, ...] = ()
    missing: Mapping[str, str] = field(default_factory=dict)


def save_figures(
    contents: Contents, folder: Path, more: Mapping[str, Chart] | None = None
) -> SavedFigures:
    """Write every figure as SVG and PNG; no browser is needed.

    Each file is there whole or not at all; others in the folder are left alone.

    Returns:
        The files, and what could not be drawn.

    Raises:
        InputError: if the folder cannot be written.
    """
    import vl_convert

    frame = own_frame(contents.checkpoints, is_live=False)
    files: list[Path] = []
    missing: dict[str, str] = {}
    everything = CHARTS | dict(more or {})
    shown = drawable(everything, contents)
    rule = contents.verdict.selection.rule
    for name in everything.keys() - shown.keys():
        if getattr(everything[name], "of_regions", False):
            missing[name] = (
                f"Rule `{rule}` has no regions. Ask for one that has, such as --rule staged."
            )
    for name, chart in shown.items():
        try:
            record = chart.record(contents)
        except InputError as error:
            missing[name] = str(error)
            continue
        spec = json.dumps(frame.spec(chart.draw(record, frame), check=name not in CHARTS))
        try:
            drawn = {
                "svg": vl_convert.vegalite_to_svg(spec).encode(),
                "png": vl_convert.vegalite_to_png(spec, scale=_SCALE),
            }
        except ValueError as error:  # nothing to draw, or labels larger than any picture
            missing[name] = f"Expected a chart that can be drawn, got: {_last_line(error)}."
            continue
        for kind, content in drawn.items():
            files.append(folder / f"{name}.{kind}")
            write_file(files[-1], content)
    return SavedFigures(tuple(files), missing)


def _last_line(error: ValueError) -> str:
    """What the converter says, without the places in its own code."""
    said = [line for line in str(error).splitlines() if not line.startswith("    at ")]
    return as_shown(said[-1].strip()) if said else "nothing"
