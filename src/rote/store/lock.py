"""One writer per run: a lock that dies with its owner."""

import fcntl
import os
import socket
import time
import weakref
from pathlib import Path

from rote.errors import RunLockedError
from rote.store.held_file import check_in_place

_ATTEMPTS, _PAUSE = 5, 0.01  # somebody who only asks (is_locked) is gone by then


class WriterLock:
    """Holds a run for writing until ``release``, or until the process ends, however it ends.

    Args:
        path: the lock file; it names its owner.

    Raises:
        RunLockedError: if somebody else holds it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        # A tracker that is thrown away in a notebook must not hold its run until the kernel ends.
        self._closing = weakref.finalize(self, os.close, self._file)
        if not _acquired(self._file):
            owner = os.read(self._file, 200).decode(errors="replace") or "another process"
            self._closing()
            is_own = owner.startswith(f"process {os.getpid()} ")
            raise RunLockedError(
                f"Expected {path.parent} to be free for writing, got a run that {owner} is "
                + (
                    "writing: this very process. Close the tracker that does."
                    if is_own
                    else "writing. Wait until it ends, or give this run another directory."
                )
            )
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        _held.add(self)

    def check(self) -> None:
        """See whether it still keeps others away.

        Raises:
            StoreError: if the lock file was removed or replaced.
        """
        check_in_place(self._path, self._file)

    def release(self) -> None:
        """Let others write."""
        if not self._closing.alive:
            return  # in a forked child, which never had it
        # A child that was forked past Python may hold the file open; this ends the lock for all.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._closing()

    def let_go(self) -> None:
        """Close the file and leave the lock to those who have it open, too."""
        self._closing()


_held: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _let_go_in_child() -> None:
    """A lock must die with its owner, not with the last worker that the owner forked off."""
    for lock in list(_held):
        lock.let_go()


os.register_at_fork(after_in_child=_let_go_in_child)


def _acquired(file: int) -> bool:
    for attempt in range(_ATTEMPTS):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if attempt + 1 < _ATTEMPTS:
                time.sleep(_PAUSE)
        else:
            return True
    return False


def is_locked(path: Path) -> bool:
    """Whether a living process holds a lock file, which need not exist; asking leaves no trace."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False
