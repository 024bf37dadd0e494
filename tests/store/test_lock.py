"""One writer at a time, and a way to ask that leaves no trace."""

import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rote
from rote.errors import RunLockedError
from rote.store import WriterLock, is_locked


def test_asking_says_who_holds_it_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "claim.lock"
    assert not is_locked(path)
    assert not path.exists()
    lock = WriterLock(path)
    owner = path.read_bytes()
    assert is_locked(path)
    with pytest.raises(RunLockedError, match="this very process. Close the tracker"):
        WriterLock(path)
    lock.release()
    assert not is_locked(path)
    assert path.read_bytes() == owner
    WriterLock(path).release()


OWNER = """
import os, signal, sys
from pathlib import Path
from rote.store import WriterLock
lock = WriterLock(Path(sys.argv[1]))
reading, writing = os.pipe()
worker = os.fork()
if worker == 0:
    lock.release()  # as when the worker throws its tracker away: not the owner's lock
    os.write(writing, b"1")
    os.close(1)
    signal.pause()
    os._exit(0)
os.read(reading, 1)
print(worker, flush=True)
signal.pause()
"""


def test_the_lock_dies_with_its_owner_not_with_the_workers(tmp_path: Path) -> None:
    path = tmp_path / "writer.lock"
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER, str(path)], stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None
    worker = int(owner.stdout.readline())
    try:
        assert is_locked(path)
        owner.kill()
        owner.communicate()
        os.kill(worker, 0)  # still there
        assert not is_locked(path)
        WriterLock(path).release()
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_lock_that_is_thrown_away_is_free(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "claim.lock")
    del lock
    assert not is_locked(tmp_path / "claim.lock")


def test_a_tracker_that_is_thrown_away_lets_its_run_go(tmp_path: Path) -> None:
    def track(**options: bool) -> rote.Tracker:
        model = torch.nn.Linear(4, 3)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        inputs = torch.ones(8, 4)
        return rote.track(
            model, optimizer, inputs=inputs, num_classes=3, save_to=tmp_path / "run", **options
        )

    tracker = track()
    tracker.probe()
    del tracker
    gc.collect()
    assert len(track(resume=True).readings) == 1
