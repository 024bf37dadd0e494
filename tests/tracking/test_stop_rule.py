"""The stop rule, against a naive second implementation that sees the whole run at once."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import rote
from rote.errors import InputError, StateError
from rote.records import Reading
from rote.tracking import StopRule

ACCURACIES = st.sampled_from([0.1, 0.4, 0.5, 0.6, 1.0, math.nan])
ZETAS = st.one_of(st.sampled_from([-0.1, 0.0, 0.1, 0.2, math.nan]), st.floats(-1, 1))
RUNS = st.lists(st.tuples(ACCURACIES, ZETAS), max_size=30)


def reading(step: int, accuracy: float | None, zeta: float) -> Reading:
    metrics = {} if accuracy is None else {"train_accuracy": accuracy}
    return Reading(step, 2.0, 2.0 - zeta, zeta, zeta, zeta / 2, metrics=metrics)


def naive(run: list[tuple[float, float]], rule: StopRule) -> tuple[int | None, int | None]:
    """The step at which the rule should stop, and the one to keep."""
    counted = [
        (step, zeta)
        for step, (accuracy, zeta) in enumerate(run, start=1)
        if step >= rule.min_epochs and accuracy >= rule.train_accuracy and zeta == zeta
    ]
    keep = None
    for end in range(1, len(counted) + 1):
        seen = counted[:end]
        lowest = min(zeta for _, zeta in seen)
        position = min(i for i, (_, zeta) in enumerate(seen) if zeta == lowest)
        keep = seen[position][0]
        limit = lowest + rule.min_rise * abs(lowest)
        if sum(zeta > limit for _, zeta in seen[position + 1 :]) >= rule.patience:
            return seen[-1][0], keep
    return None, keep


@given(
    RUNS, st.sampled_from([0.0, 0.5, 1.0]), st.integers(1, 4), st.integers(0, 6),
    st.sampled_from([0.0, 0.5]),
)  # fmt: skip
def test_stops_and_keeps_as_the_definition_says(
    run: list[tuple[float, float]], high: float, patience: int, min_epochs: int, rise: float
) -> None:
    rule = StopRule(train_accuracy=high, patience=patience, min_epochs=min_epochs, min_rise=rise)
    stopped_at = None
    for step, (accuracy, zeta) in enumerate(run, start=1):
        if rule.update(reading(step, accuracy, zeta)):
            stopped_at = step
            break
    assert (stopped_at, rule.keep) == naive(run, rule)


@given(RUNS, st.integers(0, 29))
def test_a_resumed_rule_goes_on_as_if_never_interrupted(
    run: list[tuple[float, float]], cut: int
) -> None:
    whole, first, second = (StopRule(patience=2, min_epochs=1) for _ in range(3))
    readings = [reading(step, *values) for step, values in enumerate(run, start=1)]
    for value in readings:
        whole.update(value)
    for value in readings[:cut]:
        first.update(value)
    second.load_state_dict(first.state_dict())
    for value in readings[cut:]:
        second.update(value)
    assert second == whole


def test_a_rising_susceptibility_alone_does_not_stop() -> None:
    rule = StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    assert not any(rule.update(reading(step, 0.4, 0.1 * step)) for step in range(1, 20))
    assert rule.keep is None
    assert rule.reason is None


def test_a_high_accuracy_alone_does_not_stop() -> None:
    rule = StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    assert not any(rule.update(reading(step, 0.99, 0.1 / step)) for step in range(1, 20))
    assert rule.keep == 19


def test_it_says_why_and_stays_stopped() -> None:
    rule = rote.StopRule(train_accuracy=0.5, patience=2, min_epochs=1)
    for step, zeta in enumerate([0.02, 0.03, 0.04], start=1):
        stop = rule.update(reading(step, 0.6, zeta))
    assert stop
    assert rule.reason == (
        "ζ has been above its lowest value (0.02 at step 1) in 2 readings since, with a training "
        "accuracy of 50% or more: keep step 1."
    )
    assert rule.update(reading(4, 0.6, 0.001))
    assert rule.update(None)
    assert rule.keep == 1


def test_of_equals_the_first_is_kept_and_they_are_no_rise() -> None:
    rule = StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    readings = [reading(step, 0.6, 0.02) for step in range(1, 9)]
    assert not any(rule.update(value) for value in readings)
    assert rule.keep == 1
    assert rule.update(reading(9, 0.6, 0.03))


def test_a_probe_that_was_not_due_changes_nothing() -> None:
    rule = StopRule(patience=1, min_epochs=1)
    assert rule.update(None) is False
    assert rule == StopRule(patience=1, min_epochs=1)


def test_it_goes_by_the_column_it_is_told() -> None:
    rule = StopRule(patience=1, min_epochs=1, column="susceptibility_plain")
    values = [reading(step, 0.9, zeta) for step, zeta in enumerate([0.3, 0.2, 0.1], start=1)]
    plain = [replace(value, susceptibility_plain=-value.susceptibility) for value in values]
    assert [rule.update(value) for value in plain] == [False, True, True]
    with pytest.raises(InputError, match=r"to have `susceptibility_plain`, got None"):
        StopRule(column="susceptibility_plain").update(values[0])


def test_without_a_training_accuracy_it_says_how_to_pass_one() -> None:
    with pytest.raises(InputError, match=r"tracker\.probe\(train_accuracy=\.\.\.\)"):
        StopRule().update(reading(1, None, 0.1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"train_accuracy": 50},
        {"train_accuracy": -0.1},
        {"patience": 0},
        {"patience": 2.5},
        {"patience": True},
        {"min_epochs": -1},
        {"min_rise": -0.5},
        {"column": "zeta"},
    ],
)
def test_bad_settings_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"Expected `{next(iter(wrong))}` to be"):
        StopRule(**wrong)


def test_a_strange_state_is_refused() -> None:
    with pytest.raises(StateError, match="stop rule"):
        StopRule().load_state_dict({"keep": 3})


def test_per_cent_are_refused() -> None:
    with pytest.raises(InputError, match="a share from 0 to 1, got 95. Divide per cent by 100"):
        StopRule().update(reading(1, 95.0, 0.1))


@pytest.mark.parametrize("wrong", [0.3, {"train_accuracy": 0.5}])
def test_what_is_no_reading_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match=r"`reading` to be what tracker\.probe returned, got"):
        StopRule().update(wrong)  # type: ignore[arg-type]
