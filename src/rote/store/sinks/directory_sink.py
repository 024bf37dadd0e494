"""A run directory as a sink."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError
from rote.records import Reading
from rote.store.run_directory import RunDirectory, read_description, read_predictions, read_run
from rote.store.sinks.sink import Opened


def open_directory(path: Path, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a new directory, or go on with the one in it.

    Args:
        path: the directory.
        description: what is run.
        resume: go on.

    Raises:
        InputError: if the directory cannot be written, or has no run to go on with.
        RunExistsError: if it is in use.
        RunLockedError: if another process is writing it.
        CorruptRunError: if the run to go on with is damaged.
    """
    if not resume:
        named = {**description, "name": description.get("name") or path.name}
        return Opened(RunDirectory.create(path, named), str(path))
    run = RunDirectory.reopen(path)
    try:
        return Opened(run, str(path), read_description(path), _held(path))
    except BaseException:
        run.close()
        raise


def _held(path: Path) -> tuple[Reading, ...]:
    record = read_run(path)
    predictions = read_predictions(record)
    if predictions is None:
        return record.readings
    if len(predictions) != len(record.readings):
        raise CorruptRunError(
            f"Expected {path} to hold predictions for {len(record.readings)} readings, got "
            f"{len(predictions)}. Restore its files from a copy, or start a new run."
        )
    rows = zip(record.readings, predictions, strict=True)
    return tuple(replace(reading, predictions=row) for reading, row in rows)
