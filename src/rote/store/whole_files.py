"""Files that are there whole or not at all, whenever a kill or a power cut comes."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rote.store.held_file import sync, sync_folder


@contextmanager
def whole_file(path: Path, *, shared: bool = False) -> Iterator[Path]:
    """A file to write beside its place; when the block is over, it is moved there.

    Args:
        path: its place; what is there is replaced.
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
        with draft.open("rb") as file:
            sync(file.fileno())
        draft.replace(path)
        sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            draft.unlink()  # on a full disk half a file is in the way
        raise


def write_whole(path: Path, content: bytes, *, shared: bool = False) -> None:
    """Write a file whole or not at all; the arguments are those of ``whole_file``.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    with whole_file(path, shared=shared) as draft:
        draft.write_bytes(content)
