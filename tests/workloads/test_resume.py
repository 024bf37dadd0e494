"""A run that was interrupted, anywhere, ends with the numbers of one that was not."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from rote.errors import (
    CorruptRunError,
    DamagedStateWarning,
    InputError,
    RunLockedError,
    StateError,
    TornJournalWarning,
)
from rote.store import RunDirectory, read_predictions, read_run
from rote.workloads.checkpoints import CheckpointKeeper
from rote.workloads.loop import train
from rote.workloads.run_folder import RunFolder, SavedStates
from rote.workloads.spec import RunSpec
from rote.workloads.workload import Workload
from tests.workloads.small_runs import numbers, small_spec

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("resume")]

CNN = {"name": "cnn", "options": {"width": 4, "depth": 2, "dropout": 0.3}}
SPECS = {
    "plain": small_spec(epochs=4),
    "cnn": small_spec(
        epochs=4,
        architecture=CNN,
        optimizer="adam",
        objective="mixup",
        data={"name": "digits", "train_size": 60, "crop": 1, "flip": True},
        checkpoints={"keep": "best", "k": 1, "metric": "train_accuracy", "resume_every": 2},
    ),
    "resampled": small_spec(epochs=4, probe={"holdout_size": 12, "batch": 8, "resample": True}),
    "every_other": small_spec(epochs=4, probe={"holdout_size": 12, "batch": 8, "every": 2}),
}


class PowerCut(BaseException):
    """Ends a run without asking."""


def contents(run: Path) -> dict[str, Any]:
    """Everything that a run leaves and that must not depend on interruptions."""
    record = read_run(run)
    predictions = read_predictions(record)
    weights = {
        file.name: {name: tensor.tolist() for name, tensor in load_file(file).items()}
        for file in sorted((run / "checkpoints").iterdir())
    }
    return {
        "readings": numbers(record.readings),
        "predictions": None if predictions is None else predictions.tolist(),
        "weights": weights,
        "workload": json.loads((run / "workload.json").read_text()),
        "files": sorted(file.name for file in run.iterdir()),
    }


@dataclass(frozen=True)
class Cut:
    """The n-th call of a method ends the run, before or after it does its work."""

    owner: type
    method: str
    call: int
    after: bool

    def apply(self, patch: pytest.MonkeyPatch) -> None:
        original = getattr(self.owner, self.method)
        calls = 0

        def cut(*args: Any, **kwargs: Any) -> Any:
            nonlocal calls
            calls += 1
            result = original(*args, **kwargs) if self.after or calls != self.call else None
            if calls == self.call:
                raise PowerCut
            return result

        patch.setattr(self.owner, self.method, cut)


CUTS = {
    "before the journal": Cut(RunDirectory, "append", 2, after=False),
    "after the journal": Cut(RunDirectory, "append", 2, after=True),
    "before the first state": Cut(SavedStates, "save", 1, after=False),
    "after the first state": Cut(SavedStates, "save", 1, after=True),
    "before a state": Cut(SavedStates, "save", 2, after=False),
    "after a state": Cut(SavedStates, "save", 2, after=True),
    "while a state takes another's name": Cut(SavedStates, "_keep_newest", 1, after=True),
    "before a checkpoint": Cut(CheckpointKeeper, "keep", 2, after=False),
    "after a checkpoint": Cut(CheckpointKeeper, "keep", 2, after=True),
    "in the first epoch": Cut(Workload, "_step", 2, after=True),
    "in the last epoch": Cut(Workload, "_step", 11, after=True),
    "before the description": Cut(RunFolder, "describe", 1, after=False),
    "before the end": Cut(RunFolder, "finish", 1, after=False),
    "at the end": Cut(RunFolder, "describe", 2, after=True),
}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Every run without an interruption."""
    found = {}
    for name, spec in SPECS.items():
        path = tmp_path_factory.mktemp("whole") / "run"
        train(spec, path)
        found[name] = contents(path)
    return found


def cases() -> Iterator[Any]:
    """Every spec with every cut; by default the plain one, and each other with every third."""
    for (i, name), (j, cut) in product(enumerate(SPECS), enumerate(CUTS)):
        is_first = name == "plain" or (i + j) % 3 == 0
        yield pytest.param(name, cut, marks=() if is_first else pytest.mark.full)


@pytest.mark.parametrize(("name", "cut"), [*cases()])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(
    name: str, cut: str, tmp_path: Path, whole: dict[str, dict[str, Any]]
) -> None:
    path = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        CUTS[cut].apply(patch)
        with pytest.raises(PowerCut):
            train(SPECS[name], path)
    train(SPECS[name], path)
    found = contents(path)
    found["files"] = [file for file in found["files"] if not file.startswith("resume")]
    assert found == whole[name]


def test_a_run_may_be_interrupted_after_every_epoch(
    tmp_path: Path, whole: dict[str, dict[str, Any]]
) -> None:
    path, calls = tmp_path / "run", 0

    def stop(_: Any) -> None:
        raise PowerCut

    for _ in range(4):
        with pytest.raises(PowerCut):
            train(SPECS["plain"], path, progress=stop)
        calls += 1
    assert calls == 4
    train(SPECS["plain"], path)
    assert contents(path) == whole["plain"]


POINTS = ("after the journal", "while a state is written", "before the run exists")
KILLED = """
import os, signal, sys
import torch
torch.set_num_threads(1)
from rote.store import RunDirectory
from rote.workloads.loop import train
from rote.workloads.spec import RunSpec
from rote.store import run_directory

folder, spec, *points = sys.argv[1:]
calls = 0

def kill(owner, name, call, after):
    original = getattr(owner, name)
    def patched(*args, **kwargs):
        global calls
        calls += 1
        if after and calls == call:
            original(*args, **kwargs)
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return original(*args, **kwargs)
    setattr(owner, name, patched)

def run(point):
    if point == "after the journal":
        kill(RunDirectory, "append", 3, True)
    elif point == "while a state is written":
        kill(torch, "save", 3, True)
    else:
        kill(run_directory, "write_whole", 1, False)
    train(RunSpec.from_toml(spec), f"{folder}/{point}")

for point in points:
    child = os.fork()  # torch takes seconds to import, and has computed nothing yet
    if child == 0:
        try:
            run(point)
        finally:
            os._exit(1)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run for every point at which a process was killed."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "spec.toml").write_text(SPECS["plain"].to_toml())
    command = [sys.executable, "-c", KILLED, str(folder), str(folder / "spec.toml"), *POINTS]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    ended = subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True, timeout=240
    )
    assert ended.stdout.split() == [str(-signal.SIGKILL)] * len(POINTS), ended.stderr
    return folder


@pytest.mark.parametrize("point", POINTS)
def test_killed_process_resumes_bit_identically(
    point: str, killed: Path, whole: dict[str, dict[str, Any]]
) -> None:
    train(RunSpec.from_toml(killed / "spec.toml"), killed / point)
    found = contents(killed / point)
    found["files"] = [file for file in found["files"] if not file.endswith(".draft")]
    assert found == whole["plain"]


def test_truncated_journal_is_repaired(tmp_path: Path, whole: dict[str, dict[str, Any]]) -> None:
    path = tmp_path / "run"

    def stop(reading: Any) -> None:
        if reading.step == 2:
            raise PowerCut

    with pytest.raises(PowerCut):
        train(SPECS["plain"], path, progress=stop)
    journal = path / "journal.jsonl"
    journal.write_bytes(journal.read_bytes() + b'{"schema": 1, "ki')
    with pytest.warns(TornJournalWarning, match="was cut off while being written"):
        train(SPECS["plain"], path)
    with pytest.warns(TornJournalWarning, match="was cut off while being written"):
        found = contents(path)
    assert found == whole["plain"]


def test_a_run_has_one_writer(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def again(_: Any) -> None:
        train(SPECS["plain"], path)

    with pytest.raises(RunLockedError, match="is being written by"):
        train(SPECS["plain"], path, progress=again)


def test_files_that_are_gone_or_of_another_version_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run"

    def stop(_: Any) -> None:
        raise PowerCut

    with pytest.raises(PowerCut):
        train(SPECS["plain"], path, progress=stop)
    state = SavedStates(path).load()
    assert state is not None
    (path / "resume-before.pt").unlink()
    whole = (path / "resume.pt").read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"\0" * len(whole)):
        (path / "resume.pt").write_bytes(damaged)
        with pytest.raises(CorruptRunError, match=r"resume\.pt is damaged.* start the run again"):
            train(SPECS["plain"], path)
    SavedStates(path).save(state | {"version": 99})
    with pytest.raises(StateError, match=r"version 99, not 1\. Start the run again"):
        train(SPECS["plain"], path)
    SavedStates(path).save({"version": 1})
    with pytest.raises(StateError, match=r"does not fit this run: .*epoch"):
        train(SPECS["plain"], path)
    SavedStates(path).save(state | {"epoch": "x" * 10_000})
    with pytest.raises(InputError, match=r"`epoch` to be an integer .{1,300}$"):
        train(SPECS["plain"], path)
    (path / "resume-before.pt").unlink()
    torch.save([1, 2], path / "resume.pt")
    with pytest.raises(CorruptRunError, match=r"is damaged"):
        train(SPECS["plain"], path)
    (path / "resume.pt").unlink()
    with pytest.raises(StateError, match=r"no resume\.pt, so the run cannot resume"):
        train(SPECS["plain"], path)
    workload = path / "workload.json"
    workload.write_text(json.dumps(json.loads(workload.read_text()) | {"schema": 99}))
    with pytest.raises(CorruptRunError, match=r"not a workload of schema 1"):
        train(SPECS["plain"], path)
    for foreign in ({}, {"finished": 1}, {"spec": 3}, {"identity": [1]}):
        described = {"schema": 1, "identity": "", "finished": False, "spec": {}} | foreign
        if not foreign:
            del described["finished"]
        workload.write_text(json.dumps(described))
        with pytest.raises(CorruptRunError, match=r"workload\.json has no valid .* edited or"):
            train(SPECS["plain"], path)
    workload.write_text("[" * 100_000)
    with pytest.raises(CorruptRunError, match=r"workload\.json is not valid JSON"):
        train(SPECS["plain"], path)
    workload.write_text("{")
    with pytest.raises(CorruptRunError, match=r"workload\.json is not valid JSON"):
        train(SPECS["plain"], path)


def cut_after(epoch: int, name: str, path: Path) -> None:
    def stop(reading: Any) -> None:
        if reading.step == epoch:
            raise PowerCut

    with pytest.raises(PowerCut):
        train(SPECS[name], path, progress=stop)


@pytest.mark.parametrize("place", [0, 3, 20, 76, 77, 80, 500, -300, -1])
def test_a_corrupt_state_is_noticed_and_the_previous_one_is_used(
    place: int, tmp_path: Path, whole: dict[str, dict[str, Any]]
) -> None:
    path = tmp_path / "run"
    cut_after(3, "plain", path)
    state = bytearray((path / "resume.pt").read_bytes())
    state[place] ^= 4
    (path / "resume.pt").write_bytes(state)
    with pytest.warns(DamagedStateWarning, match=r"resumes from the state before it"):
        train(SPECS["plain"], path)
    assert contents(path) == whole["plain"]


@pytest.mark.parametrize("name", SPECS)
def test_a_run_resumed_from_the_previous_state_ends_like_an_uninterrupted_one(
    name: str, tmp_path: Path, whole: dict[str, dict[str, Any]]
) -> None:
    path = tmp_path / "run"
    with pytest.MonkeyPatch.context() as patch:
        Cut(SavedStates, "save", 2, after=True).apply(patch)
        with pytest.raises(PowerCut):
            train(SPECS[name], path)
    (path / "resume.pt").unlink()
    with pytest.warns(DamagedStateWarning, match=r"is damaged or missing"):
        train(SPECS[name], path)
    assert contents(path) == whole[name]


def test_states_are_kept_where_files_cannot_have_two_names(
    tmp_path: Path, whole: dict[str, dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, target: Path) -> None:
        raise OSError(f"Expected {self} to be linked to {target}, got a file system without links")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    path = tmp_path / "run"
    cut_after(3, "plain", path)
    assert (path / "resume-before.pt").is_file()
    train(SPECS["plain"], path)
    assert contents(path) == whole["plain"]
