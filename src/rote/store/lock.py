"""One writer per run: a lock that dies with its owner."""

import fcntl
import os
import socket
import time
import weakref
from pathlib import Path

from rote.errors import RunLockedError

_ATTEMPTS, _PAUSE = 5, 0.01  # somebody who only asks (is_locked) is gone by then


class WriterLock:
    """Holds a run for writing until ``release``, or until the process ends, however it ends.

    Args:
        path: the lock file; it names its owner.

    Raises:
        RunLockedError: if somebody else holds it.
    """

    def __init__(self, path: Path) -> None:
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

    def release(self) -> None:
        """Let others write."""
        # A forked child holds the file open, too; only this ends the lock for all.
        fcntl.flock(self._file, fcntl.LOCK_UN)
        self._closing()


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
