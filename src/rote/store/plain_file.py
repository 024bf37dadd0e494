"""Files to read: no pipe or device, which may never end, and many of them at little cost."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rote.errors import CorruptRunError


@contextmanager
def opened(path: Path | str) -> Iterator[tuple[int, int]]:
    """The descriptor and the size of a file.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not wait
    try:
        found = os.fstat(file)
        if not stat.S_ISREG(found.st_mode):
            raise CorruptRunError(f"Expected {path} to be a file, got something else.")
        yield file, found.st_size
    finally:
        os.close(file)


def read_plain(path: Path | str) -> bytes:
    """What a file holds.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be read.
    """
    with opened(path) as (file, size):
        return b"".join(blocks(file, size + 1))


def blocks(file: int, size: int) -> Iterator[bytes]:
    """What is left of a file, ``size`` bytes at a time."""
    while block := os.read(file, size):
        yield block
        if len(block) < size:
            break  # as reads do at the end only
