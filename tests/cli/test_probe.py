"""`rote probe`, against the journal of the run whose checkpoints it reads."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from typer.testing import CliRunner, Result

from rote.cli.main import app
from rote.errors import InputError
from rote.store import read_run, read_table
from rote.workloads import RunSpec, train
from rote.workloads.data.splits import prepare
from tests.loggers import new_mlflow_store

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("probe")]

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
    labels = splits.holdout_labels
    assert labels is not None
    np.savez(folder / "holdout.npz", inputs=splits.holdout.numpy(), labels=labels.numpy())
    np.save(folder / "holdout.npy", splits.holdout.numpy())
    x = splits.train.batch(slice(None)).numpy()
    np.savez(folder / "train.npz", x=x, y=splits.labels.numpy())
    (folder / "own.py").write_text(
        "from rote.workloads.architectures.mlp import mlp\n"
        "def build(**shape):\n"
        "    return mlp(**shape, width=16)\n"
        "def boom(**shape):\n"
        "    raise RuntimeError('no weights here')\n"
    )
    return folder


def invoke(*arguments: object) -> Result:
    result = CliRunner().invoke(app, ["probe", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def call(*arguments: object) -> str:
    return invoke(*arguments).output


def arguments(folder: Path, data: str = "holdout.npz") -> list[object]:
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


def test_the_terminal_shows_a_table_and_the_step(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    shown = call(*arguments(trained, "holdout.npy"), "--out", tmp_path / "after")
    assert "step-00003.safetensors" in shown
    assert "in 0 of 3 checkpoints, fresh in the others" in " ".join(shown.split())
    assert "mean over 3 checkpoints" in " ".join(shown.split())
    assert f"rote select {tmp_path}/after --explain" in shown.replace("\n", "")


def test_the_output_ends_with_a_verdict_even_if_accuracies_are_known(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    measured = ("--train", trained / "train.npz", "--out", tmp_path / "after")
    shown = call(*arguments(trained), *measured)
    assert f"rote select {tmp_path}/after --explain" in shown.replace("\n", "")


def test_mistakes_are_named(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    np.save(tmp_path / "raw.npy", np.zeros((4, 1, 8, 8), dtype=np.uint8))
    (tmp_path / "truncated.npz").write_bytes(b"PK\x03\x04 truncated")
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    np.savez(tmp_path / "texts.npz", inputs=np.array(["a", "b"]))
    np.savez(tmp_path / "shares.npz", inputs=np.ones((4, 1, 8, 8)), labels=np.ones(4))
    torch.save(torch.nn.Linear(2, 2), tmp_path / "pickled.pt")
    (trained / "truncated.py").write_text("build = undefined\n")
    checkpoint = next((trained / "run" / "checkpoints").iterdir())
    torch.save({"weights": load_file(checkpoint)}, tmp_path / "weights.pt")
    first, *options = arguments(trained)
    for wrong, complaint in {
        ("--data", tmp_path / "none.npy"): r"not found: .*none.npy.*`--data`",
        ("--data", tmp_path / "raw.npy"): r"raw bytes \(uint8\)",
        ("--data", tmp_path / "truncated.npz"): "Cannot read",
        ("--data", tmp_path / "pickled.npy"): "Cannot read",
        ("--data", tmp_path / "texts.npz"): "Cannot read",
        ("--data", tmp_path / "shares.npz"): "labels .* to be integers",
        ("--data", "own:nothing"): "has no 'nothing'",
        ("--train", trained / "holdout.npy"): "have no `labels`",
        ("--model", "own:other"): "has no 'other'",
        ("--optimizer", "Nope"): "`--optimizer` to be a class of torch.optim",
        ("--model", "own:boom"): "'own:boom' failed with RuntimeError: no weights here",
        ("--data", "own:boom"): r"own:boom \(`--data`\) failed with RuntimeError: no w",
        ("--model", "truncated:build"): "Cannot import 'truncated:build' .* NameError",
        ("--data", tmp_path / "pickled.pt"): "pickled .*Linear, which is not loaded",
        ("--key", "nothing"): "under 'nothing'.* Name the entry with `--key`",
        ("--out", tmp_path): r"is in use\. Choose another --out",
        ("--out", tmp_path / "raw.npy"): r"raw.npy is a file\. Choose another --out",
        ("--out", "mlfow:x"): "`--out` to be a path or to start with one of mlflow:, ",
    }.items():
        files = tmp_path / "weights.pt" if "--key" in wrong else first
        with pytest.raises(InputError, match=complaint):
            call(files, *options, *wrong)
    with pytest.raises(InputError, match="another --out") as used:
        call(first, *options, "--out", trained / "run")
    assert "resume" not in str(used.value)  # which is an argument of Python
    with pytest.raises(InputError, match="File or folder not found"):
        call(tmp_path / "nowhere", *options)
    with pytest.raises(InputError, match="No checkpoints"):
        (tmp_path / "empty").mkdir()
        call(tmp_path / "empty", *options)


def test_checkpoints_in_folders_are_sorted_by_step(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    saved = sorted((trained / "run" / "checkpoints").iterdir())
    out = tmp_path / "out"
    for step, file in zip((500, 1000, 1500), saved, strict=True):
        folder = out / f"checkpoint-{step}"
        (folder / f"global_step{step}").mkdir(parents=True)
        (folder / f"global_step{step}" / "mp_rank_00_model_states.pt").write_bytes(b"shards")
        shutil.copy(file, folder / "model.safetensors")
        for other in ("optimizer.pt", "scheduler.pt", "rng_state.pth", "training_args.bin"):
            (folder / other).write_bytes(b"not weights")
    shutil.copy(saved[0], out / "model.safetensors")  # what `save_model` leaves at the end
    _, *options = arguments(trained)
    shown = call(out, *options)
    steps = [shown.index(f" checkpoint-{step} ") for step in (500, 1000, 1500)]
    assert steps == sorted(steps)
    assert f"Skipped files without a step number: {out / 'model.safetensors'}." in shown
    found = invoke(out, *options, "--json")
    assert [entry["drop"] for entry in json.loads(found.stdout)["readings"]] == [
        reading.drop for reading in read_run(trained / "run").readings
    ]


def test_the_folder_of_a_run_is_accepted(trained: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(trained)
    _, *options = arguments(trained)
    found = json.loads(invoke(trained / "run", *options, "--json").stdout)["readings"]
    assert [Path(entry["checkpoint"]).name for entry in found] == [
        f"step-0000{step}.safetensors" for step in (1, 2, 3)
    ]


def test_a_file_under_several_names_counts_once(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained / "run")
    monkeypatch.syspath_prepend(trained)
    file = trained / "run" / "checkpoints" / "step-00002.safetensors"
    (tmp_path / "link.safetensors").symlink_to(file)
    again = (file, "checkpoints/step-00002.safetensors", tmp_path / "link.safetensors")
    first, *options = arguments(trained)
    found = json.loads(invoke(*again, first, *options, "--json", "--as-given").stdout)["readings"]
    assert [Path(entry["checkpoint"]).name[5:10] for entry in found] == ["00002", "00001", "00003"]


@pytest.mark.parametrize("logger", ["mlflow", "tensorboard"])
def test_readings_can_go_to_a_logger(
    logger: str, trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(logger, reason=f"needs rote[{logger}]")
    monkeypatch.chdir(trained)
    before = set(trained.iterdir())
    place = {"mlflow": f"mlflow:x@{tmp_path}/mlflow.db", "tensorboard": f"tensorboard:{tmp_path}/t"}
    if logger == "mlflow":
        new_mlflow_store(tmp_path)
    shown = call(*arguments(trained, "holdout.npy"), "--out", place[logger])
    assert f"rote select {place[logger]}" in shown.replace("\n", "")
    live = read_run(trained / "run").readings
    assert read_table(place[logger]).frame["drop"].to_list() == [reading.drop for reading in live]
    assert set(trained.iterdir()) - before <= {trained / "__pycache__"}


def test_unwritable_outputs_are_refused_before_anything_is_read(
    trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(trained)
    with pytest.raises(InputError, match="'csv:x.csv'. It can only be read"):
        call(*arguments(trained), "--out", "csv:x.csv")
