"""The overview chart: where its labels stand, and how wide its lines are."""

import json
import re

import pytest
import vl_convert

from rote.reporting.axis import Axis
from rote.reporting.charts.overview import OverviewChart, OverviewRecord, Series, find_gap
from rote.reporting.frame import Frame


def record_of(*lines: tuple[float | None, ...]) -> OverviewRecord:
    """Three steps, of which the first is selected."""
    series = tuple(Series("x", "x", "ink", (1, 0), 2.0, values) for values in lines)
    axis = Axis(0.0, 1.0, 2, 1)
    return OverviewRecord("a", 1, 3, (1, 2, 3), series, axis, (), axis, "ζ")


def test_the_label_of_later_steps_is_far_from_the_lines() -> None:
    assert find_gap(record_of((0.9, 1.0, 1.0), (0.8, 0.7, 0.7))) < 0.1
    assert find_gap(record_of((0.1, 0.2, 0.1), (0.1, None, 0.3))) > 0.9
    assert 0.45 < find_gap(record_of((1.0, 1.0, 1.0), (0.0, 0.0, 0.05))) < 0.6


@pytest.mark.parametrize("number", [1, 2])
def test_lines_keep_their_widths_however_many_there_are(number: int) -> None:
    frame = Frame(rows=[], width=400, is_live=False)
    record = record_of(*([(0.5, 0.6, 0.7)] * number))
    named = tuple(
        Series(f"x{k}", f"x{k}", "ink", (1, 0), width, one.values)
        for k, (one, width) in enumerate(zip(record.series, (3.0, 2.0), strict=False))
    )
    chart = OverviewChart()
    spec = frame.spec(chart.draw(OverviewRecord(**{**vars(record), "series": named}), frame))
    drawn = vl_convert.vegalite_to_svg(json.dumps(spec))
    lines = re.findall(r'class="mark-line role-mark.*?stroke-width="([\d.]+)"', drawn, re.DOTALL)
    assert lines == ["3", "2"][:number]


def test_the_selected_step_is_named_above_the_panel_where_no_line_passes() -> None:
    frame = Frame(rows=[], width=400, is_live=False)
    chart = OverviewChart()
    spec = frame.spec(chart.draw(record_of((0.9, 1.0, 1.0)), frame))
    marks = [layer["mark"] for layer in spec["vconcat"][0]["layer"]]
    (name,) = (mark for mark in marks if mark.get("text") == "step 1")
    assert (name["y"] < 0, name["baseline"]) == (True, "bottom")
