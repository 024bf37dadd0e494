"""Noisy validation of several sizes: nested, from one holdout, and only as large as it is."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

import rote
from rote.errors import InputError, SmallHoldoutWarning
from rote.rivals.noisy_validation import NestedValidation
from rote.store import read_table
from rote.workloads import train
from tests.workloads.small_runs import small_spec

X = torch.randn(30, 4, generator=torch.Generator().manual_seed(5))


def tracker_of(given: torch.Tensor | None, *sizes: int) -> rote.Tracker:
    torch.manual_seed(0)
    model = nn.Linear(4, 3)
    return rote.track(
        model,
        torch.optim.SGD(model.parameters(), lr=0.1),
        inputs=X,
        num_classes=3,
        given_labels=given,
        signals=[NestedValidation(sizes)],
        policy=rote.ProbePolicy(batch=8),
    )


def test_equals_counting() -> None:
    given = torch.arange(30) % 3
    given[:4] = -100  # nobody knows
    reading = tracker_of(given, 4, 10, 30).probe()
    assert reading is not None
    assert reading.predictions is not None
    hits = reading.predictions == given.numpy()
    assert reading.metrics == {
        "noisy_validation_10": pytest.approx(hits[4:10].mean()),
        "noisy_validation_30": pytest.approx(hits[4:].mean()),
    }
    assert reading.metrics["noisy_validation_30"] == reading.validation_accuracy


def test_left_out_sizes_and_missing_labels_are_reported() -> None:
    with pytest.warns(
        SmallHoldoutWarning, match=r"Left out noisy_validation_31, _64: the holdout has 30"
    ):
        reading = tracker_of(torch.zeros(30, dtype=torch.int64), 10, 31, 64).probe()
    assert reading is not None
    assert set(reading.metrics) == {"noisy_validation_10"}
    with pytest.raises(InputError, match="`noisy_validation` needs a holdout with given labels"):
        tracker_of(None)
    with pytest.raises(InputError, match="`sizes` to be an integer of at least 1, got 0"):
        NestedValidation([0])


def test_a_run_of_a_spec_has_the_sizes_of_its_holdout(tmp_path: Path) -> None:
    with pytest.warns(SmallHoldoutWarning, match="_128, _256, _512, _1024, _2048"):
        train(small_spec(signals=["noisy_validation"]), tmp_path / "run")
    table = read_table(tmp_path / "run")
    given, predicted = table.read_given_labels("run"), table.read_predictions("run")
    assert given is not None
    assert predicted is not None
    expected = (predicted[:, :10] == given[:10]).mean(1)
    np.testing.assert_allclose(table.frame["noisy_validation_10"].to_numpy(), expected)
    assert table.columns["noisy_validation_10"].rule == "max:noisy_validation_10"
