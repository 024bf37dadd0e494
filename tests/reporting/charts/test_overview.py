"""The overview chart: where the label of the later steps stands."""

from rote.reporting.axis import Axis
from rote.reporting.charts.overview import OverviewRecord, Series, find_gap


def record_of(*lines: tuple[float | None, ...]) -> OverviewRecord:
    """Three steps, of which the first is selected."""
    series = tuple(Series("x", "x", "ink", (1, 0), 2.0, values) for values in lines)
    axis = Axis(0.0, 1.0, 2, 1)
    return OverviewRecord("a", 1, 3, (1, 2, 3), series, axis, (), axis, "ζ")


def test_the_label_of_later_steps_is_far_from_the_lines() -> None:
    assert find_gap(record_of((0.9, 1.0, 1.0), (0.8, 0.7, 0.7))) < 0.1
    assert find_gap(record_of((0.1, 0.2, 0.1), (0.1, None, 0.3))) > 0.9
    assert 0.45 < find_gap(record_of((1.0, 1.0, 1.0), (0.0, 0.0, 0.05))) < 0.6
