"""Trackers that write to MLflow, TensorBoard and W&B."""

import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rote
from rote.errors import InputError, RunExistsError, RunLockedError, StateError
from rote.store import read_table
from tests.loggers import keep_wandb_here, log, new_mlflow_store, readings
from tests.tracking.logged_run import Run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]


def without_seconds(found: Any) -> list[dict[str, Any]]:
    return [{k: v for k, v in reading.to_dict().items() if k != "seconds"} for reading in found]


@pytest.mark.parametrize("resample", [False, True])
@pytest.mark.parametrize("logger", ["mlflow", "tensorboard"])
def test_a_run_resumes_from_the_logger_alone(tmp_path: Path, logger: str, resample: bool) -> None:
    pytest.importorskip(logger, reason=f"needs rote[{logger}]")
    policy = rote.ProbePolicy(batch=8, resample=resample)
    uri = new_mlflow_store(tmp_path) if logger == "mlflow" else ""
    target = f"mlflow:e@{uri}" if uri else f"tensorboard:{tmp_path}/tb"
    whole = Run(None, policy)
    whole.epochs(1, 6)
    first = Run(target, policy, name="run")
    first.epochs(1, 3)
    state = first.state()
    first.epochs(4, 5)  # will be taken again
    first.tracker.close()
    second = Run(target, policy, name="run", resume=True)
    assert second.tracker.susceptibility == first.tracker.susceptibility
    second.load(state)
    second.epochs(4, 6)
    second.tracker.close()
    expected = without_seconds(whole.tracker.readings)
    assert without_seconds(second.tracker.readings) == expected
    frame = read_table(target).frame
    assert frame["susceptibility"].to_list() == [r["susceptibility"] for r in expected]
    assert frame["row"].to_list() == list(range(6))
    with pytest.raises(StateError, match="Cannot resume .* `policy` changed"):
        Run(target, replace(policy, optimizer="fresh"), name="run", resume=True)


def test_the_active_run_of_mlflow_gets_zeta_beside_its_own_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(uri)
    try:
        mlflow.set_experiment("theirs")
        with pytest.raises(
            InputError, match="lacks an active run.* inside a `with mlflow.start_run"
        ):
            Run("mlflow:")
        with mlflow.start_run(run_name="mine"):
            mlflow.log_metric("val_accuracy", 0.25, step=2)
            with pytest.raises(InputError, match="the active MLflow run mine has no readings"):
                Run("mlflow:", resume=True)
            run = Run("mlflow:")
            run.epochs(1, 3)
            mlflow.log_metric("val_accuracy", 0.5, step=3)
            mlflow.log_metric("train_accuracy", 0.9, step=3)  # theirs does not replace ours
            with pytest.raises(RunExistsError, match="run mine already holds"):
                Run("mlflow:")
            run.tracker.close()
            assert mlflow.active_run().info.status == "RUNNING"
    finally:
        mlflow.set_tracking_uri(before)
    table = read_table(f"mlflow:theirs@{uri}", {"test_accuracy": "val_accuracy"})
    assert list(table.descriptions) == ["mine"]
    assert table.frame["test_accuracy"].to_list() == [None, 0.25, 0.5]
    assert table.frame["train_accuracy"].to_list() == [0.01, 0.02, 0.03]
    drops = [reading.drop for reading in run.tracker.readings]
    assert table.frame["drop"].to_list() == drops


def test_runs_of_mlflow_end_with_the_tracker_or_the_script(tmp_path: Path) -> None:
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)
    script = f"""
import torch, rote
model = torch.nn.Linear(4, 3)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
tracker = rote.track(model, optimizer, inputs=torch.ones(6, 4), num_classes=3,
                     save_to="mlflow:e@{uri}", name="script")
tracker.probe()
"""
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    (found,) = mlflow.MlflowClient(tracking_uri=uri).search_runs(["1"])
    assert (found.info.run_name, found.info.status) == ("script", "FINISHED")
    assert found.data.params["rote.optimizer.settings.lr"] == "0.1"


def test_the_open_run_of_wandb_gets_zeta_and_stays_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="needs rote[wandb]")
    keep_wandb_here(monkeypatch, tmp_path)
    with pytest.raises(InputError, match="No W&B run is open"):
        Run("wandb:")
    with pytest.raises(
        InputError, match="Only the open run of W&B can be resumed, .*'wandb:project'"
    ):
        Run("wandb:project", resume=True)
    with wandb.init(project="theirs", name="mine") as theirs:
        rows = rows_logged(monkeypatch, theirs)
        run = Run("wandb:")
        for epoch in range(1, 4):
            theirs.log({"loss": 1 / epoch})
            run.epochs(epoch, epoch)
        state = run.state()
        run.epochs(4, 4)
        with pytest.raises(RunExistsError, match="run mine already holds"):
            Run("wandb:")
        with pytest.raises(RunLockedError, match="rote"):  # the first tracker still writes it
            Run("wandb:", resume=True)
        run.tracker.close()
        second = Run("wandb:", resume=True)
        assert [reading.step for reading in second.tracker.readings] == [1, 2, 3, 4]
        second.load(state)
        second.epochs(4, 6)
        assert wandb.run is theirs
        assert theirs.config["rote"]["name"] == "mine"
    steps = [row.get("rote/step", row.get("rote/resumed_after", row.get("loss"))) for row in rows]
    # Opened again after 4, then back to the state after 3.
    assert steps == [1, 1, 1 / 2, 2, 1 / 3, 3, 4, 4, 3, 4, 5, 6]
    drops = [row["drop"] for row in rows if "drop" in row]
    assert drops[4:] == [reading.drop for reading in second.tracker.readings[3:]]
    second.tracker.close()
    table = read_table(f"wandb:{tmp_path}")
    assert table.frame["drop"].to_list() == [reading.drop for reading in second.tracker.readings]


def test_a_run_of_wandb_that_is_opened_again_resumes_what_it_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="needs rote[wandb]")
    keep_wandb_here(monkeypatch, tmp_path)
    with wandb.init(project="theirs", id="abc"):
        run = Run("wandb:", name="mine")
        run.epochs(1, 2)
        state = run.state()
        run.tracker.close()
    with wandb.init(project="theirs", id="abc", resume="allow"):
        second = Run("wandb:", name="mine", resume=True)
        second.load(state)
        second.epochs(3, 4)
        second.tracker.close()
    table = read_table("wandb:theirs")
    assert table.frame["step"].to_list() == [1, 2, 3, 4]
    assert list(table.descriptions) == ["mine"]
    with pytest.raises(
        InputError, match=r"project 'theris' .* Projects there: theirs. Did you mean"
    ):
        read_table("wandb:theris")


def test_a_run_of_wandb_that_is_disabled_keeps_no_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wandb = pytest.importorskip("wandb", reason="needs rote[wandb]")
    keep_wandb_here(monkeypatch, tmp_path)
    with wandb.init(project="theirs", mode="disabled") as disabled:
        run = Run("wandb:")
        run.epochs(1, 1)
        run.tracker.close()
        assert not (Path(disabled.dir) / "rote").exists()


def rows_logged(patch: pytest.MonkeyPatch, run: Any) -> list[dict[str, Any]]:
    """What a run of W&B is told from now on, while it is told."""
    rows: list[dict[str, Any]] = []
    log_row = type(run).log

    def told(self: Any, values: dict[str, Any], **options: Any) -> None:
        rows.append(dict(values))
        log_row(self, values, **options)

    patch.setattr(type(run), "log", told)
    return rows


def test_every_number_of_a_reading_goes_to_wandb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb", reason="needs rote[wandb]")
    from wandb.sdk.wandb_run import Run as WandbRun

    keep_wandb_here(monkeypatch, tmp_path)
    rows = rows_logged(monkeypatch, WandbRun.__new__(WandbRun))
    found = readings(1)
    log(["wandb:digits", tmp_path / "runs" / "a"], found, name="a")
    for row, reading in zip(rows, found, strict=True):
        values = reading.to_dict()
        numbers = {k: v for k, v in values.items() if k not in ("step", "flags", "metrics")}
        own = {"rote/schema": 1, "rote/step": reading.step, "rote/flags": values["flags"]}
        expected = {**numbers, **values["metrics"]}
        written = {name: value for name, value in expected.items() if value is not None}
        np.testing.assert_equal(row, written | own)  # NaN equals NaN
    table = read_table(tmp_path / "runs")  # a directory beside it is what is read
    assert table.frame["step"].to_list() == [reading.step for reading in found]


def test_a_run_to_resume_in_mlflow_must_be_the_only_one_of_its_name(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    target = f"mlflow:e@{new_mlflow_store(tmp_path)}"
    with pytest.raises(InputError, match=r"run to resume .* with name = 'a' \(found: none\)"):
        Run(target, name="a", resume=True)
    for _ in range(2):
        Run(target, name="a").tracker.close()
    with pytest.raises(InputError, match=r"with name = 'a' \(found: [0-9a-f]{32}, [0-9a-f]{32}\)"):
        Run(target, name="a", resume=True)
    assert len(set(read_table(target).descriptions)) == 2


def test_a_server_that_is_down_is_an_error_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    with pytest.raises(InputError, match="Cannot write to the MLflow store .*refus"):
        Run("mlflow:e@http://127.0.0.1:9")
    with pytest.raises(InputError, match="Cannot read the MLflow store .*refus"):
        read_table("mlflow:e@http://127.0.0.1:9")


@pytest.mark.parametrize("logger", ["mlflow", "tensorboard", "wandb"])
def test_a_logger_leaves_the_random_numbers_of_the_training_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, logger: str
) -> None:
    pytest.importorskip(logger, reason=f"needs rote[{logger}]")
    uri = new_mlflow_store(tmp_path) if logger == "mlflow" else ""
    if logger == "wandb":
        keep_wandb_here(monkeypatch, tmp_path)
    target = {"mlflow": f"mlflow:e@{uri}", "tensorboard": f"tensorboard:{tmp_path}/tb"}
    state = random.getstate(), np.random.get_state()[2]
    run = Run(target.get(logger, "wandb:p"))
    run.tracker.probe()
    run.tracker.close()
    after = random.getstate(), np.random.get_state()[2]
    assert after == state


def test_runs_without_a_name_have_different_ones(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    target = f"mlflow:e@{new_mlflow_store(tmp_path)}"
    for _ in range(2):
        Run(target).tracker.close()
    names = read_table(target).descriptions
    assert len(names) == 2
    assert not any("(" in name for name in names)
