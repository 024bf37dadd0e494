from dataclasses import replace

import numpy as np
import pytest

from rote.reporting.axis import Axis
from rote.reporting.charts.filter import FilterRecord, describe_change
from rote.reporting.checkpoints import Checkpoints
from rote.selection import Estimate

pytestmark = pytest.mark.xdist_group("figures")

NOTHING = Estimate(None, reason="unknown")
AXIS = Axis(0.0, 1.0, places=5, step=100)
NO_POINTS = Checkpoints(np.arange(0), 0, {}, ())
UNKNOWN = FilterRecord(NO_POINTS, AXIS, AXIS, 9, 5, 0.1, NOTHING, NOTHING, NOTHING, NOTHING)


def agreement(pearson: tuple[float, float], kendall: tuple[float, float]) -> FilterRecord:
    return replace(
        UNKNOWN,
        pearson=Estimate(pearson[0]),
        filtered_pearson=Estimate(pearson[1]),
        kendall=Estimate(kendall[0]),
        filtered_kendall=Estimate(kendall[1]),
    )


@pytest.mark.parametrize(
    ("pearson", "kendall", "end"),
    [
        ((-0.03, 0.81), (0.1, 0.5), "0.50."),
        ((-0.03, 0.81), (0.5, 0.1), "whether the filter helps: do not rely on one alone."),
        ((0.8, 0.2), (0.5, 0.1), "The filter does not help here."),
        ((0.8, 0.8), (0.5, 0.501), "The filter does not help here."),
    ],
)
def test_both_correlations_are_named_and_so_is_their_disagreement(
    pearson: tuple[float, float], kendall: tuple[float, float], end: str
) -> None:
    words = describe_change(agreement(pearson, kendall))
    numbers = (f"{value:.2f}".replace("-", "−") for value in (*pearson, *kendall))
    assert words.startswith(
        "Here Pearson’s r goes from {} to {} and Kendall’s τ from {} to {}.".format(*numbers)
    )
    assert words.endswith(end)


def test_undefined_correlations_are_omitted() -> None:
    assert describe_change(UNKNOWN) == ""
    known = agreement((0.1, 0.2), (0.3, 0.4))
    assert describe_change(replace(known, filtered_kendall=NOTHING)) == (
        "Here Pearson’s r goes from 0.10 to 0.20."
    )
