from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from rote.errors import CorruptRunError
from rote.records import Reading
from rote.workloads.checkpoints import CheckpointKeeper, get_checkpoint_path, load_checkpoint
from rote.workloads.spec import BestCheckpoints, Checkpoints, FieldError
from rote.workloads.spec.run_spec import PlainCheckpoints


def reading(step: int, value: float = 0.0) -> Reading:
    return Reading(step, 0.0, 0.0, 0.0, value, 0.0, metrics={"train_accuracy": value})


def network(value: float) -> nn.Module:
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2))
    model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(value)
    return model


def kept(folder: Path, policy: Checkpoints, values: list[float]) -> list[int]:
    keeper = CheckpointKeeper(policy, folder, epochs=len(values))
    for epoch, value in enumerate(values, start=1):
        keeper.keep(network(epoch), epoch, reading(epoch, value))
    steps = sorted(int(file.stem[-5:]) for file in (folder / "checkpoints").glob("*"))
    for step in steps:
        model = network(0)
        load_checkpoint(folder, step, model)
        assert all(bool((p == step).all()) for p in model.parameters())
    return steps


VALUES = [0.3, 0.9, float("nan"), 0.9, 0.1, 0.5]


@pytest.mark.parametrize(
    ("policy", "steps"),
    [
        (PlainCheckpoints(keep="all"), [1, 2, 3, 4, 5, 6]),
        (PlainCheckpoints(keep="last"), [6]),
        (PlainCheckpoints(keep="none"), []),
        (BestCheckpoints(k=2, metric="train_accuracy"), [2, 4]),
        (BestCheckpoints(k=1, metric="train_accuracy"), [2]),
        (BestCheckpoints(k=3, metric="susceptibility", mode="min"), [1, 5, 6]),
    ],
)
def test_checkpoints_are_kept_by_policy(
    tmp_path: Path, policy: Checkpoints, steps: list[int]
) -> None:
    assert kept(tmp_path, policy, VALUES) == steps


def test_epochs_that_were_not_measured_are_not_kept(tmp_path: Path) -> None:
    keeper = CheckpointKeeper(PlainCheckpoints(), tmp_path, epochs=2)
    keeper.keep(network(1), 1, None)
    keeper.keep(network(2), 2, reading(2))
    assert not get_checkpoint_path(tmp_path, 1).exists()
    assert get_checkpoint_path(tmp_path, 2).exists()


def test_best_checkpoints_survive_a_resume(tmp_path: Path) -> None:
    policy = BestCheckpoints(k=1, metric="train_accuracy")
    first = CheckpointKeeper(policy, tmp_path, epochs=9)
    first.keep(network(1), 1, reading(1, 0.8))
    second = CheckpointKeeper(policy, tmp_path, epochs=9)
    second.load_state_dict(first.state_dict())
    second.keep(network(2), 2, reading(2, 0.7))
    assert not get_checkpoint_path(tmp_path, 2).exists()
    second.keep(network(3), 3, reading(3, 0.9))
    assert not get_checkpoint_path(tmp_path, 1).exists()


def test_an_unknown_metric_is_refused_with_those_there_are(tmp_path: Path) -> None:
    keeper = CheckpointKeeper(BestCheckpoints(metric="accuracy"), tmp_path, epochs=2)
    expected = r"`checkpoints.metric` to be .*susceptibility.*train_accuracy\), got 'accuracy'"
    with pytest.raises(FieldError, match=expected):
        keeper.keep(network(1), 1, reading(1))


def test_a_missing_checkpoint_says_which_there_are(tmp_path: Path) -> None:
    kept(tmp_path, PlainCheckpoints(), [0.1, 0.2])
    with pytest.raises(CorruptRunError, match=r"no checkpoint of step 5.*\[1, 2\]"):
        load_checkpoint(tmp_path, 5, network(0))


def test_shared_weights_are_saved(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first: Any = nn.Linear(3, 3, bias=False)
            self.second: Any = nn.Linear(3, 3, bias=False)
            self.second.weight = self.first.weight

    model, other = Tied(), Tied()
    CheckpointKeeper(PlainCheckpoints(), tmp_path, epochs=1).keep(model, 1, reading(1))
    load_checkpoint(tmp_path, 1, other)
    assert torch.equal(other.second.weight, model.first.weight)


def test_partial_files_of_a_power_cut_are_removed_at_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "checkpoints").mkdir()
    left = tmp_path / "checkpoints" / ".tmpAb12"
    left.write_bytes(b"half")
    CheckpointKeeper(PlainCheckpoints(), tmp_path, 3)
    assert not left.exists()
