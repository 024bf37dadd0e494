"""A file that is held open for writing: it stays where it is, and survives a power cut."""

import errno
import os
import time
import weakref
from pathlib import Path

from rote.errors import StoreError

SWITCH = "ROTE_FSYNC"
"""The environment variable that turns waiting for the disk off: ``ROTE_FSYNC=0``."""


SYNC_SECONDS = 1.0
"""Files of a run are synced at most this often; a power cut can take the readings since then."""


class SyncClock:
    """Decides when files that are written together are synced: at most once per second."""

    def __init__(self) -> None:
        self._last = -SYNC_SECONDS

    def is_due(self) -> bool:
        """Tell whether the last sync is at least a second ago; if so, this is the next one."""
        now = time.monotonic()
        if now - self._last < SYNC_SECONDS:
            return False
        self._last = now
        return True


class HeldFile:
    """A file to write to, which is noticed to be gone or another one.

    Args:
        path: created if absent.
        flags: for ``os.open``, besides those.
    """

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.path = path.absolute()  # the process may go to another directory
        self.number = os.open(self.path, os.O_WRONLY | os.O_CREAT | flags, 0o644)
        self._closing = weakref.finalize(self, os.close, self.number)

    def check(self) -> None:
        """See whether what is written would be found again.

        Raises:
            StoreError: if the file was removed or replaced.
        """
        check_in_place(self.path, self.number)

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        sync(self.number)

    def close(self) -> None:
        """Give the file back."""
        self._closing()


def check_in_place(path: Path, number: int) -> None:
    """See whether an open file still lies at its path.

    Raises:
        StoreError: if it was removed or replaced.
    """
    try:
        found = os.stat(path)  # noqa: PTH116  # beside fstat
    except OSError as error:
        raise _gone(path, error.strerror or "nothing") from error
    if not os.path.samestat(found, os.fstat(number)):
        raise _gone(path, "another file")


def sync(number: int) -> None:
    """Wait until all that was written to an open file is on the disk, unless switched off."""
    if os.environ.get(SWITCH, "1") != "0":
        os.fsync(number)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can do that."""
    folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(folder)


def make_folders(path: Path) -> None:
    """Make a folder and those above it, if absent, so that a power cut does not take them back."""
    absent = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in absent:
        sync_folder(folder.parent)


def _gone(path: Path, found: str) -> StoreError:
    return StoreError(
        f"Expected {path} to be the file that this process writes, got {found}: it was removed or "
        "replaced meanwhile. What is in memory is whole; write it to another directory."
    )
