"""The bytes of many journals: whole lines of each, checked as they come, in batches of many."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rote.errors import CorruptRunError
from rote.store.journal_line import FileSoFar, check_all
from rote.store.plain_file import blocks, open_plain

_BATCH = 16 << 20
"""Bytes handed to polars at a time: few calls, and blocks that the allocator uses again."""


@dataclass(frozen=True)
class Piece:
    """Whole lines of one journal, each with its newline."""

    run: int
    data: bytes
    lines: int
    is_as_written: bool
    shape: int
    """Of all its lines, if they are as they were written; otherwise 0."""


def batches_of(journals: Sequence[Path | str], odd: set[int]) -> Iterator[list[Piece]]:
    """All lines of all journals, a batch at a time.

    Args:
        journals: one file per run; one that does not exist has no lines.
        odd: the runs that cannot be read so are added to it.
    """
    return _batches(_pieces(journals, odd))


def _pieces(journals: Sequence[Path | str], odd: set[int]) -> Iterator[Piece]:
    for run, path in enumerate(journals):
        before: FileSoFar | None = FileSoFar()
        try:
            for data in _whole_lines(path):
                so_far = before and check_all(data, before)
                yield _piece(run, data, before, so_far)
                before = so_far
        except FileNotFoundError:
            continue
        except (OSError, CorruptRunError):
            odd.add(run)


def _piece(run: int, data: bytes, before: FileSoFar | None, now: FileSoFar | None) -> Piece:
    if before is not None and now is not None and now.shape:
        return Piece(run, data, now.lines - before.lines, is_as_written=True, shape=now.shape)
    return Piece(run, data, data.count(b"\n"), is_as_written=now is not None, shape=0)


def _whole_lines(path: Path | str) -> Iterator[bytes]:
    rest = b""
    file, size = open_plain(path)
    try:
        # Room for a whole batch in every small file would cost more than reading it.
        for block in blocks(file, min(size + 1, _BATCH)):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest += block[end:]
    finally:
        os.close(file)
    if rest:
        yield rest + b"\n"


def _batches(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
    batch: list[Piece] = []
    size = 0
    for piece in pieces:
        if batch and size + len(piece.data) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += len(piece.data)
    if batch:
        yield batch
