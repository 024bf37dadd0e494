"""The stop rule, against a naive second implementation that sees the whole run at once."""

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

import rote
from rote.errors import InputError, StateError
from rote.records import Reading
from rote.tracking import StopRule

ACCURACIES = st.sampled_from([0.1, 0.4, 0.5, 0.6, 1.0, math.nan])
ZETAS = st.one_of(st.sampled_from([-0.1, 0.0, 0.1, 0.2, math.nan]), st.floats(-1, 1))
RUNS = st.lists(st.tuples(ACCURACIES, ZETAS), max_size=30)


def reading(step: int, accuracy: float | None, zeta: float, valid: float | None = None) -> Reading:
    metrics = {} if accuracy is None else {"train_accuracy": accuracy}
    return Reading(
        step, 2.0, 2.0 - zeta, zeta, zeta, zeta / 2, validation_accuracy=valid, metrics=metrics
    )


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
def test_stops_and_keeps_as_defined(
    run: list[tuple[float, float]], high: float, patience: int, min_epochs: int, rise: float
) -> None:
    rule = StopRule(train_accuracy=high, patience=patience, min_epochs=min_epochs, min_rise=rise)
    stopped_at = None
    for step, (accuracy, zeta) in enumerate(run, start=1):
        if rule.update(reading(step, accuracy, zeta)):
            stopped_at = step
            break
    assert (stopped_at, rule.keep) == naive(run, rule)


VALID = st.lists(
    st.tuples(
        st.sampled_from([0.2, 0.4, 0.5, math.nan, 0.51, 0.52]),
        st.sampled_from([None, 0.1, 0.2, 0.3, 0.4, 0.5]),
    ),
    max_size=25,
)


@given(VALID, st.integers(1, 6), st.integers(0, 9))
def test_stop_rule_uses_noisy_validation_if_recorded(
    run: list[tuple[float, float | None]], patience: int, min_epochs: int
) -> None:
    """The naive twin: the first best of all so far; over once enough came after it."""
    expected: tuple[int | None, int | None] = (len(run) or None, None)
    for end in range(1, len(run) + 1):
        known = [(value, -at, trained) for at, (value, trained) in enumerate(run[:end], 1)
                 if value == value]  # fmt: skip
        if not known or run[end - 1][0] != run[end - 1][0]:
            continue
        _, place, then = max(known, key=lambda entry: entry[:2])
        after = [now for _, at, now in known if -at > -place]
        expected = -place, None
        waited = sum(now is None or then is None or now > then for now in after)
        if waited >= patience and end >= min_epochs:
            expected = -place, end
            break
    readings = [reading(at, trained, 0.0, value) for at, (value, trained) in enumerate(run, 1)]
    rule = StopRule(patience=patience, min_epochs=min_epochs)
    assert rule.replay(readings) == expected
    assert rule == StopRule(patience=patience, min_epochs=min_epochs)


def test_the_rule_waits_for_a_network_that_has_not_begun_to_learn() -> None:
    rule = StopRule(patience=2, min_epochs=1)
    still = [reading(at, 0.3, 0.1, 0.3) for at in range(1, 20)]
    assert not any(rule.update(entry) for entry in still)
    assert not rule.update(reading(20, 0.5, 0.1, 0.4))
    assert [rule.update(reading(at, 0.6, 0.1, 0.35)) for at in (21, 22)] == [False, True]
    assert rule.keep == 20


@given(st.lists(ACCURACIES, max_size=25), st.sampled_from([0.0, 0.4, 0.5]), st.integers(0, 9))
def test_with_a_noise_rate_it_keeps_the_first_that_reaches_the_share_of_right_labels(
    accuracies: list[float], noise_rate: float, min_epochs: int
) -> None:
    readings = [reading(at, value, 0.0, 1 / at) for at, value in enumerate(accuracies, start=1)]
    high = [at for at, value in enumerate(accuracies, start=1) if value >= 1 - noise_rate]
    stop = next((at for at in high if at >= min_epochs), None)
    keep = high[0] if high else len(accuracies) or None
    assert StopRule(noise_rate=noise_rate, min_epochs=min_epochs).replay(readings) == (keep, stop)


def test_stop_reason_names_the_column() -> None:
    readings = [reading(1, 0.5, 0.1, 0.6), reading(2, 0.7, 0.2, 0.55), reading(3, 0.8, 0.3, 0.5)]

    def reason(**options: Any) -> str | None:
        rule = StopRule(**({"min_epochs": 1, "patience": 2} | options))
        for entry in readings:
            rule.update(entry)
        return rule.reason

    assert reason() == (
        "noisy validation accuracy has not been above its best (60.0% at step 1) in 2 readings "
        "since, with a higher training accuracy: keep step 1."
    )
    assert reason(noise_rate=0.3) == (
        "training accuracy (70.0%) has reached the share of right labels (70.0%): keep step 2."
    )
    assert "ζ has been above its lowest value (0.1 at step 1)" in reason(column="susceptibility")
    assert reason(column="validation_accuracy") == reason()


def test_column_of_the_stop_rule_is_kept_and_required() -> None:
    rule = StopRule()
    rule.update(reading(1, 0.5, 0.1, 0.6))
    with pytest.raises(InputError, match="no `validation_accuracy`. Pass `given"):
        rule.update(reading(2, 0.5, 0.1))
    with pytest.raises(InputError, match="no `train_accuracy`"):
        StopRule(noise_rate=0.2).update(reading(1, None, 0.1, 0.6))
    assert StopRule().update(reading(1, None, 0.1, 0.6)) is False  # which needs no other


def test_the_state_of_an_older_rule_is_taken() -> None:
    rule = StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    rule.load_state_dict({"keep": 3, "lowest": 0.1, "waited": 0, "stopped": False})
    assert rule.update(reading(4, 0.6, 0.2))
    assert rule.keep == 3


@given(RUNS, st.integers(0, 29), st.booleans())
def test_a_resumed_rule_continues_as_if_never_interrupted(
    run: list[tuple[float, float]], cut: int, has_validation: bool
) -> None:
    whole, first, second = (StopRule(patience=2, min_epochs=1) for _ in range(3))
    readings = [
        reading(step, *values, 0.5 / step if has_validation else None)
        for step, values in enumerate(run, start=1)
    ]
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


def test_stop_rule_gives_a_reason_and_stays_stopped() -> None:
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


def test_first_of_equal_readings_is_kept_and_ties_are_no_rise() -> None:
    rule = StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    readings = [reading(step, 0.6, 0.02) for step in range(1, 9)]
    assert not any(rule.update(value) for value in readings)
    assert rule.keep == 1
    assert rule.update(reading(9, 0.6, 0.03))


def test_a_probe_that_was_not_due_changes_nothing() -> None:
    rule = StopRule(patience=1, min_epochs=1)
    assert rule.update(None) is False
    assert rule == StopRule(patience=1, min_epochs=1)


def test_stop_rule_uses_the_given_column() -> None:
    rule = StopRule(patience=1, min_epochs=1, column="susceptibility_plain")
    values = [reading(step, 0.9, zeta) for step, zeta in enumerate([0.3, 0.2, 0.1], start=1)]
    plain = [replace(value, susceptibility_plain=-value.susceptibility) for value in values]
    assert [rule.update(value) for value in plain] == [False, True, True]
    with pytest.raises(InputError, match=r"has no `susceptibility_plain`"):
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
        {"noise_rate": 1},
        {"noise_rate": -0.1},
        {"noise_rate": 0.2, "column": "susceptibility"},
    ],
)
def test_bad_settings_are_refused_by_name(wrong: dict[str, object]) -> None:
    with pytest.raises(InputError, match=f"`{next(iter(wrong))}` "):
        StopRule(**wrong)


def test_state_with_unknown_keys_is_refused() -> None:
    with pytest.raises(StateError, match="stop rule"):
        StopRule().load_state_dict({"keep": 3})


def test_percent_are_refused() -> None:
    with pytest.raises(InputError, match="a share from 0 to 1, got 95. Divide percent by 100"):
        StopRule().update(reading(1, 95.0, 0.1))


@pytest.mark.parametrize("wrong", [0.3, {"train_accuracy": 0.5}])
def test_non_readings_are_refused(wrong: object) -> None:
    with pytest.raises(InputError, match=r"`reading` to be what tracker\.probe returned, got"):
        StopRule().update(wrong)  # type: ignore[arg-type]
