import numpy as np
import pytest
import torch
from torch import nn

from rote.workloads import evaluation
from rote.workloads.data.samples import SampleTensors
from rote.workloads.evaluation import compute_training_accuracies, predict

PREDICTED = torch.tensor([0, 1, 2, 0, 1])
LABELS = torch.tensor([0, 1, 0, 0, 2])


def test_accuracies_by_hand() -> None:
    wrong = torch.tensor([False, True, True, False, False])
    assert compute_training_accuracies(PREDICTED, LABELS, wrong) == pytest.approx(
        {"train_accuracy": 3 / 5, "clean_accuracy": 2 / 3, "noisy_accuracy": 1 / 2}
    )


def test_accuracies_without_truth_are_absent() -> None:
    everything = torch.ones(5, dtype=torch.bool)
    assert set(compute_training_accuracies(PREDICTED, LABELS, None)) == {"train_accuracy"}
    assert "noisy_accuracy" not in compute_training_accuracies(PREDICTED, LABELS, ~everything)
    assert "clean_accuracy" not in compute_training_accuracies(PREDICTED, LABELS, everything)


def test_predictions_run_in_eval_mode_and_restore_the_mode(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(evaluation, "AT_ONCE", 4)
    rows = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    samples = SampleTensors(
        rows, np.arange(10), kind="bag-of-words", normalization=None, device=torch.device("cpu")
    )
    model = nn.Sequential(nn.BatchNorm1d(3), nn.Dropout(0.9), nn.Linear(3, 4))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    found = predict(model, samples)
    assert model.training
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])
    model.eval()
    assert torch.equal(found, model(torch.from_numpy(rows)).argmax(1))
    predict(model, samples)
    assert not model.training


def test_the_mode_is_restored_after_an_error() -> None:
    samples = SampleTensors(
        np.zeros((4, 2), np.float32),
        np.arange(4),
        kind="bag-of-words",
        normalization=None,
        device=torch.device("cpu"),
    )
    model = nn.Linear(3, 2)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        predict(model, samples)
    assert model.training
