"""The journals of many runs as one frame.

Polars reads regular journals. A run with any irregularity is read by
``read_counted``, line by line, as in ``read_run``: only that function decides what counts.
"""

from __future__ import annotations

import json
import os
import re
import warnings
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, OddJournalWarning
from rote.store.files import open_plain, read_blocks
from rote.store.journal import (
    CHECK,
    KINDS,
    NO_LIMIT,
    READING_COLUMNS,
    ROW_CHECK,
    SCHEMA_VERSION,
    SYNCED_ROWS,
    FileSoFar,
    check_all,
    is_reserved,
    mark_counted,
    read_counted,
)

if TYPE_CHECKING:
    import polars as pl


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


def read_batches(journals: Sequence[Path | str], odd: set[int]) -> Iterator[list[Piece]]:
    """Yield all lines of all journals, a batch at a time.

    Args:
        journals: one file per run; one that does not exist has no lines.
        odd: the runs that cannot be read so are added to it.
    """
    return _group_pieces(_read_pieces(journals, odd))


def _read_pieces(journals: Sequence[Path | str], odd: set[int]) -> Iterator[Piece]:
    for run, path in enumerate(journals):
        before: FileSoFar | None = FileSoFar()
        try:
            for data in _read_whole_lines(path):
                so_far = before and check_all(data, before)
                yield _make_piece(run, data, before, so_far)
                before = so_far
        except FileNotFoundError:
            continue
        except (OSError, CorruptRunError):
            odd.add(run)


def _make_piece(run: int, data: bytes, before: FileSoFar | None, now: FileSoFar | None) -> Piece:
    if before is not None and now is not None and now.shape:
        return Piece(run, data, now.lines - before.lines, is_as_written=True, shape=now.shape)
    return Piece(run, data, data.count(b"\n"), is_as_written=now is not None, shape=0)


def _read_whole_lines(path: Path | str) -> Iterator[bytes]:
    rest = b""
    file, size = open_plain(path)
    try:
        # Room for a whole batch in every small file would cost more than reading it.
        for block in read_blocks(file, min(size + 1, _BATCH)):
            end = block.rfind(b"\n") + 1
            if end:
                yield rest + block[:end]
                rest = b""
            rest += block[end:]
    finally:
        os.close(file)
    if rest:
        yield rest + b"\n"


def _group_pieces(pieces: Iterable[Piece]) -> Iterator[list[Piece]]:
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


_MOST_METRICS = 1_000
"""Columns of a table. A metric for every reading would make it grow with their square."""

_KEY = re.compile(rb'(?<=[{, ])("(?:[^"\\]|\\.)*"):')

_CACHED = 1 << 16
"""Bytes that stay in the processor's cache while they are worked on."""

_AHEAD = 2
"""Batches that are parsed while the next one is fetched."""


def read_journals(
    journals: Sequence[Path | str],
) -> tuple[pl.DataFrame, dict[int, CorruptRunError]]:
    """Return every reading that counts, in order.

    Args:
        journals: one file per run; one that does not exist has no readings.

    Returns:
        The columns of a reading, its metrics by name, ``run`` (the position in ``journals``) and
        ``row`` (which row of the row files belongs to it), ``SYNCED_ROWS``, and the checksums of
        these rows, each with ``ROW_CHECK`` before its name. A value that is missing, or was not
        finite, is null. And what is wrong with the runs that cannot be read.
    """
    import polars as pl

    odd: set[int] = set()
    batches = _read_ahead(read_batches(journals, odd), odd)
    frames = [frame for found in batches for frame in found]
    names = ("run", "kind", "schema", "row", SYNCED_ROWS, *READING_COLUMNS)
    empty = pl.DataFrame(schema={name: _get_type(name) for name in names})
    frame = _drop_void(_sort_by_run(_join_frames([empty, *frames])), odd)
    slow, damaged = _read_by_line(journals, sorted(odd))
    if slow:
        frame = _sort_by_run(_join_frames([frame, *slow]))
    metrics, checks = _find_metrics(frame.columns), _find_row_checks(frame.columns)
    return frame.select("run", "row", SYNCED_ROWS, *READING_COLUMNS, *metrics, *checks), damaged


def read_plain_journal(journal: Path) -> pl.DataFrame | None:
    """Read a journal in which nothing is odd: its readings that count, as ``read_journals`` does.

    Returns:
        None if ``read_counted`` has something to say about it, or if it cannot be told whether a
        metric is missing or NaN.
    """
    import polars as pl

    odd: set[int] = set()
    frames = [frame for found in _read_ahead(read_batches([journal], odd), odd) for frame in found]
    if (
        odd
        or not frames
        or sum(len(_find_metrics(frame.columns)) for frame in frames) > _MOST_METRICS
    ):
        return None
    if SYNCED_ROWS not in frames[0].columns:
        return None
    metrics = _find_metrics(frames[0].columns)
    frame = pl.concat(frames, how="diagonal")
    is_reading = frame["kind"] == "reading"
    if (
        _find_metrics(frame.columns) != metrics
        or frame.filter(is_reading)[metrics].null_count().sum_horizontal().sum()
    ):
        return None
    frame = _drop_void(frame, odd)
    names = (
        "run",
        "row",
        SYNCED_ROWS,
        *READING_COLUMNS,
        *metrics,
        *_find_row_checks(frame.columns),
    )
    return None if odd else frame.select(names)


def _sort_by_run(frame: pl.DataFrame) -> pl.DataFrame:
    is_in_order = frame["run"].is_sorted()
    return frame if is_in_order else frame.sort("run", maintain_order=True)


def _read_ahead(batches: Iterable[list[Piece]], odd: set[int]) -> Iterator[list[pl.DataFrame]]:
    """Yield every batch in order; the next one is read while polars parses the last."""
    with ThreadPoolExecutor(_AHEAD) as pool:
        under_way: deque[Future[list[pl.DataFrame]]] = deque()
        for batch in batches:
            under_way.append(pool.submit(_read, batch, odd))
            if len(under_way) > _AHEAD:
                yield under_way.popleft().result()
        yield from (found.result() for found in under_way)


def _read(pieces: list[Piece], odd: set[int]) -> list[pl.DataFrame]:
    """Return all lines, run by run in no order."""
    shapes = {piece.run: piece.shape for piece in pieces}  # of the last, which knows of the others
    alike: dict[int, list[Piece]] = {}
    for piece in pieces:
        alike.setdefault(shapes[piece.run], []).append(piece)
    others, frames = alike.pop(0, []), []
    for same in alike.values():
        frame = _read_as_table(same)
        if frame is None:
            others += same
        else:
            frames.append(frame)
    return frames + (_read_as_lines(others, odd) if others else [])


def _read_as_table(pieces: list[Piece]) -> pl.DataFrame | None:
    """Parse lines that differ only in their numbers, several times faster; None if they do not."""
    import polars as pl

    raw = pieces[0].data[: pieces[0].data.index(b"\n")]
    first = json.loads(raw)
    if raw.count(b",") != len(first) - 1 or raw.count(b":") != len(first) or b"\\" in raw:
        return None
    numbers = [name for name, value in first.items() if not isinstance(value, str | list)]
    places = {name: f"column_{2 * at + 2}" for at, name in enumerate(first)}
    schema: dict[str, Any] = {f"column_{at + 1}": pl.String for at in range(2 * len(first))}
    schema |= {places[name]: _get_type(name) for name in numbers}
    table = BytesIO(b"".join(piece.data for piece in pieces))
    _separate_names(table.getbuffer())
    run = np.repeat([piece.run for piece in pieces], [piece.lines for piece in pieces])
    texts = {"kind": first.get("kind"), "flags": first.get("flags")}
    try:
        frame = pl.read_csv(
            table,
            schema=schema,
            has_header=False,
            columns=[places[name] for name in numbers],
            quote_char=None,
            null_values="null",
        )
        frame = frame.rename({places[name]: name for name in numbers}).with_columns(
            pl.Series("run", run, dtype=pl.Int64),
            *(pl.lit(texts[name], _get_type(name)).alias(name) for name in texts if name in first),
        )
    except pl.exceptions.PolarsError:
        return None
    return frame.shrink_to_fit() if _is_plain(frame) else None


def _separate_names(lines: memoryview) -> None:
    """Replace every colon by a comma, in place: names become cells between those of the values.

    Four times as fast as ``bytes.replace``, and other threads can run meanwhile.
    """
    signs = np.frombuffer(lines, np.uint8)
    for start in range(0, len(signs), _CACHED):
        block = signs[start : start + _CACHED]
        is_colon = (block == ord(":")).view(np.uint8)
        is_colon *= ord(":") - ord(",")
        block -= is_colon


def _read_as_lines(pieces: list[Piece], odd: set[int]) -> list[pl.DataFrame]:
    frame = _read_at_once(pieces)
    if frame is not None:
        return [frame]
    if len(pieces) == 1:
        odd.add(pieces[0].run)
        return []
    # One bad line must not slow down a million others: find its run by bisection.
    middle = len(pieces) // 2
    return _read_as_lines(pieces[:middle], odd) + _read_as_lines(pieces[middle:], odd)


def _read_at_once(pieces: list[Piece]) -> pl.DataFrame | None:
    """Return the lines as polars reads them, or None if anything about them is odd."""
    import polars as pl

    keys = [_read_first_keys(piece) for piece in pieces]
    data = b"".join(piece.data for piece in pieces)
    lines = [piece.lines for piece in pieces]
    try:
        frame = _parse(data, dict.fromkeys(chain.from_iterable(keys)))
        if len(frame) != sum(lines):
            return None
        expected = np.repeat([len(names) for names in keys], lines)
        is_resume = (frame["kind"] == "resume").fill_null(value=False).to_numpy()
        expected[is_resume] = 4
        if not _is_complete(frame, data, int(expected.sum())):
            keys_found = _KEY.findall(data)
            names = {json.loads(name) for name in set(keys_found)}
            if len(names) > _MOST_METRICS:
                return None
            frame = _parse(data, names)
            # Of a key that is there twice, polars takes the first value, and JSON the last.
            values = frame.height * frame.width - sum(frame.null_count().row(0))
            if len(keys_found) != values + data.count(b":null"):
                return None
    except (pl.exceptions.PolarsError, ValueError):
        return None
    if not all(piece.is_as_written for piece in pieces) or not _is_plain(frame):
        return None
    run = np.repeat(np.array([piece.run for piece in pieces], dtype=np.int64), lines)
    # What polars parses into has room for twice as much.
    found = frame.drop(CHECK, strict=False).with_columns(pl.Series("run", run))
    return found.shrink_to_fit()


def _read_first_keys(piece: Piece) -> tuple[str, ...]:
    try:
        return tuple(json.loads(piece.data[: piece.data.index(b"\n")]))
    except (ValueError, TypeError, RecursionError):
        return ()


def _parse(data: bytes, names: Iterable[str]) -> pl.DataFrame:
    import polars as pl

    schema = {name: _get_type(name) for name in ("schema", "kind", "step", *names)}
    if "flags" not in schema:
        return pl.read_ndjson(data, schema=schema)
    # A list is by far the slowest column to read, and nearly always empty: first as a text.
    frame = pl.read_ndjson(data, schema=schema | {"flags": pl.String})
    return frame.with_columns(pl.col("flags").str.json_decode(_get_type("flags")))


def _is_complete(frame: pl.DataFrame, data: bytes, keys: int) -> bool:
    """Return whether no line has a key that is not a column, which polars would pass over.

    There are as many colons as there should be keys, and as many nulls as there are written ones
    and absent keys; a key too many would upset one or the other.
    """
    if np.count_nonzero(np.frombuffer(data, dtype=np.uint8) == ord(":")) != keys:
        return False
    absent = frame.height * frame.width - keys
    nulls: int = sum(frame.null_count().row(0))
    return nulls == absent or nulls == absent + data.count(b":null")


def _is_plain(frame: pl.DataFrame) -> bool:
    """Tell whether there are only readings and resumes of this version, with steps."""
    versions, is_reading = frame["schema"], frame["kind"] == "reading"
    has_row = frame["row"].is_not_null() if "row" in frame.columns else ~is_reading
    return bool(
        not versions.null_count()
        and (versions == SCHEMA_VERSION).all()
        and frame["kind"].is_in(KINDS).fill_null(value=False).all()
        and not frame["step"].null_count()
        and (frame["step"] >= 0).all()
        and (~is_reading | has_row).all()
    )


def _get_type(name: str) -> Any:  # noqa: ANN401
    import polars as pl

    types = {"kind": pl.String, CHECK: pl.String, "flags": pl.List(pl.String)}
    whole = {"schema", "step", "run", "row", SYNCED_ROWS}
    return pl.Int64 if name in whole else types.get(name, pl.Float64)


def _drop_void(frame: pl.DataFrame, odd: set[int]) -> pl.DataFrame:
    """Without resumes, and the readings that a later one declares void.

    Runs whose steps do not grow are also odd. No odd run is kept.
    """
    import polars as pl

    if odd:
        frame = frame.filter(~pl.col("run").is_in(list(odd)))
    is_reading = (frame["kind"] == "reading").to_numpy()
    if not is_reading.all():
        run, steps = frame["run"].to_numpy(), frame["step"].to_numpy()
        limits, counts = np.where(is_reading, NO_LIMIT, steps), is_reading.copy()
        for resumed in np.unique(run[~is_reading]):
            rows = slice(*np.searchsorted(run, [resumed, resumed + 1]))
            counts[rows] &= mark_counted(steps[rows], limits[rows])
        frame = frame.filter(counts)
    run, steps = frame["run"].to_numpy(), frame["step"].to_numpy()
    is_back = (np.diff(steps) <= 0) & (np.diff(run) == 0)
    if is_back.any():
        backwards = np.unique(run[1:][is_back])
        odd.update(backwards.tolist())
        frame = frame.filter(~pl.col("run").is_in(backwards))
    return frame


def _read_by_line(
    journals: Sequence[Path | str], runs: Iterable[int]
) -> tuple[list[pl.DataFrame], dict[int, CorruptRunError]]:
    import polars as pl

    frames, damaged = [], {}
    for run in runs:
        try:
            lines = read_counted(Path(journals[run]))
        except CorruptRunError as error:
            damaged[run] = error
            continue
        counts = Counter(chain.from_iterable(lines))
        others = sorted(_find_metrics(counts), key=lambda name: (-counts[name], name))
        # More than the maximum are reported later.
        others = others[: _MOST_METRICS + 1]
        kept = ("run", "row", SYNCED_ROWS, *READING_COLUMNS, *others, *_find_row_checks(counts))
        rows = [
            {name: line[name] for name in kept if name in line} | {"run": run} for line in lines
        ]
        frames.append(pl.DataFrame(rows, schema={name: _get_type(name) for name in kept}))
    return frames, damaged


def _join_frames(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return all frames as one, with the metrics that most readings have."""
    import polars as pl

    counts: Counter[str] = Counter()
    for frame in frames:
        counts.update(
            {n: frame.height - frame[n].null_count() for n in _find_metrics(frame.columns)}
        )
    if len(counts) > _MOST_METRICS:
        in_order = sorted(counts, key=lambda name: (-counts[name], name))
        frames = [frame.drop(in_order[_MOST_METRICS:], strict=False) for frame in frames]
        message = (
            f"There are more than {_MOST_METRICS:,} metrics; those that most readings have are "
            "kept. Give a metric the same name at every reading."
        )
        warnings.warn(OddJournalWarning(message), stacklevel=4)
    return pl.concat(frames, how="diagonal")


def _find_metrics(names: Iterable[str]) -> list[str]:
    return sorted(name for name in set(names) if not is_reserved(name))


def _find_row_checks(names: Iterable[str]) -> list[str]:
    return sorted(name for name in names if name.startswith(ROW_CHECK))
