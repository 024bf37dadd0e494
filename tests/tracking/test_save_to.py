"""Trackers that write to several places at once, and what happens when one fails."""

import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from polars.testing import assert_frame_equal

import rote
from rote.errors import InputError, LoggerWarning, MissingExtraError, RunExistsError, StateError
from rote.records import Reading
from rote.store import read_run, read_table
from tests.loggers import new_mlflow_store
from tests.tracking.logged_run import HOLDOUT, Run

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("loggers")]


def test_function_gets_every_reading_and_can_refuse_it(tmp_path: Path) -> None:
    told: list[Reading] = []

    def tell(reading: Reading) -> None:
        if len(told) == 2 and not told[-1].metrics.get("again"):
            told[-1].metrics["again"] = 1.0  # type: ignore[index]
            raise RuntimeError("the function's own trouble")
        told.append(reading)

    run = Run([tell, tmp_path / "run"])
    run.epochs(1, 2)
    with pytest.raises(RuntimeError, match="own trouble"):
        run.tracker.probe()
    assert len(run.tracker.readings) == 2
    run.epochs(3, 3)
    assert [reading.step for reading in told] == [1, 2, 3]
    assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1, 2, 3]
    assert told[0] == run.tracker.readings[0]


def test_a_directory_that_fails_leaves_no_reading_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run([tmp_path / "a", tmp_path / "b"], name="run")
    run.epochs(1, 2)
    second = run.tracker._run._members[1].sink

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(second, "append", full)
        with pytest.raises(OSError, match="No space left"):
            run.tracker.probe()
    run.epochs(3, 4)
    for name in ("a", "b"):
        found = read_run(tmp_path / name).readings
        assert [reading.drop for reading in found] == [r.drop for r in run.tracker.readings]


def test_several_sinks_record_the_same_readings(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)
    targets = [tmp_path / "own" / "first", f"tensorboard:{tmp_path}/tb", f"mlflow:e@{uri}"]
    run = Run(targets)
    run.epochs(1, 4)
    run.tracker.close()
    own = read_table(tmp_path / "own")
    assert list(own.descriptions) == ["first"]  # the directory's name is the run's, everywhere
    for source in targets[1:]:
        assert_frame_equal(read_table(source).frame, own.frame, check_exact=True)


def test_a_logger_that_fails_does_not_stop_the_training(tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)

    def alter(statement: str) -> None:
        with sqlite3.connect(tmp_path / "mlflow.db") as connection:
            connection.execute(statement)
        connection.close()

    run = Run([f"mlflow:e@{uri}", tmp_path / "own" / "run"], name="run")
    run.epochs(1, 1)
    alter("ALTER TABLE metrics RENAME TO hidden")
    with pytest.warns(LoggerWarning, match="MLflow run run did not take a reading: .*no such"):
        run.epochs(2, 2)
    run.epochs(3, 3)  # warned once
    alter("ALTER TABLE hidden RENAME TO metrics")
    run.epochs(4, 4)
    run.tracker.close()
    own, theirs = read_table(tmp_path / "own"), read_table(f"mlflow:e@{uri}")
    assert_frame_equal(theirs.frame, own.frame, check_exact=True)


def test_readings_never_logged_are_reported_at_the_end(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    run = Run(f"tensorboard:{tmp_path}")
    run.epochs(1, 1)
    patient = run.tracker._run._members[0].sink
    patient._sink._file.close()
    with pytest.warns(LoggerWarning, match="did not take a reading"):
        run.epochs(2, 3)
    with pytest.warns(LoggerWarning, match="closed without its last 2 entries"):
        run.tracker.close()
    assert len(run.tracker.readings) == 3


def test_an_interrupt_while_logging_takes_the_reading_back_everywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    run = Run([f"tensorboard:{tmp_path}/tb", tmp_path / "own" / "run"], name="run")
    run.epochs(1, 2)
    logger = run.tracker._run._members[1].sink._sink

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(logger, "append", interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.tracker.probe()
    assert len(run.tracker.readings) == 2
    run.epochs(3, 4)
    run.tracker.close()
    own = read_table(tmp_path / "own")
    assert own.frame["step"].to_list() == [1, 2, 3, 4]
    assert_frame_equal(read_table(f"tensorboard:{tmp_path}/tb").frame, own.frame)


def test_nothing_is_left_behind_if_a_sink_cannot_be_opened(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="Cannot write to .*file"):
        Run([tmp_path / "run", f"tensorboard:{tmp_path}/file"], name="run")
    assert not (tmp_path / "run").exists()
    Run(tmp_path / "used").tracker.close()
    with pytest.raises(RunExistsError, match="used is in use"):
        Run([f"tensorboard:{tmp_path}/tb", tmp_path / "used"])
    assert not (tmp_path / "tb").exists()
    Run(f"tensorboard:{tmp_path}/tb").tracker.close()
    with pytest.raises(RunExistsError, match="tb is in use"):
        Run(f"tensorboard:{tmp_path}/tb")
    with pytest.raises(InputError, match="No run to resume in .*none: it has no event file"):
        Run(f"tensorboard:{tmp_path}/none", resume=True)


def test_failed_open_leaves_no_empty_run_in_other_sinks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorboard", reason="needs rote[tensorboard]")
    pytest.importorskip("wandb", reason="needs rote[wandb]")
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    uri = new_mlflow_store(tmp_path)
    client = mlflow.MlflowClient(tracking_uri=uri)
    (tmp_path / "mine").mkdir()
    before = sorted(tmp_path.iterdir())
    targets = ["wandb:", f"mlflow:e@{uri}", f"tensorboard:{tmp_path}/tb/deep"]
    targets += [str(tmp_path / "own" / "deep" / "run"), str(tmp_path / "mine")]
    with pytest.raises(InputError, match="No W&B run is open"):
        Run(targets, name="run")
    assert sorted(tmp_path.iterdir()) == before
    assert not read_files(tmp_path / "mine")
    assert not client.search_runs(["1"])
    (deleted,) = client.search_runs(["1"], run_view_type=mlflow.entities.ViewType.DELETED_ONLY)
    assert deleted.info.status == "FAILED"
    run = Run(targets[1:], name="run")  # nothing is in the way
    run.epochs(1, 2)
    run.tracker.close()
    files = read_files(tmp_path / "tb")
    with pytest.raises(InputError, match="No W&B run is open"):
        Run(targets, name="run", resume=True)
    assert read_files(tmp_path / "tb") == files
    (found,) = client.search_runs(["1"])
    assert found.info.status == "FINISHED"
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(InputError, match="Cannot write to the MLflow store"):
        Run([tmp_path / "new", f"tensorboard:{tmp_path}/tb", "mlflow:e@http://127.0.0.1:9"])
    assert not (tmp_path / "new").exists()
    assert read_files(tmp_path / "tb") == files


def test_an_active_run_of_mlflow_is_free_again_after_a_failure(tmp_path: Path) -> None:
    pytest.importorskip("wandb", reason="needs rote[wandb]")
    mlflow = pytest.importorskip("mlflow", reason="needs rote[mlflow]")
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(new_mlflow_store(tmp_path))
    try:
        with mlflow.start_run(tags={"rote.mine": "stays"}) as active:
            with pytest.raises(InputError, match="No W&B run is open"):
                Run(["mlflow:", "wandb:"])
            tags = mlflow.get_run(active.info.run_id).data.tags
            assert [tag for tag in tags if tag.startswith("rote.")] == ["rote.mine"]
            Run("mlflow:").epochs(1, 1)
    finally:
        mlflow.set_tracking_uri(before)


def read_files(folder: Path) -> dict[Path, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path: path.read_bytes() for path in files if path.name != "writer.lock"}


@pytest.mark.parametrize(
    ("save_to", "message"),
    [
        ("mlfow:digits", r"got 'mlfow:digits'. Did you mean 'mlflow'\?"),
        ("csv:table.csv", "got 'csv:table.csv'. It can only be read"),
        ("tensorboard:", "names no directory. Write tensorboard:LOGDIR"),
        ([5], "a function that takes a reading, or a list of them, got 5"),
        ("mlfow:x", "one of mlflow:, tensorboard:, trackio:, wandb:, got 'mlfow:x'"),
        ("neptune:x", r"got 'neptune:x'\. A directory of that name is './neptune:x'"),
        (
            "s3://bucket/run",
            "one of mlflow:, tensorboard:, trackio:, wandb:, got 's3://bucket/run'",
        ),
        ("", "to name a directory or a logger, got an empty string"),
        ([" "], "to name a directory or a logger, got an empty string"),
    ],
)
def test_unwritable_targets_are_refused(save_to: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        Run(save_to)


def test_a_name_needs_a_place() -> None:
    with pytest.raises(InputError, match="Run 'a' has no place .*`save_to`"):
        Run(None, name="a")
    assert Run([]).tracker.probe() is not None


def test_a_missing_package_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("mlflow", "wandb", "tensorboard.summary.writer.record_writer"):
        monkeypatch.setitem(sys.modules, name, None)
    for target, extra in (("mlflow:e", "mlflow"), ("wandb:p", "wandb")):
        with pytest.raises(MissingExtraError, match=rf"pip install 'rote\[{extra}\]'"):
            Run(target)
    with pytest.raises(MissingExtraError, match=r"pip install 'rote\[tensorboard\]'"):
        Run([f"tensorboard:{tmp_path}/tb", tmp_path / "run"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["C:run", "run-10:30", "runs/lr:0.1", "./neptune:x"])
def test_path_with_a_colon_is_not_taken_for_a_logger(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Run(name).tracker.probe()
    assert len(read_run(tmp_path / name).readings) == 1


def test_file_is_refused_as_run_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunExistsError, match=r"file is a file\. Choose a new directory\.$"):
        Run(tmp_path / "file")
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.parametrize("kind", ["directory", "function"])
def test_a_closed_tracker_that_was_recorded_refuses_to_probe(kind: str, tmp_path: Path) -> None:
    told: list[Reading] = []
    run = Run(tmp_path / "run" if kind == "directory" else told.append)
    run.epochs(1, 2)
    run.tracker.close()
    run.tracker.close()
    with pytest.raises(InputError, match=r"tracker is closed, .* resume="):
        run.tracker.probe(train_accuracy=0.5)
    assert len(run.tracker.readings) == 2
    if kind == "directory":
        again = Run(tmp_path / "run", resume=True)
        again.epochs(3, 3)
        assert [reading.step for reading in read_run(tmp_path / "run").readings] == [1, 2, 3]


def test_closed_tracker_without_save_to_still_probes() -> None:
    run = Run(None)
    run.epochs(1, 1)
    run.tracker.close()
    run.epochs(2, 2)
    assert len(run.tracker.readings) == 2


def test_resuming_with_another_micro_batch_is_the_same_run(tmp_path: Path) -> None:
    """As after a change of the trainer's batch size, which callbacks take by default."""
    first = Run(tmp_path / "run", policy=rote.ProbePolicy(batch=8, micro_batch=4))
    first.epochs(1, 1)
    first.tracker.close()
    others = rote.ProbePolicy(batch=8, micro_batch=2, verify=True, snapshot_device="cpu")
    again = Run(tmp_path / "run", resume=True, policy=others)
    assert [reading.step for reading in again.tracker.readings] == [1]
    again.tracker.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"inputs": HOLDOUT[:12]}, r"the holdout \(`inputs`\) changed \(size 12 instead of 20"),
        ({"inputs": HOLDOUT + 1}, r"the holdout .* changed \(as many samples \(20\), but others"),
        ({"seed": 3}, r"the random labels \(`labels`, `seed`\) changed \(others of the same kind"),
        (
            {"policy": rote.ProbePolicy(batch=8, mode="eval")},
            r"`policy` changed \(mode eval instead of tr",
        ),
    ],
)
def test_resuming_a_different_run_names_the_difference(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    Run(tmp_path / "run").tracker.close()
    with pytest.raises(StateError, match=words) as caught:
        Run(tmp_path / "run", resume=True, **options)
    assert not re.search("[0-9a-f]{20}|{", str(caught.value))  # no hash, no dictionary
