"""Validation on noisy labels: its interval, and ζ as the judge of what it cannot tell apart."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from rote.errors import InputError
from rote.selection import select
from rote.selection.rules.noisy_validation import wilson_interval
from tests.selection.tables import Row, table_of


@given(st.integers(1, 2_000).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n))))
def test_the_interval_is_that_of_scipy(case: tuple[int, int]) -> None:
    samples, right = case
    expected = binomtest(right, samples).proportion_ci(method="wilson")
    found = wilson_interval(right / samples, samples)
    assert found == pytest.approx((expected.low, expected.high), abs=1e-9)


def validated() -> list[Row]:
    # One standard error of 0.5 on 100 samples is 0.05.
    values = [(0.40, 0.01), (0.46, 0.02), (0.50, 0.30), (0.48, 0.10), (0.449, 0.001)]
    return [
        {"run": "a", "step": step, "validation_accuracy": accuracy, "susceptibility": zeta}
        for step, (accuracy, zeta) in enumerate(values, start=1)
    ]


def test_alone_it_takes_the_highest_and_gives_its_interval() -> None:
    selection = select(table_of(validated(), samples=100), "noisy-validation")
    assert selection.pick.step == 3
    assert selection.pick.interval == pytest.approx((0.4038, 0.5962), abs=1e-4)
    assert "50.00% (40.38% to 59.62% at 95%, 100 labels)" in selection.reasons[1].text


def test_zeta_decides_within_one_standard_error() -> None:
    table = table_of(validated(), samples=100)
    selection = select(table, "noisy-validation+susceptibility")
    assert selection.pick.step == 2
    assert selection.thresholds["validation_accuracy"] == pytest.approx(0.45)
    assert "standard error of 5.00% (100 labels); 3 of 5 checkpoints" in selection.reasons[1].text


def test_more_labels_leave_zeta_less_to_decide() -> None:
    table = table_of(validated(), samples=100)
    selection = select(table, "noisy-validation+susceptibility", samples=10_000)
    assert selection.pick.step == 3


def test_a_holdout_of_unknown_size_has_no_interval() -> None:
    table = table_of(validated(), samples=None)
    selection = select(table, "noisy-validation")
    assert selection.pick.interval is None
    assert "The size of the holdout is not recorded" in " ".join(selection.warnings)
    with pytest.raises(InputError, match="Expected `samples` to be the number of labels behind"):
        select(table, "noisy-validation+susceptibility")
