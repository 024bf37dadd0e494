"""One writer per run: a lock that ends with its owner."""

import errno
import fcntl
import os
import socket
import time
import warnings
import weakref
from pathlib import Path

from rote.errors import RoteWarning, RunLockedError, StoreError
from rote.store.held_file import check_in_place

_ATTEMPTS, _PAUSE = 5, 0.01  # somebody who only asks (is_locked) is gone by then


_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)
"""What ``flock`` says where the file system has no locks, as some network ones have none."""

_OWNED = ".owner"
"""Ends the name of the file that stands for a lock on such a file system."""


class WriterLock:
    """Holds a run for writing until ``release``, or until the process ends, however it ends.

    On a file system without locks a second file, which exists only while the run is held, takes
    the lock's place, with a ``RoteWarning``: a process that is killed there leaves it behind.

    Args:
        path: the lock file; it names its owner.

    Raises:
        RunLockedError: if somebody else holds it.
        StoreError: if the path is a symbolic link, whose target would be overwritten.
    """

    def __init__(self, path: Path) -> None:
        self._path = path.absolute()
        self._owned: Path | None = None
        self._file = _open_lock(path)
        # A tracker that is thrown away in a notebook must not hold its run until the kernel ends.
        self._closing = weakref.finalize(self, os.close, self._file)
        try:
            is_held = _acquire(self._file)
        except OSError as error:
            if error.errno not in _NO_LOCKS:
                self._closing()
                raise
            is_held = self._hold_without_locks()
        if not is_held:
            owner = os.read(self._file, 200).decode(errors="replace") or "another process"
            self._closing()
            raise self._refusal(owner)
        os.ftruncate(self._file, 0)
        os.write(self._file, f"process {os.getpid()} on {socket.gethostname()}".encode())
        _held.add(self)

    def _hold_without_locks(self) -> bool:
        owned = Path(f"{self._path}{_OWNED}")
        try:
            os.close(os.open(owned, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        except FileExistsError:
            self._owned = owned
            return False
        self._owned = owned
        weakref.finalize(self, _remove_own, owned, os.getpid())
        warnings.warn(
            f"The file system of {self._path.parent} has no locks. {owned} keeps other writers "
            "out instead: if this process is killed, delete that file before you resume the run.",
            RoteWarning,
            stacklevel=4,
        )
        return True

    def _refusal(self, owner: str) -> RunLockedError:
        if owner.startswith(f"process {os.getpid()} "):
            way = "This process is writing it: close the tracker that does."
        elif self._owned is not None:
            way = f"If no process is writing it any more, delete {self._owned}."
        else:
            way = "Wait until that process ends, or give this run another directory."
        return RunLockedError(f"Run {self._path.parent} is being written by {owner}. {way}")

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
        if self._owned is not None:
            _remove_own(self._owned, os.getpid())
        else:
            # A child that was forked past Python may hold the file open; this unlocks for all.
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


def _remove_own(owned: Path, owner: int) -> None:
    if os.getpid() == owner:
        owned.unlink(missing_ok=True)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StoreError(
            f"{path} is a symbolic link, whose target would be overwritten. Remove the link."
        ) from error


def _acquire(file: int) -> bool:
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
    """Tell whether a living process holds a lock file, which need not exist; nothing is changed."""
    try:
        with path.open("rb") as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError as error:
        return error.errno in _NO_LOCKS and Path(f"{path}{_OWNED}").exists()
    return False
