import numpy as np
import pytest
from hypothesis import given, strategies as st

from rote.reporting.axis import make_accuracy_axis, make_zeta_axis

pytestmark = pytest.mark.xdist_group("figures")

numbers = st.lists(st.floats(-5, 50, allow_nan=False), min_size=1, max_size=30).map(np.array)


@given(numbers)
def test_a_slider_covers_the_axis_and_has_enough_stops(values: np.ndarray) -> None:
    axis = make_zeta_axis(values)
    assert axis.low < axis.high
    assert axis.first_stop / axis.unit <= axis.low + 1e-9
    assert axis.last_stop / axis.unit >= axis.high - 1e-9
    assert 20 <= (axis.last_stop - axis.first_stop) // axis.step <= 6000


def test_a_few_huge_values_do_not_squeeze_the_rest() -> None:
    values = np.append(np.linspace(0, 0.2, 99), 1e9)
    axis = make_zeta_axis(values)
    assert axis.high == pytest.approx(0.35, abs=0.1)
    assert axis.beyond(values) == 1


@pytest.mark.parametrize("values", [[], [0.0], [3.0], [-2.0, -2.0], [np.nan]])
def test_no_values_or_equal_ones_still_make_an_axis(values: list[float]) -> None:
    axis = make_zeta_axis(np.array(values, dtype=float))
    assert axis.low < axis.high
    assert make_accuracy_axis(np.array(values, dtype=float)).low < 1.0


def test_an_axis_is_limited_if_accuracies_are_huge() -> None:
    axis = make_accuracy_axis(np.array([-1.7e308, 0.5, 1.7e308]))
    assert axis.high == 1e15
    assert axis.beyond(np.array([1.7e308])) == 1


@given(numbers, st.integers(10, 300))
def test_fewer_stops_are_a_round_number_apart(values: np.ndarray, most: int) -> None:
    axis = make_zeta_axis(values).with_stops(most)
    assert len(axis.stops) <= most + 2
    assert axis.stops[0] <= axis.low + 1e-9
    assert axis.stops[-1] >= axis.high - 1e-9
    assert str(axis.step).rstrip("0") in ("1", "2", "5")
