"""The journals of many runs as one frame: by polars, and line by line only where that fails."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError
from rote.store.journal import parse_line, read_lines, torn_line
from rote.store.schema import (
    NO_LIMIT,
    READING_COLUMNS,
    RESERVED,
    SCHEMA_VERSION,
    check_version,
    still_count,
)

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

_BATCH = 16 << 20
"""Bytes handed to polars at a time: few calls, and blocks that the allocator uses again."""

_AHEAD = 2
"""Batches that are parsed while the next one is fetched."""

_FEW_LINES = 64
_MARKER_KEYS = 3


@dataclass(frozen=True)
class _Piece:
    """Whole lines of one journal, each with its newline."""

    run: int
    path: Path
    data: bytes
    first_line: int
    lines: int


def read_journals(journals: Sequence[Path]) -> pl.DataFrame:
    """Every reading that counts, in order.

    Args:
        journals: one file per run; one that does not exist has no readings.

    Returns:
        The columns of a reading, its metrics by name, ``run`` (the position in ``journals``) and
        ``row`` (which reading of the run it is, from 0). A value that is missing, or was not
        finite, is null.

    Raises:
        CorruptRunError: if a line is damaged.
    """
    import polars as pl

    frames = [frame for found in _read_ahead(_batches(_pieces(journals))) for frame in found]
    empty = pl.DataFrame(schema={name: _type(name) for name in ("run", "kind", *READING_COLUMNS)})
    frame = pl.concat([empty, *frames], how="diagonal")
    frame = _readings_that_count(frame, journals)
    row = _position_in_run(frame["run"].to_numpy())
    metrics = sorted(set(frame.columns) - RESERVED - {"run"})
    return frame.select("run", pl.Series("row", row), *READING_COLUMNS, *metrics)


def _pieces(journals: Sequence[Path]) -> Iterator[_Piece]:
    for run, path in enumerate(journals):
        line = 1
        for data in _whole_lines(path):
            count = data.count(b"\n")
            yield _Piece(run, path, data, line, count)
            line += count


def _whole_lines(path: Path) -> Iterator[bytes]:
    rest = b""
    try:
        with path.open("rb", buffering=0) as file:
            # Room for a whole batch in every small file would cost more than reading it.
            size = min(os.fstat(file.fileno()).st_size + 1, _BATCH)
            while block := file.read(size):
                end = block.rfind(b"\n") + 1
                if end:
                    yield rest + block[:end]
                    rest = b""
                rest += block[end:]
    except FileNotFoundError:
        return
    if rest:
        yield rest + b"\n"


def _batches(pieces: Iterable[_Piece]) -> Iterator[list[_Piece]]:
    batch: list[_Piece] = []
    size = 0
    for piece in pieces:
        if batch and size + len(piece.data) > _BATCH:
            yield batch
            batch, size = [], 0
        batch.append(piece)
        size += len(piece.data)
    if batch:
        yield batch


def _read_ahead(batches: Iterable[list[_Piece]]) -> Iterator[list[pl.DataFrame]]:
    """Every batch in order; while polars is at some of them, the next is fetched from disk."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        under_way: deque[Future[list[pl.DataFrame]]] = deque()
        for batch in batches:
            under_way.append(pool.submit(_read, batch))
            if len(under_way) > _AHEAD:
                yield under_way.popleft().result()
        yield from (found.result() for found in under_way)


def _read(pieces: list[_Piece]) -> list[pl.DataFrame]:
    frame = _read_at_once(pieces)
    if frame is not None:
        return [frame]
    if len(pieces) == 1 and pieces[0].lines <= _FEW_LINES:
        return [_read_by_line(pieces[0])]
    # One bad line must not make a million others slow: close in on it.
    halves = pieces if len(pieces) > 1 else _split(pieces[0])
    middle = len(halves) // 2
    return _read(halves[:middle]) + _read(halves[middle:])


def _split(piece: _Piece) -> list[_Piece]:
    data = piece.data
    cut = data.rfind(b"\n", 0, len(data) // 2) + 1 or data.index(b"\n") + 1
    lines = data.count(b"\n", 0, cut)
    later = piece.first_line + lines
    return [
        _Piece(piece.run, piece.path, data[:cut], piece.first_line, lines),
        _Piece(piece.run, piece.path, data[cut:], later, piece.lines - lines),
    ]


def _read_at_once(pieces: list[_Piece]) -> pl.DataFrame | None:
    """The lines as polars reads them, or None if anything about them is odd."""
    import polars as pl

    keys = [_keys_of_first_line(piece) for piece in pieces]
    data = b"".join(piece.data for piece in pieces)
    lines = [piece.lines for piece in pieces]
    try:
        frame = _parse(data, dict.fromkeys(chain.from_iterable(keys)))
        if len(frame) != sum(lines):
            return None
        expected = np.repeat([len(names) for names in keys], lines)
        expected[(frame["kind"] == "resume").fill_null(value=False).to_numpy()] = _MARKER_KEYS
        if not _is_complete(frame, data, int(expected.sum())):
            frame = _parse(data, pl.read_ndjson(data, infer_schema_length=None).columns)
    except pl.exceptions.PolarsError:
        return None
    versions = frame["schema"]
    if versions.null_count() or not versions.is_between(1, SCHEMA_VERSION).all():
        return None
    run = np.repeat(np.array([piece.run for piece in pieces], dtype=np.int64), lines)
    # What polars parses into has room for twice as much.
    return frame.with_columns(pl.Series("run", run)).shrink_to_fit()


def _keys_of_first_line(piece: _Piece) -> tuple[str, ...]:
    try:
        return tuple(json.loads(piece.data[: piece.data.index(b"\n")]))
    except (ValueError, TypeError):
        return ()


def _parse(data: bytes, names: Iterable[str]) -> pl.DataFrame:
    import polars as pl

    schema = {name: _type(name) for name in ("schema", "kind", *names)}
    if "flags" not in schema:
        return pl.read_ndjson(data, schema=schema)
    # A list is by far the slowest column to read, and nearly always empty: first as a text.
    frame = pl.read_ndjson(data, schema=schema | {"flags": pl.String})
    return frame.with_columns(pl.col("flags").str.json_decode(_type("flags")))


def _is_complete(frame: pl.DataFrame, data: bytes, keys: int) -> bool:
    """Whether no line has a key that is not a column, which polars would pass over.

    There are as many colons as there should be keys, and as many nulls as there are written ones
    and absent keys; a key too many would upset one or the other.
    """
    if np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord(":")) != keys:
        return False
    absent = frame.height * frame.width - keys
    nulls: int = sum(frame.null_count().row(0))
    return nulls == absent or nulls == absent + data.count(b":null")


def _read_by_line(piece: _Piece) -> pl.DataFrame:
    import polars as pl

    rows: list[dict[str, Any]] = []
    for number, raw in enumerate(piece.data.split(b"\n"), start=piece.first_line):
        if raw:
            rows.append(_row(raw, number, piece.path) | {"run": piece.run})
    names = dict.fromkeys(chain(("run", "kind"), chain.from_iterable(rows)))
    return pl.DataFrame(rows, schema={name: _type(name) for name in names})


def _row(raw: bytes, number: int, path: Path) -> dict[str, Any]:
    line, where = parse_line(raw), f"line {number} of {path}"
    if line is None:
        warnings.warn(torn_line(number, path), stacklevel=2)
        return {"kind": "torn"}
    check_version(line.get("schema"), where)
    kind = line.get("kind")
    names = [name for name in line if name in READING_COLUMNS or name not in RESERVED]
    if kind != "reading":
        names = ["step"] if kind == "resume" and "step" in line else []
    return {"kind": str(kind)} | {name: _value(name, line[name], where) for name in names}


def _value(name: str, value: Any, where: str) -> Any:  # noqa: ANN401
    if name == "flags":
        return [str(flag) for flag in value]
    if value is None:
        return None
    if not isinstance(value, int | float) or (name == "step" and value != int(value)):
        raise CorruptRunError(f"Expected `{name}` in {where} to be a number, got {value!r}.")
    if name == "step":
        return int(value)
    return float(value) if math.isfinite(value) else None


def _type(name: str) -> Any:  # noqa: ANN401
    import polars as pl

    types = {"kind": pl.String, "flags": pl.List(pl.String)}
    whole = {"schema", "step", "run"}
    return pl.Int64 if name in whole else types.get(name, pl.Float64)


def _readings_that_count(frame: pl.DataFrame, journals: Sequence[Path]) -> pl.DataFrame:
    """Without markers, torn lines, and the readings that a later marker declares void."""
    import polars as pl

    if frame["step"].null_count() == 0 and (frame["kind"] == "reading").all():
        return frame
    kind, step = pl.col("kind"), pl.col("step")
    whole = pl.when(kind.ne_missing("torn")).then(kind.fill_null(""))
    next_whole = whole.backward_fill().over("run")
    is_damaged = (kind == "torn") & next_whole.is_not_null() & (next_whole != "resume")
    has_no_step = kind.is_in(["reading", "resume"]) & step.is_null()
    for run in frame.filter(is_damaged | has_no_step)["run"]:
        _refuse(journals[run])
    is_resume = (frame["kind"] == "resume").fill_null(value=False).to_numpy()
    counts = (frame["kind"] == "reading").fill_null(value=False).to_numpy().copy()
    run, steps = frame["run"].to_numpy(), frame["step"].fill_null(0).to_numpy()
    limits = np.where(is_resume, steps, NO_LIMIT)
    for resumed in np.unique(run[is_resume]):
        rows = slice(*np.searchsorted(run, [resumed, resumed + 1]))
        counts[rows] &= still_count(steps[rows], limits[rows])
    return frame.filter(counts)


def _position_in_run(run: np.ndarray) -> np.ndarray:
    position = np.arange(len(run))
    is_first = np.append(True, run[1:] != run[:-1])[: len(run)]
    return position - np.maximum.accumulate(np.where(is_first, position, 0))


def _refuse(path: Path) -> None:
    read_lines(path)
    raise CorruptRunError(f"Expected every line of {path} to have a step, got one without.")
