import math

import pytest
from hypothesis import given, strategies

from rote.errors import StateError
from rote.tracking.susceptibility import RunningMean

finite = strategies.floats(-1e6, 1e6)
any_float = strategies.one_of(finite, strategies.sampled_from([math.nan, math.inf, -math.inf]))


@given(strategies.lists(finite, min_size=1, max_size=60))
def test_running_mean_equals_algorithm_1(drops: list[float]) -> None:
    mean, zeta = RunningMean(), 0.0
    for t, drop in enumerate(drops, start=1):
        zeta = ((t - 1) * zeta + drop) / t
        assert mean.update(drop, step=t) == pytest.approx(zeta, rel=1e-9, abs=1e-6)
    assert mean.value == pytest.approx(math.fsum(drops) / len(drops), rel=1e-9, abs=1e-6)


@given(strategies.lists(any_float, max_size=40))
def test_drops_that_are_not_finite_are_left_out(drops: list[float]) -> None:
    mean, kept = RunningMean(), RunningMean()
    for step, drop in enumerate(drops):
        mean.update(drop, step)
        if math.isfinite(drop):
            kept.update(drop, step)
    assert mean == kept
    assert math.isnan(mean.value) == (kept.count == 0)


@given(drops=strategies.lists(any_float, max_size=30), cut=strategies.integers(0, 30))
def test_a_resumed_mean_continues_exactly(drops: list[float], cut: int) -> None:
    whole, first, second = RunningMean(), RunningMean(), RunningMean()
    for step, drop in enumerate(drops):
        whole.update(drop, step)
        if step < cut:
            first.update(drop, step)
    second.load_state_dict(first.state_dict())
    for step, drop in enumerate(drops[cut:], start=cut):
        second.update(drop, step)
    assert second == whole


@pytest.mark.parametrize(
    ("drops", "dominated"),
    [
        ([9e4, 0.1, 0.1, 0.1, 0.1], True),
        ([-9e4, 0.1, 0.1, 0.1, 0.1], True),
        ([9e4, 0.1, 0.1], True),
        ([5.0, 4.0, -4.0, -4.0, 0.5], True),
        ([9e4, 0.1], False),  # with so few, it cannot be otherwise
        ([4.0, 1.0, 1.0, 1.0, 1.0], False),  # exactly half
        ([0.3, 0.2, 0.2, 0.2, 0.2], False),
    ],
)
def test_a_dominating_value_is_noticed(drops: list[float], dominated: bool) -> None:
    mean = RunningMean()
    for step, drop in enumerate(drops, start=1):
        mean.update(drop, step)
    assert mean.is_dominated is dominated
    assert mean.largest_step == 1


def test_a_foreign_state_is_refused() -> None:
    with pytest.raises(StateError, match="Expected the state of a running mean to have"):
        RunningMean().load_state_dict({"count": 1})
