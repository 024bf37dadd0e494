"""`rote probe`, against the journal of the run whose checkpoints it reads."""

import json
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from rote.cli.main import app
from rote.errors import InputError
from rote.store import read_run
from rote.workloads import RunSpec, train
from rote.workloads.data.splits import prepare

SPEC = RunSpec.from_dict(
    {
        "epochs": 3,
        "architecture": {"name": "mlp", "options": {"width": 16}},
        "optimizer": {"name": "sgd", "lr": 0.05, "momentum": 0.0, "weight_decay": 0.0},
        "schedule": {"name": "none"},
        "noise": {"model": "symmetric-inclusive", "rate": 0.5},
        "checkpoints": {"keep": "all"},
    }
)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trained")
    train(SPEC, folder / "run")
    splits = prepare(SPEC)
    labels = splits.pool_labels
    assert labels is not None
    np.savez(folder / "pool.npz", inputs=splits.pool.numpy(), labels=labels.numpy())
    np.save(folder / "pool.npy", splits.pool.numpy())
    x = splits.train.batch(slice(None)).numpy()
    np.savez(folder / "train.npz", x=x, y=splits.labels.numpy())
    (folder / "own.py").write_text(
        "from rote.workloads.architectures.mlp import mlp\n"
        "def build(**shape):\n"
        "    return mlp(**shape, width=16)\n"
    )
    return folder


def call(*arguments: object) -> str:
    result = CliRunner().invoke(app, ["probe", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def arguments(folder: Path, data: str = "pool.npz") -> list[object]:
    checkpoints = folder / "run" / "checkpoints"
    return [checkpoints, "--model", "own:build", "--data", folder / data, "--classes", 10,
            "--lr", 0.05, "--seed", SPEC.probe.seed]  # fmt: skip


def test_the_readings_are_those_of_the_run(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    out = ("--train", trained / "train.npz", "--out", tmp_path / "after", "--json")
    readings = json.loads(call(*arguments(trained), *out))["readings"]
    names = ("step", "loss_before", "drop", "drop_plain", "susceptibility", "validation_accuracy",
             "train_accuracy")  # fmt: skip
    live = read_run(trained / "run").readings
    assert [[reading[name] for name in names] for reading in readings] == [
        [getattr(reading, name) for name in names] for reading in live
    ]
    assert [reading.drop for reading in read_run(tmp_path / "after").readings] == [
        reading.drop for reading in live
    ]


def test_people_see_a_table_and_what_the_step_was(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    shown = call(*arguments(trained, "pool.npy"), "--out", tmp_path / "after")
    assert "step-00003.safetensors" in shown
    assert "in 0 of 3 checkpoints, fresh in the others" in " ".join(shown.split())
    assert "mean over 3 checkpoints" in " ".join(shown.split())
    assert "rote select" in shown


def test_mistakes_are_named(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    np.save(tmp_path / "raw.npy", np.zeros((4, 1, 8, 8), dtype=np.uint8))
    (tmp_path / "torn.npz").write_bytes(b"PK\x03\x04 torn")
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "texts.npz", inputs=np.array(["a", "b"]))
    np.savez(tmp_path / "shares.npz", inputs=np.ones((4, 1, 8, 8)), labels=np.ones(4))
    first, *options = arguments(trained)
    for wrong, complaint in {
        ("--data", tmp_path / "none.npy"): "`--data` to be a file",
        ("--data", tmp_path / "raw.npy"): r"raw bytes \(uint8\)",
        ("--data", tmp_path / "torn.npz"): "whole file of arrays",
        ("--data", tmp_path / "pickled.npy"): "whole file of arrays",
        ("--data", tmp_path / "texts.npz"): "whole file of arrays",
        ("--data", tmp_path / "shares.npz"): "labels .* to be integers",
        ("--data", "own:nothing"): "nothing of that name",
        ("--train", trained / "pool.npy"): "to come with `labels`",
        ("--model", "own:other"): "nothing of that name",
        ("--optimizer", "Nope"): "`--optimizer` to be a class of torch.optim",
    }.items():
        with pytest.raises(InputError, match=complaint):
            call(first, *options, *wrong)
    with pytest.raises(InputError, match="not there"):
        call(tmp_path / "nowhere", *options)
    with pytest.raises(InputError, match="to hold checkpoints"):
        (tmp_path / "empty").mkdir()
        call(tmp_path / "empty", *options)
