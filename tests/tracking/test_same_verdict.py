"""The same runs give the same verdict, whichever source they are selected from."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

import rote
from rote.store import read_table
from tests.loggers import keep_wandb_here, new_mlflow_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]

CLASSES, HOLDOUT, STEPS = 3, 240, 4
LRS = (0.02, 0.5)


def make_data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(CLASSES, (2 * HOLDOUT,), generator=generator)
    inputs = torch.randn(2 * HOLDOUT, 5, generator=generator)
    inputs[torch.arange(len(labels)), labels] += 2.0
    is_wrong = torch.rand(len(labels), generator=generator) < 0.3
    redrawn = torch.randint(CLASSES, (len(labels),), generator=generator)
    return inputs, torch.where(is_wrong, redrawn, labels)


def train(lr: float, save_to: Any, name: str | None, weights: Path) -> None:
    inputs, labels = make_data()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    shares = np.eye(CLASSES)[labels[:HOLDOUT].numpy()] * 0.5 + 0.5 / CLASSES
    tracker = rote.track(
        model,
        optimizer,
        inputs=inputs[:HOLDOUT],
        num_classes=CLASSES,
        given_labels=labels[:HOLDOUT],
        neighbor_votes=shares,
        policy=rote.ProbePolicy(batch=32),
        name=name,
        save_to=save_to,
    )
    weights.mkdir(parents=True)
    files = {}
    for step in range(1, STEPS + 1):
        for _ in range(8):
            optimizer.zero_grad()
            cross_entropy(model(inputs[HOLDOUT:]), labels[HOLDOUT:]).backward()
            optimizer.step()
        accuracy = tracker.accuracy(inputs[HOLDOUT:], labels[HOLDOUT:])
        tracker.probe(train_accuracy=accuracy)
        files[step] = weights / f"weights-{step}.pt"
        torch.save(model.state_dict(), files[step])
    tracker.name_checkpoints(files)
    tracker.close()


def facts_of(runs: str | Path) -> tuple[Any, ...]:
    selection = rote.select(runs)
    table = selection.table
    best = table.filter(table["step"] == selection.pick.step)["estimated_accuracy"].to_list()
    return selection.rule, selection.pick.step, best, selection.pick.file


def sources(tmp_path: Path, uri: str) -> dict[str, tuple[str, Callable[[float], Any]]]:
    """What to select from, and where a run with a learning rate is saved."""
    return {
        "directory": (str(tmp_path / "runs"), lambda lr: tmp_path / "runs" / f"lr-{lr}"),
        "mlflow": (f"mlflow:e@{uri}", lambda _: f"mlflow:e@{uri}"),
        "tensorboard": (f"tensorboard:{tmp_path}/tb", lambda _: f"tensorboard:{tmp_path}/tb"),
        "wandb": (f"wandb:{tmp_path}/wandb", lambda _: "wandb:project"),
    }


def test_every_source_gives_the_same_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mlflow", "tensorboard", "wandb"):
        pytest.importorskip(package, reason=f"needs rote[{package}]")
    monkeypatch.chdir(tmp_path)  # where MLflow keeps artifacts
    keep_wandb_here(monkeypatch, tmp_path)
    places = sources(tmp_path, new_mlflow_store(tmp_path))
    for lr in LRS:
        targets = [make(lr) for _, make in places.values()]
        train(lr, targets, f"lr-{lr}", tmp_path / "weights" / str(lr))
    found = {name: facts_of(place) for name, (place, _) in places.items()}
    assert found["directory"][0] == "posterior"
    assert found["directory"][3] is not None
    assert found["mlflow"] == found["directory"]
    assert found["tensorboard"] == found["directory"]
    assert found["wandb"] == found["directory"]
    assert facts_of("wandb:project") == found["wandb"]  # as it was written
    tables = [read_table(place) for place, _ in places.values()]
    for table in tables[1:]:
        for run in table.descriptions:
            for kind in ("read_predictions", "read_given_labels", "read_neighbor_votes"):
                mine, theirs = getattr(table, kind)(run), getattr(tables[0], kind)(run)
                np.testing.assert_array_equal(mine, theirs)


def test_runs_without_a_directory_keep_their_evidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for package in ("mlflow", "tensorboard", "wandb"):
        pytest.importorskip(package, reason=f"needs rote[{package}]")
    monkeypatch.chdir(tmp_path)
    keep_wandb_here(monkeypatch, tmp_path)
    found = {}
    for name, (place, make) in sources(tmp_path, new_mlflow_store(tmp_path)).items():
        for lr in LRS:
            # MLflow and W&B find a name of their own; the verdict does not use it.
            own = None if name in ("mlflow", "wandb") else f"lr-{lr}"
            train(lr, make(lr), own, tmp_path / name / str(lr))
        *found[name], file = facts_of(place)
        assert file is not None
        assert file.is_relative_to(tmp_path / name)
    for name in ("mlflow", "tensorboard", "wandb"):
        assert found[name] == found["directory"]
    places = sources(tmp_path, f"sqlite:///{tmp_path}/mlflow.db")
    for name in ("mlflow", "wandb"):
        assert rote.select(places[name][0]).pick.run in {f"lr {lr}" for lr in LRS}
