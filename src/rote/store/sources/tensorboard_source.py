"""A TensorBoard log directory as a source."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.store.formats.event_run import EventRun, read_event_run
from rote.store.sources.runs import FoundRun, SourceRuns, checkpoint, frame_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.store.address import Address
    from rote.store.sources.runs import Checkpoint


def read_tensorboard(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read every directory with event files, in or below the log directory, as one run.

    In a run that rote wrote, the readings count as in rote's own store. In any other, there is a
    checkpoint for every step at which some scalar was logged.

    Args:
        address: the log directory.
        mapping: not needed here.

    Raises:
        InputError: if there is no such directory, no event file, or one cannot be read.
        CorruptRunError: if a file is damaged.
        MissingExtraError: if TensorBoard is not installed.
    """
    root = address.path
    directories = sorted(_walk(root))
    if not address.place or not directories:
        raise InputError(
            f"Expected `runs` to be tensorboard:LOGDIR with event files, got {address.place!r}, "
            f"{'which has none' if root.is_dir() else 'which is no directory'}. Check the path."
        )
    try:
        read = [read_event_run(directory) for directory in directories]
    except OSError as error:
        raise InputError(f"Expected {address} to be readable, got: {error}.") from error
    found = [
        FoundRun(_name(directory, root, run), directory, run.description, directory)
        for directory, run in zip(directories, read, strict=True)
    ]
    return SourceRuns(found, frame_of(map(_checkpoints, read)))


def _walk(root: Path) -> Iterator[Path]:
    for directory, _, files in os.walk(root):
        if any("tfevents" in name for name in files):
            yield Path(directory)


def _name(directory: Path, root: Path, run: EventRun) -> str:
    """As rote wrote it, or as TensorBoard shows it."""
    shown = directory.relative_to(root).as_posix()
    return str(run.description.get("name") or (root.absolute().name if shown == "." else shown))


def _checkpoints(run: EventRun) -> list[Checkpoint]:
    if run.lines is not None:
        return list(run.lines)
    return [checkpoint(step, run.scalars[step]) for step in sorted(run.scalars)]
