"""Reading of a run: its description, the readings that count, and their rows per sample."""

from __future__ import annotations

import gc
import json
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rote.errors import CorruptRunError, DamagedRowsWarning, InputError
from rote.records import Reading, RunRecord
from rote.store.files import is_as_written, read_plain, write_whole
from rote.store.journal import (
    ALWAYS_NUMBERS,
    GIVEN_LABELS,
    READING_COLUMNS,
    ROW_CHECK,
    SYNCED_ROWS,
    check_version,
    collect_row_checks,
    decode_reading,
    is_reserved,
    read_counted,
)
from rote.store.row_file import (
    PREDICTIONS,
    RowLayout,
    are_classes,
    find_damaged_row,
    get_row_path,
    map_rows,
    parse_row_layouts,
)

if TYPE_CHECKING:
    import polars as pl

_LONG = 1 << 20
"""Bytes of a journal from which on it pays to load polars."""

RUN_FILE = "run.json"
JOURNAL_FILE = "journal.jsonl"
PREDICTIONS_FILE = "predictions.bin"
CHECKPOINT_FOLDER = "checkpoints"
CHECKPOINTS_FILE = "checkpoints.json"
"""The file that maps steps to weights, for a run whose weights lie elsewhere."""

_SAVED_AS = ("safetensors", "pt", "pth", "ckpt")


def read_run(path: Path | str) -> RunRecord:
    """Read a run, finished or not; it may be being written.

    Args:
        path: its directory.

    Returns:
        The description and every reading that counts; predictions are read by
        ``read_predictions``.

    Raises:
        CorruptRunError: if a file is damaged, or there is no run.

    Example:
        >>> import tempfile, torch, rote
        >>> model, folder = torch.nn.Linear(4, 3), tempfile.mkdtemp() + "/a"
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> tracker = rote.track(model, optimizer, inputs=torch.randn(16, 4), num_classes=3,
        ...     save_to=folder)
        >>> reading = tracker.probe(train_accuracy=0.5)
        >>> read_run(folder).readings[0].train_accuracy
        0.5
    """
    path = Path(path)
    description = read_description(path)
    read_row_layouts(path, description)
    found = _read_fast(path / JOURNAL_FILE) or _read_by_line(path / JOURNAL_FILE)
    return RunRecord(path, description, *found)


class _Readings(NamedTuple):
    """The content of a journal, in the order of the fields of a ``RunRecord``."""

    readings: tuple[Reading, ...]
    rows: tuple[int, ...]
    row_checks: Mapping[str, Sequence[float | None]]
    synced_rows: int


def _read_by_line(journal: Path) -> _Readings:
    counted = read_counted(journal)
    return _Readings(
        tuple(decode_reading(line) for line in counted),
        tuple(line["row"] for line in counted),
        collect_row_checks(counted),
        counted[-1].get(SYNCED_ROWS, 0) if counted else 0,
    )


def _read_fast(journal: Path) -> _Readings | None:
    """Read a long journal as a table; None if it is short, or anything about it is odd.

    A million lines one by one would take minutes. What counts is decided as for short ones.
    """
    if not journal.is_file() or journal.stat().st_size < _LONG:
        return None
    from rote.store.journal_frame import read_plain_journal

    frame = read_plain_journal(journal)
    return None if frame is None else _convert_frame(frame)


@contextmanager
def pause_garbage_collection() -> Iterator[None]:
    """Pause garbage collection in a block that makes a million objects, all of which stay."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@pause_garbage_collection()
def _convert_frame(frame: pl.DataFrame) -> _Readings:
    columns = {name: frame[name].to_list() for name in frame.columns}
    checks = {
        name.removeprefix(ROW_CHECK): tuple(columns.pop(name))
        for name in frame.columns
        if name.startswith(ROW_CHECK)
    }
    rows, synced = tuple(columns.pop("row")), columns.pop(SYNCED_ROWS)
    del columns["run"]
    columns["flags"] = [tuple(flags) for flags in columns["flags"]]
    for name in ALWAYS_NUMBERS:
        columns[name] = [math.nan if value is None else value for value in columns[name]]
    metrics = {name: columns.pop(name) for name in list(columns) if not is_reserved(name)}
    measured = (
        [dict(zip(metrics, values, strict=True)) for values in zip(*metrics.values(), strict=True)]
        if metrics
        else [{} for _ in rows]
    )
    # In the order of the fields: by keyword it would take half as long again.
    in_order = [columns[name] for name in READING_COLUMNS]
    readings = tuple(Reading(*values) for values in zip(*in_order, measured, strict=True))
    return _Readings(readings, rows, checks, synced[-1] or 0 if synced else 0)


def read_description(path: Path | str) -> dict[str, Any]:
    """Return the contents of ``run.json``.

    Raises:
        CorruptRunError: if it is missing or damaged.
    """
    file = f"{path}/{RUN_FILE}"
    try:
        description = json.loads(read_plain(file))
    except (OSError, ValueError, RecursionError) as error:
        raise CorruptRunError(
            f"{file} does not describe a run: {error}. Check the path."
        ) from error
    if not isinstance(description, dict):
        raise CorruptRunError(f"Expected {file} to hold an object, got {description!r:.80}.")
    check_version(description.get("schema"), file)
    labels = description.get(GIVEN_LABELS)
    if not is_as_written(description, GIVEN_LABELS, str(labels).encode(errors="replace")):
        raise CorruptRunError(
            f"`{GIVEN_LABELS}` in {file} were changed after they were written. Restore the file "
            "from a copy."
        )
    return description


def read_predictions(run: RunRecord) -> np.ndarray | None:
    """Return the predicted classes of the holdout, one row per reading; None if not recorded.

    Args:
        run: as ``read_run`` returns it.

    Returns:
        Readings × samples of the holdout, or None.

    Example:
        >>> import tempfile, torch, rote
        >>> model, folder = torch.nn.Linear(4, 3), tempfile.mkdtemp() + "/a"
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> tracker = rote.track(model, optimizer, inputs=torch.randn(150, 4), num_classes=3,
        ...     save_to=folder)
        >>> reading = tracker.probe()
        >>> read_predictions(read_run(folder)).shape
        (1, 150)
    """
    return read_rows(run, PREDICTIONS)


def read_rows(run: RunRecord, name: str) -> np.ndarray | None:
    """Return what was recorded per sample, one row per reading.

    Returns:
        Shape (readings, *row), without rows that were never written; None if there are none of
        that name.

    Raises:
        CorruptRunError: if the description of the rows is damaged, a row is not as it was written,
            or a predicted class is none.
    """
    layout = read_row_layouts(run.path, run.description).get(name)
    file = get_row_path(run.path, name)
    if layout is None:
        return None
    rows, mapped = run.rows, map_rows(file, layout)
    damaged = find_damaged_row(mapped, rows, run.row_checks.get(name, ()))
    if damaged is not None and damaged >= run.synced_rows:
        warnings.warn(make_lost_rows_warning(file, damaged), stacklevel=2)
        rows = rows[: rows.index(damaged)]
    elif damaged is not None:
        raise CorruptRunError(
            f"Row {damaged} of {file} was changed after it was written, or is missing. Restore "
            "the file from a copy, or start a new run."
        )
    if mapped is None:
        return np.empty((0, *layout.shape), layout.dtype) if file.is_file() else None
    found = np.asarray(mapped[[row for row in rows if row < len(mapped)]])
    if name == PREDICTIONS and not are_classes(found, run.description):
        raise CorruptRunError(
            f"Expected {file} to hold classes below {run.description['num_classes']}, got "
            f"{found.max()}. Restore it from a copy."
        )
    return found


def make_lost_rows_warning(file: Path, first: int) -> DamagedRowsWarning:
    """Return the warning about rows that were written less than a second before a power cut."""
    return DamagedRowsWarning(
        f"The rows of {file} from row {first} on were lost, as in a power cut. Resume the run to "
        "take these readings again."
    )


def read_row_layouts(path: Path, description: Mapping[str, Any]) -> dict[str, RowLayout]:
    """Return the row files of a run that is on disk.

    Raises:
        CorruptRunError: if their description is damaged.
    """
    try:
        return parse_row_layouts(description)
    except InputError as error:
        raise CorruptRunError(f"{path / RUN_FILE} is damaged: {error}") from error


def get_checkpoint_path(run: Path | str, step: int) -> Path:
    """Return where a run of a spec keeps the weights after an epoch."""
    return Path(run) / CHECKPOINT_FOLDER / f"step-{step:05d}.safetensors"


def name_checkpoints(run: Path, files: Mapping[int, Path]) -> None:
    """Record the paths of a run's weights, by step, for ``find_checkpoint``.

    Raises:
        OSError: if it cannot be written.
    """
    steps = {str(step): str(file.resolve()) for step, file in files.items()}
    write_whole(run / CHECKPOINTS_FILE, (json.dumps(steps, indent=2) + "\n").encode())


def find_checkpoint(run: Path, step: int) -> Path | None:
    """Find the weights after a step of a run: a file, or a trainer's folder, or None.

    A file ``step-7.pt`` that a user's own loop saves in the run's folder is found as well.
    """
    names = [f"{stem}.{end}" for end in _SAVED_AS for stem in (f"step-{step:05d}", f"step-{step}")]
    places = [folder / name for folder in (run / CHECKPOINT_FOLDER, run) for name in names]
    saved = next((place for place in places if place.is_file()), None)
    if saved is not None:
        return saved
    try:
        named = json.loads(read_plain(run / CHECKPOINTS_FILE))
        found = run / named[str(step)]
        return found if found.exists() else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # none, or damaged
        return None


def read_whole_readings(path: Path) -> tuple[Reading, ...]:
    """Read the readings of a run from the first on, with all that was recorded per sample.

    Raises:
        CorruptRunError: if a file is damaged, or there is no run.
    """
    record = _cut_at_gap(read_run(path))
    found = {name: read_rows(record, name) for name in parse_row_layouts(record.description)}
    rows = {name: values for name, values in found.items() if values is not None}
    whole = min(map(len, rows.values()), default=len(record.readings))
    if whole < min(len(record.readings), record.synced_rows):
        raise CorruptRunError(
            f"{path} holds {whole} rows for {len(record.readings)} readings. Restore its files "
            "from a copy, or start a new run."
        )
    record = replace(record, readings=record.readings[:whole])
    predictions = rows.pop(PREDICTIONS, [None] * len(record.readings))
    return tuple(
        replace(
            reading,
            predictions=predictions[at],
            sample_rows={name: values[at] for name, values in rows.items()},
        )
        for at, reading in enumerate(record.readings)
    )


def _cut_at_gap(record: RunRecord) -> RunRecord:
    """Return the readings before the first lost one; the rest must be taken again."""
    whole = next((at for at, row in enumerate(record.rows) if row != at), len(record.rows))
    return replace(record, readings=record.readings[:whole], rows=record.rows[:whole])
