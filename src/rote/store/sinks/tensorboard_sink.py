"""TensorBoard as a sink: an event file of rote's own."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RunExistsError
from rote.store.formats.event_file import (
    SUFFIX,
    EventFile,
    description_event,
    event_files,
    line_event,
    restart_event,
)
from rote.store.formats.event_run import read_event_run
from rote.store.formats.lines import readings_of
from rote.store.schema import SCHEMA_VERSION, line_of_reading, line_of_resume
from rote.store.sinks.directory_sink import absent_folders, remove_folders
from rote.store.sinks.sink import Opened

if TYPE_CHECKING:
    from rote.records import Reading
    from rote.store.address import Address


class TensorboardSink:
    """Logs readings to an event file.

    Args:
        directory: of the run.
    """

    def __init__(self, directory: Path) -> None:
        # Dropping later steps from view would also drop those of another writer.
        self._is_alone = not directory.exists() or all(map(_is_ours, event_files(directory)))
        self._folders = absent_folders(directory)
        self._file = EventFile(directory)

    def describe(self, description: Mapping[str, Any]) -> None:
        """Log what is run."""
        self._file.write(**description_event({"schema": SCHEMA_VERSION, **description}))

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        """Log one reading."""
        self._file.write(**line_event(line_of_reading(reading)))

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count, and make TensorBoard drop them."""
        if self._is_alone:
            self._file.write(**restart_event(step))
        self._file.write(**line_event(line_of_resume(step)))

    def close(self) -> None:
        """Give the file back."""
        self._file.close()

    def discard(self) -> None:
        """Leave no file, and no folder that was made for it."""
        self._file.close()
        self._file.path.unlink(missing_ok=True)
        remove_folders(self._folders)


def open_tensorboard(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a directory, or go on with the one in it.

    Args:
        address: the log directory.
        description: what is run; a run with a name has a directory of that name.
        resume: go on.

    Raises:
        InputError: if no directory is named, it cannot be written, or has no run to go on with.
        RunExistsError: if it has a run of rote's already.
        CorruptRunError: if the run to go on with is damaged.
    """
    if not address.place:
        raise InputError("Expected `save_to` to be tensorboard:LOGDIR, got no directory.")
    name = description.get("name")
    directory = address.path / name.lstrip("/") if name else address.path
    try:
        _check_use(directory, resume=resume)
        earlier = read_event_run(directory) if resume else None
        sink = TensorboardSink(directory)
        if earlier is None:
            _describe(sink, {**description, "name": name or address.path.absolute().name})
    except RunExistsError:
        raise
    except OSError as error:
        raise InputError(
            f"Expected `save_to` to be a writable directory, got {directory}: {error}."
        ) from error
    place = f"TensorBoard run {directory}"
    if earlier is None:
        return Opened(sink, place, undo=sink.discard)
    held = readings_of(earlier.lines or ())
    return Opened(sink, place, earlier.description, held, undo=sink.discard)


def _describe(sink: TensorboardSink, description: Mapping[str, Any]) -> None:
    try:
        sink.describe(description)
    except BaseException:
        sink.discard()
        raise


def _check_use(directory: Path, *, resume: bool) -> None:
    is_used = directory.is_dir() and any(map(_is_ours, event_files(directory)))
    if is_used and not resume:
        raise RunExistsError(
            f"Expected `save_to` to be a new run, got {directory}, which is in use. Choose another "
            "name, or pass resume=True to go on with the run in it."
        )
    if resume and not is_used:
        raise InputError(
            f"Expected `save_to` to be a run to resume, got {directory} without an event file of "
            "rote's. Pass resume=False to start a new run there."
        )


def _is_ours(path: Path) -> bool:
    return path.name.endswith(SUFFIX)
