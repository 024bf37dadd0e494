"""Calls that only POSIX systems have, and what replaces them on Windows (docs/windows.md)."""

import errno
import os
from collections.abc import Callable

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

BINARY = getattr(os, "O_BINARY", 0)
"""Flag of ``os.open`` for bytes as they are; only Windows translates line ends without it."""

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
"""Flag of ``os.open`` to refuse symbolic links."""

NO_WAIT = getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags of ``os.open`` not to wait for the other end of a pipe, and to close in new programs."""

_FOLDER = getattr(os, "O_DIRECTORY", None)


def lock_file(file: int, *, shared: bool = False) -> None:
    """Lock an open file until it is closed or the process ends, without waiting.

    Raises:
        BlockingIOError: if another process has locked it.
        OSError: if the file system or the operating system has no such locks.
    """
    if fcntl is None:
        raise OSError(errno.ENOTSUP, "No locks that end with their process")
    fcntl.flock(file, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)


def unlock_file(file: int) -> None:
    """Unlock a file for all processes that have it open from the same call."""
    if fcntl is not None:
        fcntl.flock(file, fcntl.LOCK_UN)


def open_folder(path: os.PathLike[str]) -> int | None:
    """Open a folder to sync it; return None where folders cannot be opened."""
    return None if _FOLDER is None else os.open(path, os.O_RDONLY | _FOLDER)


def write_at(file: int, data: bytes, position: int) -> int:
    """Write at a position, and return how many bytes were written."""
    if hasattr(os, "pwrite"):
        return os.pwrite(file, data, position)
    os.lseek(file, position, os.SEEK_SET)
    return os.write(file, data)


def call_in_forks(function: Callable[[], None]) -> None:
    """Call a function in every process that is forked from this one, where processes fork."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=function)
