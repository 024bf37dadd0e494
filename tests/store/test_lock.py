"""One writer at a time, and a way to ask that leaves no trace."""

import errno
import fcntl
import gc
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import rote
from rote.errors import RoteWarning, RunLockedError, StoreError
from rote.store import WriterLock, is_locked


def test_querying_a_lock_names_its_holder_without_side_effects(tmp_path: Path) -> None:
    path = tmp_path / "claim.lock"
    assert not is_locked(path)
    assert not path.exists()
    lock = WriterLock(path)
    owner = path.read_bytes()
    assert is_locked(path)
    with pytest.raises(RunLockedError, match="This process is writing it: close the tracker"):
        WriterLock(path)
    lock.release()
    assert not is_locked(path)
    assert path.read_bytes() == owner
    WriterLock(path).release()


def test_a_planted_link_is_refused_and_its_target_stays(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("mine")
    for name in ("writer.lock", "claim.lock"):
        (tmp_path / name).symlink_to(target)
        with pytest.raises(StoreError, match=f"{name} is a symbolic link"):
            WriterLock(tmp_path / name)
    assert target.read_text() == "mine"


def test_without_locks_a_second_file_keeps_others_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOTSUP, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", refuse)
    path = tmp_path / "writer.lock"
    with pytest.warns(RoteWarning, match=r"has no locks.*delete that file"):
        lock = WriterLock(path)
    assert is_locked(path)
    with pytest.raises(RunLockedError, match="is being written by process"):
        WriterLock(path)
    path.write_text("process 1 on elsewhere")
    with pytest.raises(RunLockedError, match=r"delete .*writer\.lock\.owner"):
        WriterLock(path)
    lock.release()
    assert not is_locked(path)
    assert [file.name for file in tmp_path.iterdir()] == ["writer.lock"]


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


def test_lock_ends_with_its_owner_and_not_with_the_workers(tmp_path: Path) -> None:
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


def test_garbage_collected_lock_is_released(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "claim.lock")
    del lock
    assert not is_locked(tmp_path / "claim.lock")


def test_garbage_collected_tracker_releases_its_run(tmp_path: Path) -> None:
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
