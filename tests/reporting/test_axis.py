import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rote.reporting.axis import Axis, accuracy_axis, zeta_axis

numbers = st.lists(st.floats(-5, 50, allow_nan=False), min_size=1, max_size=30).map(np.array)


@given(numbers, st.integers(0, 500))
def test_at_most_is_the_same_on_the_grid_at_every_stop(values: np.ndarray, stop: int) -> None:
    axis = zeta_axis(values)
    at = axis.first_stop + stop * axis.step
    assert ((axis.on_grid(values) <= at) == (values <= at / axis.unit)).all()


@given(st.lists(st.floats(0, 1), min_size=1).map(np.array), st.integers(0, 1000))
def test_at_least_is_the_same_on_the_grid_at_every_stop(values: np.ndarray, stop: int) -> None:
    axis = accuracy_axis(values)
    at = axis.first_stop + stop * axis.step
    assert ((axis.on_grid(values) >= at) == (values >= at / axis.unit)).all()


def test_rounding_to_the_nearest_would_not_do() -> None:
    axis = Axis(0.0, 1.0, places=2, step=1, rounding="up")
    assert axis.on_grid(np.array([0.301])).tolist() == [31]  # more than 0.30
    assert Axis(0.0, 1.0, 2, 1, "down").on_grid(np.array([0.299])).tolist() == [29]


@given(numbers)
def test_a_slider_covers_the_axis_and_has_enough_stops(values: np.ndarray) -> None:
    axis = zeta_axis(values)
    assert axis.low < axis.high
    assert axis.first_stop / axis.unit <= axis.low + 1e-9
    assert axis.last_stop / axis.unit >= axis.high - 1e-9
    assert 20 <= (axis.last_stop - axis.first_stop) // axis.step <= 6000


def test_a_few_huge_values_do_not_squeeze_the_rest() -> None:
    values = np.append(np.linspace(0, 0.2, 99), 1e9)
    axis = zeta_axis(values)
    assert axis.high == pytest.approx(0.35, abs=0.1)
    assert axis.beyond(values) == 1


@pytest.mark.parametrize("values", [[], [0.0], [3.0], [-2.0, -2.0], [np.nan]])
def test_no_values_or_equal_ones_still_make_an_axis(values: list[float]) -> None:
    axis = zeta_axis(np.array(values, dtype=float))
    assert axis.low < axis.high
    assert accuracy_axis(np.array(values, dtype=float)).low < 1.0


def test_values_beyond_all_counting_stay_on_their_side() -> None:
    """A diverging run must not look resistant on the page."""
    values = np.append(np.linspace(0.0, 0.4, 50), [1e20, -1e20, 1e300])
    axis = zeta_axis(values)
    steps = axis.on_grid(values)
    assert steps[-3] > axis.last_stop
    assert steps[-1] > axis.last_stop
    assert steps[-2] < axis.first_stop
