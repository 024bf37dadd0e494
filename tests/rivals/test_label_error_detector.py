"""The simulated detector: as accurate as it says, nested, and right at 100 %."""

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from rote.errors import InputError
from rote.rivals.label_error_detector import LabelErrorDetector, detect
from rote.tracking import TrainingSet
from rote.workloads import train
from tests.rivals.signals import context_of
from tests.workloads.small_runs import small_spec

X = torch.zeros(4, 2)


def test_detector_has_the_requested_accuracy() -> None:
    wrong = torch.arange(20_000) % 3 == 0
    for accuracy in (60, 90, 100):
        said = detect(wrong, accuracy, seed=1)
        assert float((said == wrong).double().mean()) == pytest.approx(accuracy / 100, abs=0.01)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 100), st.integers(1, 100), st.integers(0, 9))
def test_the_better_detector_errs_on_fewer_of_the_same_samples(a: int, b: int, seed: int) -> None:
    wrong = torch.arange(200) % 2 == 0
    worse, better = (detect(wrong, accuracy, seed) != wrong for accuracy in sorted((a, b)))
    assert bool((worse | ~better).all())


def test_matches_a_hand_computed_example() -> None:
    model = nn.Linear(2, 2)
    labels = torch.tensor([0, 0, 1, 1, 1])
    wrong = torch.tensor([False, False, False, True, True])
    context = context_of(model, X, 2, training_set=TrainingSet(labels, wrong))
    signal = LabelErrorDetector([100])
    signal.start(context)
    context.train_predictions = torch.tensor([0, 1, 1, 1, 0])
    assert signal.read(1) == pytest.approx(
        {"detector_100_clean": 2 / 3, "detector_100_noisy": 1 / 2, "detector_100": 2 / 3 - 1 / 2}
    )


def test_a_perfect_detector_is_the_oracle_of_a_run() -> None:
    run = train(small_spec(signals=["tests.rivals.test_label_error_detector:Perfect"]))
    for reading in run.readings:
        assert reading.detector_100_clean == pytest.approx(reading.clean_accuracy)
        assert reading.detector_100_noisy == pytest.approx(reading.noisy_accuracy)


class Perfect(LabelErrorDetector):
    def __init__(self) -> None:
        super().__init__([100])


def test_missing_arguments_are_named() -> None:
    with pytest.raises(InputError, match="`label_error_detector` needs a run of a spec"):
        LabelErrorDetector().start(context_of(nn.Linear(2, 2), X, 2))
    with pytest.raises(
        InputError, match="`accuracies` to be an integer of .* at most 100, got 101"
    ):
        LabelErrorDetector([101])
