"""Files to read: no pipe or device, which may never end, and many of them at little cost."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from rote.errors import CorruptRunError


def open_plain(path: Path | str) -> tuple[int, int]:
    """The descriptor of a file, which the caller closes, and its size.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be opened.
    """
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a pipe must not wait
    found = os.fstat(file)
    if stat.S_ISREG(found.st_mode):
        return file, found.st_size
    os.close(file)
    raise CorruptRunError(f"Expected {path} to be a file, got something else.")


def read_plain(path: Path | str) -> bytes:
    """What a file holds.

    Raises:
        CorruptRunError: if it is something else.
        OSError: if it cannot be read.
    """
    file, size = open_plain(path)
    try:
        return b"".join(blocks(file, size + 1))
    finally:
        os.close(file)


def blocks(file: int, size: int) -> Iterator[bytes]:
    """What is left of a file, ``size`` bytes at a time."""
    while block := os.read(file, size):
        yield block
        if len(block) < size:
            break  # as reads do at the end only
