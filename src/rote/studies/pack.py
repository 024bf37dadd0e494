"""Packing of a pool into one small committed file, with numbers of six digits."""

import io
import json
import math
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.store import JOURNAL_FILE, RunTable, read_table, seal_journal, write_whole

_DIGITS = 6
_OF_THE_MACHINE = ("created", "versions", "command", "rows")
_WHOLE_FILES = ("neighbor_votes.npy", "predictions.bin")


def pack(runs: Path | Sequence[Path], file: Path) -> int:
    """Write runs of a pool into one archive: descriptions, readings, votes, predictions.

    Runs are numbered by the order of their names, and times are left out, so that the same runs
    give the same bytes.

    Args:
        runs: run directories, or a folder of them.
        file: ``*.tar.xz``; an existing file is replaced.

    Returns:
        How many runs it holds.
    """
    table = read_table(runs)
    entries = sorted(
        _list_entries(table), key=lambda entry: (entry[0].rpartition("/")[2], entry[0])
    )
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:xz", preset=9) as archive:
        for name, content in entries:
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    file.parent.mkdir(parents=True, exist_ok=True)
    write_whole(file, buffer.getvalue())
    return len(table.paths)


def unpack(file: Path, folder: Path) -> RunTable:
    """Read a pool that was packed.

    Args:
        file: the archive.
        folder: an empty folder for its run directories; predictions are read from there when
            needed.

    Raises:
        InputError: if there is no such archive.
    """
    if not file.is_file():
        raise InputError(f"Packed pool not found: {file}. Run the study first.")
    with tarfile.open(file, mode="r:xz") as archive:
        archive.extractall(folder, filter="data")
    for journal in folder.glob(f"*/{JOURNAL_FILE}"):
        seal_journal(journal)
    return read_table(folder)


def _list_entries(table: RunTable) -> Iterator[tuple[str, bytes]]:
    import polars as pl

    for number, (run, path) in enumerate(sorted(table.paths.items())):
        place = f"run-{number:03d}"
        description = dict(table.descriptions[run])
        for key in _OF_THE_MACHINE:
            description.pop(key, None)
        if (path / "workload.json").is_file():
            workload = json.loads((path / "workload.json").read_bytes())
            description["data"] = {k: v for k, v in workload["data"].items() if k != "source"}
            description["spec"] = workload["spec"]
        yield f"{place}/run.json", _write_line(description)
        frame = table.frame.filter(pl.col("run") == run).drop("run", "row", "seconds", strict=False)
        lines = [_write_line({"schema": 1, "kind": "reading"} | row) for row in frame.to_dicts()]
        yield f"{place}/journal.jsonl", b"".join(lines)
        for name in _WHOLE_FILES:
            if (path / name).is_file():
                yield f"{place}/{name}", (path / name).read_bytes()


def _write_line(values: Mapping[str, Any]) -> bytes:
    short = {name: _shorten(value) for name, value in values.items() if value is not None}
    return (json.dumps(short, separators=(",", ":")) + "\n").encode()


def _shorten(value: Any) -> Any:  # noqa: ANN401
    if not isinstance(value, float) or not math.isfinite(value):
        return value
    short = float(f"{value:.{_DIGITS}g}")
    return int(short) if short.is_integer() else short
