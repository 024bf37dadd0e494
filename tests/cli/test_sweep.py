"""`rote sweep` as people call it."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from rote.store import list_runs, read_run
from tests.cli.conftest import Rote
from tests.sweeps.sweeping import DEADLINE, lines, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("sweeps")]

ROTE = Path(sys.executable).parent / "rote"
SWEEP = """
[base]
epochs = EPOCHS
batch = 16
data = { name = "digits", train_size = 60, test_size = 20 }
architecture = { name = "mlp", options = { width = 8, depth = 1 } }
probe = { holdout_size = 12, batch = 8 }

[grid]
seed = [0, 1, 2, 3]
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "sweep.toml"
    path.write_text(SWEEP.replace("EPOCHS", "3"))
    return path


def start(*arguments: object) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [ROTE, "sweep", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def check(code: object, expected: int, err: str) -> None:
    assert code == expected, err
    assert "Traceback" not in err


@dataclass(frozen=True)
class Sweeping:
    """`rote sweep` in this process, whose workers have loaded torch once for all tests here."""

    rote: Rote

    def __call__(self, *arguments: object, code: int = 0) -> tuple[str, str]:
        said = self.rote("sweep", *arguments)
        check(said.code, code, said.err)
        return said.out, said.err


@pytest.fixture
def sweep(rote: Rote) -> Sweeping:
    return Sweeping(rote)


def test_a_sweep_is_estimated_run_listed_and_skipped(
    sweep: Sweeping, file: Path, tmp_path: Path
) -> None:
    store = tmp_path / "store"
    out, _ = sweep(file, "--out", store, "--dry-run")
    assert out.startswith("4 runs: 4 new.\nLeft: about ")
    assert "Based on one epoch each of 1 of 1 kinds of run" in out
    assert not store.exists()
    page = tmp_path / "page.html"
    out, err = sweep(file, "--out", store, "--workers", "2", "--report", page)
    assert "4 of 4 runs finished, 4 of them now" in out
    assert f"rote select {store}" in out
    *ended, report = err.splitlines()
    assert report == f"Report: {page}"
    assert "4 runs · 12 checkpoints" in page.read_text()
    assert 'id="live"' not in page.read_text()  # it has come to rest
    assert len(ended) == 4
    assert all("finished  ζ" in line and "train accuracy" in line for line in ended)
    assert {line.split()[0] for line in ended} == {"1/4", "2/4", "3/4", "4/4"}
    out, err = sweep(file, "--out", store, "--quiet", "--json")
    summary = json.loads(out)
    assert err == ""
    assert (summary["total"], summary["finished"], summary["skipped"]) == (4, 0, 4)
    assert (summary["failed"], summary["left"], summary["interrupted"]) == ([], 0, False)
    out, _ = sweep("--list", store)
    assert out.count("finished  ") == 4
    assert "  seed3\n" in out
    assert out.endswith("4 runs: 4 finished.\n")
    listed = json.loads(sweep("--list", store, "--json")[0])
    assert listed["counts"]["finished"] == len(listed["runs"]) == 4
    found = json.loads(sweep(file, "--out", store, "--dry-run", "--json")[0])
    assert found["runs"]["finished"] == 4
    assert found["seconds"] == 0


def test_two_sweeps_at_once_share_the_work_and_do_nothing_twice(tmp_path: Path) -> None:
    file, store = tmp_path / "sweep.toml", tmp_path / "store"
    seeds = list(range(6))
    text = SWEEP.replace("EPOCHS", "20").replace("[0, 1, 2, 3]", str(seeds))
    file.write_text(text)
    arguments = (file, "--out", store, "--quiet", "--json", "--workers", "1")
    with start(*arguments) as first, start(*arguments) as second:
        reports = [process.communicate(timeout=DEADLINE) for process in (first, second)]
    assert (first.returncode, second.returncode) == (0, 0), reports
    summaries = [json.loads(out) for out, _ in reports]
    assert sum(summary["finished"] for summary in summaries) == 6
    assert [summary["finished"] + summary["skipped"] for summary in summaries] == [6, 6]
    assert [err for _, err in reports] == ["", ""]  # nor do their workers say anything
    for run in list_runs(store):
        assert run.state == "finished"
        assert [reading.step for reading in read_run(run.path).readings] == list(range(1, 21))
        assert lines(run.path) == 20  # not one line more: it was never opened again


def test_ctrl_c_stops_cleanly_and_the_same_command_resumes(sweep: Sweeping, tmp_path: Path) -> None:
    file, store = tmp_path / "sweep.toml", tmp_path / "store"
    file.write_text(SWEEP.replace("EPOCHS", "50"))
    with start(file, "--out", store, "--quiet", "--workers", "2") as process:
        until(lambda: store.is_dir() and sum(map(lines, store.iterdir())) > 20)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=DEADLINE)
    assert process.returncode == 130, err
    assert "of 4 runs finished" in out
    assert err == "Stopped; nothing is lost. Run the same command again to resume.\n"
    assert {run.state for run in list_runs(store)} & {"interrupted"}
    begun = [run.path for run in list_runs(store) if run.state == "interrupted"]
    out, _ = sweep(file, "--out", store, "--quiet", "--json")
    assert json.loads(out)["left"] == 0
    for run in list_runs(store):  # no reading is missing, and none came twice
        assert [reading.step for reading in read_run(run.path).readings] == list(range(1, 51))
        assert ('"kind":"resume"' in (run.path / "journal.jsonl").read_text()) == (
            run.path in begun
        )


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no fork server")
def test_ctrl_c_during_the_import_of_torch_stops_cleanly(file: Path, tmp_path: Path) -> None:
    command = [ROTE, "sweep", file, "--out", tmp_path / "store", "--workers", "2"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        until(lambda: len(children.read_text().split()) >= 2)  # resource tracker, fork server
        for _ in range(2):
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to every process
        out, err = process.communicate(timeout=DEADLINE)  # until the last process is gone
    assert process.returncode == 130, err
    assert "0 of 4 runs finished" in out
    assert err == "Stopped; nothing is lost. Run the same command again to resume.\n"


def test_failed_runs_are_named_and_make_exit_code_1(sweep: Sweeping, tmp_path: Path) -> None:
    file, store = tmp_path / "sweep.toml", tmp_path / "store"
    text = SWEEP.replace("EPOCHS", "1").replace("[0, 1, 2, 3]", "[0, 1]")
    file.write_text(text + 'architecture.options.width = [8, "wide"]\n')
    with start(file, "--out", store, "--quiet") as process:  # also what workers say is seen
        out, err = process.communicate(timeout=DEADLINE)
    check(process.returncode, 1, err)
    assert "2 of 4 runs finished, 2 of them now" in out
    assert err.count("Failed: ") == 2
    assert "failure.json): " in err
    assert "Run the same command again to retry" in err
    assert sweep("--list", store)[0].endswith("4 runs: 2 finished, 2 failed.\n")
    _, err = sweep(file, "--out", store, "--dry-run", "--json", code=2)
    assert "wide" in err  # what cannot be trained cannot be measured


def test_mistakes_are_one_line(sweep: Sweeping, file: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text(file.read_text() + "batch = [16, -1]\n")
    _, err = sweep(bad, "--out", tmp_path / "store", code=2)
    assert err.startswith(f"Error: {bad}, line 11: Expected `grid.batch` to be an integer of at")
    assert not (tmp_path / "store").exists()
    _, err = sweep(file, "--out", file / "store", code=1)
    assert "Cannot write to " in err
    assert len(err.splitlines()) == 1
    _, err = sweep(file, code=2)
    assert "Missing --out STORE" in err
    _, err = sweep(file, "--out", tmp_path / "store", "--address", "auto", code=2)
    assert "--address 'auto' needs --executor ray." in err
    _, err = sweep(file, "--out", tmp_path / "store", "--gpus-per-run", "1", code=2)
    assert "--gpus-per-run 1.0 needs --executor ray." in err
    _, err = sweep(file, "--list", tmp_path, code=2)
    assert f"Leave out {file}." in err
    _, err = sweep(file, "--out", tmp_path / "store", "--workers", "0", code=2)
    assert "Expected `workers` to be an integer of at least 1, got 0." in err
