"""Tables of human labels."""

from typing import Any

import numpy as np
import pytest

from rote.errors import InputError
from rote.labels.noise import NoisyLabels, add_noise

CLEAN = np.array([0, 1, 2, 2])


def noisy(**options: Any) -> NoisyLabels:
    options = {"rate": None} | options
    return add_noise(
        CLEAN, model="human", num_classes=3, generator=np.random.default_rng(0), **options
    )


def test_labels_are_those_of_the_table() -> None:
    table = np.array([0, 2, 2, 1], dtype=np.uint8)
    result = noisy(table=table)
    assert result.labels.tolist() == [0, 2, 2, 1]
    assert result.labels.dtype == np.int64
    assert result.mask.tolist() == [False, True, False, True]
    assert result.realised_rate == 0.5
    assert result.requested_rate is None
    assert result.description == {"model": "human", "rate": None, "num_classes": 3}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "Expected `table` to be given for model 'human', got None"),
        ({"table": [0, 1]}, r"Expected `table` to hold one label per sample \(4\), got 2"),
        ({"table": [0, 1, 2, 3]}, "Expected `table` to lie between 0 and 2 .*, got 3"),
        ({"table": [0.0, 1, 2, 2]}, "Expected `table` to be a one-dimensional .* got float64"),
        ({"table": [0, 1, 2, 2], "rate": 0.4}, "Expected `rate` to be None for model 'human'"),
        ({"table": [0, 1, 2, 2], "seed": 1}, "Expected no options for model 'human', got 'seed'"),
    ],
)
def test_refusals(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        noisy(**options)
