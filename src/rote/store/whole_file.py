"""Files that are there whole or not at all, whenever a kill comes."""

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside its place, then move it there: whole or not at all.

    Args:
        path: its place; what is there is replaced. The draft has the suffix ``.draft`` instead.
        content: all of it.

    Raises:
        OSError: if it cannot be written; what was there before is still there.
    """
    draft = path.with_suffix(".draft")
    draft.write_bytes(content)
    draft.replace(path)
