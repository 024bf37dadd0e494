"""One writer at a time, and a way to ask that leaves no trace."""

from pathlib import Path

import pytest

from rote.errors import RunLockedError
from rote.store.lock import WriterLock, is_locked


def test_asking_says_who_holds_it_and_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "claim.lock"
    assert not is_locked(path)
    assert not path.exists()
    lock = WriterLock(path)
    owner = path.read_bytes()
    assert is_locked(path)
    with pytest.raises(RunLockedError, match="is writing"):
        WriterLock(path)
    lock.release()
    assert not is_locked(path)
    assert path.read_bytes() == owner
    WriterLock(path).release()
