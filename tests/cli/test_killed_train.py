"""`rote train`, killed at several moments and started again, ends with the same bits."""

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rote.store import read_predictions, read_run
from rote.workloads import RunSpec
from tests.workloads.small_runs import numbers, small_spec

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("resume")]

# S̃ is drawn anew at every probe, from more samples than it has. States are saved seldom, so that
# the journal is longer than what a state knows.
SPEC = small_spec(
    epochs=5,
    probe={"holdout_size": 20, "batch": 8, "resample": True},
    checkpoints={"keep": "all", "resume_every": 3},
)
KILLED = -signal.SIGKILL
MOMENTS = {
    "before the first reading": ("rote.store:RunDirectory", "append", 1, False),
    "after the second reading": ("rote.store:RunDirectory", "append", 2, True),
    "in a later epoch": ("rote.workloads.workload:Workload", "_step", 10, True),
    "after a state is written": ("rote.workloads.run_folder:SavedStates", "save", 2, True),
    "after the fourth reading": ("rote.store:RunDirectory", "append", 4, True),
}
COMMANDS = """
import importlib, json, os, signal, sys
import scipy.stats, sklearn.datasets, torch, torch._dynamo  # which optimizers import
import rote.selection, rote.tracking, rote.workloads
from rote.cli.main import main

def arrange(place, method, call, is_after):
    module, _, name = place.partition(":")
    owner = getattr(importlib.import_module(module), name)
    original, calls = getattr(owner, method), 0

    def kill(*args, **kwargs):
        nonlocal calls
        calls += 1
        result = original(*args, **kwargs) if is_after or calls < call else None
        if calls == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, method, kill)

for run, moment in json.loads(sys.argv[1]):
    child = os.fork()  # torch takes seconds to import, and has computed nothing yet
    if child == 0:
        if moment is not None:
            arrange(*moment)
        sys.argv = ["rote", "train", "spec.toml", "--out", run, "--quiet"]
        code = 3
        try:
            main()
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            os._exit(code)
    print("exit", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


def train(folder: Path, *commands: tuple[str, str | None]) -> list[int]:
    """Run `rote train` for each run, killed at a moment or not; return the exit codes."""
    told = [(run, None if moment is None else MOMENTS[moment]) for run, moment in commands]
    done = subprocess.run(
        [sys.executable, "-c", COMMANDS, json.dumps(told)],
        cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
        timeout=1200,
    )
    codes = [int(code) for code in re.findall(r"^exit (-?\d+)$", done.stdout, re.MULTILINE)]
    assert len(codes) == len(commands), done.stderr
    assert set(codes) <= {0, KILLED}, done.stderr
    return codes


def contents(run: Path) -> dict[str, Any]:
    """Return every number of a run, and its weights."""
    record = read_run(run)
    predictions = read_predictions(record)
    assert predictions is not None
    checkpoints = sorted((run / "checkpoints").glob("step-*"))
    return {
        "readings": numbers(record.readings),
        "predictions": predictions.tolist(),
        "weights": {file.name: file.read_bytes() for file in checkpoints},
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that nothing interrupted, and one that was killed at each moment."""
    folder = tmp_path_factory.mktemp("killed")
    (folder / "spec.toml").write_text(SPEC.to_toml())
    assert RunSpec.from_toml(folder / "spec.toml") == SPEC
    again = [(moment, None) for moment in MOMENTS]
    killed = [(moment, moment) for moment in MOMENTS]
    often = [("often", moment) for moment in ("after the second reading", "in a later epoch")]
    codes = train(folder, ("whole", None), *killed, *again, *often, ("often", None))
    ended = [0] + [KILLED] * len(killed) + [0] * len(again) + [KILLED] * len(often) + [0]
    assert codes == ended
    return folder


@pytest.mark.parametrize("run", [*MOMENTS, "often"])
def test_a_killed_command_resumes_to_the_same_bits(run: str, folder: Path) -> None:
    whole = contents(folder / "whole")
    assert len(whole["readings"]) == len(whole["weights"]) == SPEC.epochs
    assert contents(folder / run) == whole
