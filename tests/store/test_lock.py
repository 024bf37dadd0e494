"""One writer at a time, and a way to ask that leaves no trace."""

import gc
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
