"""Files of a run: held open, read, replaced whole, locked, and checked against their checksums."""

import errno
import os
import socket
import stat
import time
import warnings
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from zlib import crc32

from rote.errors import CorruptRunError, RoteWarning, RunLockedError, StoreError
from rote.store.posix_calls import (
    BINARY,
    NO_FOLLOW,
    NO_WAIT,
    call_in_forks,
    lock_file,
    open_folder,
    unlock_file,
)

SWITCH = "ROTE_FSYNC"
"""The environment variable that disables waiting for the disk: ``ROTE_FSYNC=0``."""


SYNC_SECONDS = 1.0
"""Files of a run are synced at most this often; a power cut can take the readings since then."""


class SyncClock:
    """Decides when files that are written together are synced: at most once per second."""

    def __init__(self) -> None:
        self._last = -SYNC_SECONDS

    def is_due(self) -> bool:
        """Return whether the last sync was at least a second ago; if so, count this as a sync."""
        now = time.monotonic()
        if now - self._last < SYNC_SECONDS:
            return False
        self._last = now
        return True


class HeldFile:
    """An open file for writing that notices if it was removed or replaced.

    Args:
        path: created if absent.
        flags: further flags for ``os.open``.
    """

    def __init__(self, path: Path, flags: int = 0) -> None:
        self.path = path.absolute()  # the process may go to another directory
        self.number = os.open(self.path, os.O_WRONLY | os.O_CREAT | BINARY | flags, 0o644)
        self._closing = weakref.finalize(self, os.close, self.number)

    def check(self) -> None:
        """Check that the file still lies at its path.

        Raises:
            StoreError: if the file was removed or replaced.
        """
        check_in_place(self.path, self.number)

    def sync(self) -> None:
        """Wait until all written bytes are on the disk."""
        sync(self.number)

    def close(self) -> None:
        """Close the file."""
        self._closing()


def check_in_place(path: Path, number: int) -> None:
    """Check that an open file still lies at its path.

    Raises:
        StoreError: if it was removed or replaced.
    """
    try:
        found = os.stat(path)  # noqa: PTH116  # beside fstat
    except OSError as error:
        raise _make_missing_error(path, error.strerror or "nothing") from error
    if not os.path.samestat(found, os.fstat(number)):
        raise _make_missing_error(path, "another file")


def sync(number: int) -> None:
    """Wait until all bytes written to an open file are on the disk, unless disabled."""
    if os.environ.get(SWITCH, "1") != "0":
        os.fsync(number)


def sync_folder(path: Path) -> None:
    """Wait until the names in a folder are on the disk, where the file system can do that."""
    folder = open_folder(path)
    if folder is None:
        return
    try:
        sync(folder)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(folder)


def make_folders(path: Path) -> None:
    """Make a folder and its parents, if absent, such that they survive a power cut."""
    absent = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in absent:
        sync_folder(folder.parent)


def _make_missing_error(path: Path, found: str) -> StoreError:
    return StoreError(
        f"{path} was removed or replaced while this process writes it ({found}). The run in "
        "memory is complete: write it to another directory."
    )


def open_plain(path: Path | str) -> tuple[int, int]:
    """Open a file and return its descriptor, which the caller closes, and its size.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | BINARY | NO_WAIT)  # a pipe must not wait
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        return file, found.st_size
    os.close(file)
    raise CorruptRunError(f"{path} is not a regular file.")


def read_plain(path: Path | str) -> bytes:
    """Return the content of a file.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be read.
    """
    file, size = open_plain(path)
    try:
        return b"".join(read_blocks(file, size + 1))
    finally:
        os.close(file)


def read_blocks(file: int, size: int) -> Iterator[bytes]:
    """Yield what is left of a file, ``size`` bytes at a time."""
    while block := os.read(file, size):
        yield block
        if len(block) < size:
            break  # as reads do at the end only


@contextmanager
def replace_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """Open a file to write beside its place, and move it there at the end of the block.

    Args:
        path: the path of the file; an existing file is replaced.
        shared: several processes may write it at once; otherwise a kill leaves one draft at most.

    Yields:
        The path of the draft: that of the file, with the suffix ``.draft`` instead. It is a new
        file: what was there, or what a link there leads to, is not written to.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    draft = path.with_suffix(f".{os.getpid()}.draft" if shared else ".draft")
    draft.unlink(missing_ok=True)
    draft.touch(exist_ok=False)
    try:
        yield draft
        with draft.open("r+b") as file:  # Windows syncs no file that was opened for reading
            sync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink()  # on a full disk half a file is in the way
        raise


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write a file whole or not at all; the arguments are those of ``replace_file``.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    with replace_file(path, shared=shared) as draft:
        draft.write_bytes(content)


_ATTEMPTS, _PAUSE = 5, 0.01  # a process that only asks (is_locked) is gone by then


_NO_LOCKS = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.ENOLCK, errno.EINVAL)
"""Errors of ``flock`` on file systems without locks, such as some network file systems."""

_OWNED = ".owner"
"""The suffix of the file that replaces a lock on such a file system."""


class WriterLock:
    """Holds a run for writing until ``release``, or until the process ends, however it ends.

    On a file system without locks a second file, which exists only while the run is held, takes
    the lock's place, with a ``RoteWarning``: a process that is killed there leaves it behind.

    Args:
        path: the lock file; it names its owner.

    Raises:
        RunLockedError: if another process holds it.
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
            raise self._make_refusal(owner)
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

    def _make_refusal(self, owner: str) -> RunLockedError:
        if owner.startswith(f"process {os.getpid()} "):
            way = "This process is writing it: close the tracker that does."
        elif self._owned is not None:
            way = f"If no process is writing it any more, delete {self._owned}."
        else:
            way = "Wait until that process ends, or give this run another directory."
        return RunLockedError(f"Run {self._path.parent} is being written by {owner}. {way}")

    def check(self) -> None:
        """Check that the lock still keeps other writers out.

        Raises:
            StoreError: if the lock file was removed or replaced.
        """
        check_in_place(self._path, self._file)

    def release(self) -> None:
        """Release the lock."""
        if not self._closing.alive:
            return  # in a forked child, which never held it
        if self._owned is not None:
            _remove_own(self._owned, os.getpid())
        else:
            # A child that was forked past Python may hold the file open; this unlocks for all.
            unlock_file(self._file)
        self._closing()

    def let_go(self) -> None:
        """Close the file without unlocking it for other processes that have it open."""
        self._closing()


_held: "weakref.WeakSet[WriterLock]" = weakref.WeakSet()


def _release_in_child() -> None:
    """Close the lock in forked workers, so that it ends with its owner."""
    for lock in list(_held):
        lock.let_go()


call_in_forks(_release_in_child)


def _remove_own(owned: Path, owner: int) -> None:
    if os.getpid() == owner:
        owned.unlink(missing_ok=True)


def _open_lock(path: Path) -> int:
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | BINARY | NO_FOLLOW, 0o644)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise StoreError(
            f"{path} is a symbolic link, whose target would be overwritten. Remove the link."
        ) from error


def _acquire(file: int) -> bool:
    for attempt in range(_ATTEMPTS):
        try:
            lock_file(file)
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
            lock_file(file.fileno(), shared=True)
    except BlockingIOError:
        return True
    except OSError as error:
        return error.errno in _NO_LOCKS and Path(f"{path}{_OWNED}").exists()
    return False


_KEY = "checksums"


def compute_checksums(contents: Mapping[str, bytes]) -> dict[str, dict[str, str]]:
    """Return the checksums of some contents for a description, by their names.

    Example:
        >>> compute_checksums({"given_labels": b"0 3 1"})
        {'checksums': {'given_labels': '25469ff4'}}
    """
    return {_KEY: {name: _compute_checksum(content) for name, content in contents.items()}}


def is_as_written(description: Mapping[str, Any], name: str, content: bytes | None) -> bool:
    """Return whether a content (None if missing) fits its checksum; True without a checksum."""
    known = description.get(_KEY)
    said = known.get(name) if isinstance(known, Mapping) else None
    return said is None or (content is not None and said == _compute_checksum(content))


def _compute_checksum(content: bytes) -> str:
    return f"{crc32(content):08x}"


def find_absent_folders(path: Path) -> list[Path]:
    """Return the missing folders that making a directory would create, innermost first."""
    return [folder for folder in (path, *path.parents) if not folder.exists()]


def remove_folders(folders: Iterable[Path]) -> None:
    """Remove empty folders; stop at the first one that is in use."""
    with suppress(OSError):
        for folder in folders:
            folder.rmdir()
