"""Where runs stand, told from their files."""

import json
from pathlib import Path

import pytest
import torch

import rote
from rote.errors import InputError, StoreError
from rote.store import WriterLock, list_runs, read_status
from rote.store.run_status import RunStatus


def write(run: Path, finished: bool | None, *names: str) -> Path:
    run.mkdir(parents=True)
    if finished is not None:
        contents = {"identity": "abc", "finished": finished, "spec": {"name": "mine"}}
        (run / "workload.json").write_text(json.dumps(contents))
    for name in names:
        (run / name).write_text("{}")
    return run


def test_run_states_are_derived_from_files(tmp_path: Path) -> None:
    runs = {
        "a": ("finished", write(tmp_path / "a", True, "run.json", "journal.jsonl")),
        "b": (
            "interrupted",
            write(tmp_path / "b", False, "run.json", "journal.jsonl", "resume.pt"),
        ),
        "c": ("failed", write(tmp_path / "c", None, "claim.lock", "failure.json")),
        "d": ("failed", write(tmp_path / "d", False, "run.json", "failure.json")),
        "e": ("finished", write(tmp_path / "e", True, "run.json", "failure.json", "resume.pt")),
        "f": ("interrupted", write(tmp_path / "f", None, "claim.lock", "run.json")),
        "g": ("new", write(tmp_path / "g", None, "claim.lock")),
        "h": ("tracked", write(tmp_path / "h", None, "run.json", "journal.jsonl")),
        "i": ("interrupted", write(tmp_path / "i", None, "workload.json")),  # says nothing
        "j": ("interrupted", write(tmp_path / "j", False)),
    }
    (tmp_path / "j" / "workload.json").write_text('{"spec": "no table"}')
    write(tmp_path / "notes", None, "thoughts.txt")
    (tmp_path / "file").write_text("no run")
    assert {run.path.name: (run.state, run.path) for run in list_runs(tmp_path)} == runs
    assert read_status(tmp_path / "a") == RunStatus(tmp_path / "a", "finished", "abc", "mine")
    assert read_status(tmp_path / "nothing").state == "new"
    with pytest.raises(InputError, match="Directory not found:"):
        list_runs(tmp_path / "nothing")


def test_locked_run_has_the_state_running(tmp_path: Path) -> None:
    for name, finished in (("begun", False), ("claimed", None), ("over", True)):
        write(tmp_path / name, finished)
    locks = [WriterLock(tmp_path / name / "claim.lock") for name in ("begun", "claimed", "over")]
    states = {run.path.name: run.state for run in list_runs(tmp_path)}
    assert states == {"begun": "running", "claimed": "running", "over": "finished"}
    for lock in locks:
        lock.release()
    states = {run.path.name: run.state for run in list_runs(tmp_path)}
    assert states == {"begun": "interrupted", "claimed": "new", "over": "finished"}


def test_an_unreadable_directory_is_named(tmp_path: Path) -> None:
    endless = tmp_path / "endless"
    endless.symlink_to(endless)
    with pytest.raises(StoreError, match=r"Cannot read .*endless: Too many"):
        read_status(endless)


def test_run_of_a_user_loop_has_its_own_state(tmp_path: Path) -> None:
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    tracker = rote.track(
        model, optimizer, inputs=torch.randn(8, 3), num_classes=2, save_to=tmp_path / "own"
    )
    tracker.probe()
    assert [run.state for run in list_runs(tmp_path)] == ["running"]
    tracker.close()
    assert [run.state for run in list_runs(tmp_path)] == ["tracked"]
