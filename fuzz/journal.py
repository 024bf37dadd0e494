"""Damaged runs: bytes changed, lines cut, doubled, swapped and lost; what is read must be so."""

import math
import random
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from fuzz._trials import new_folder, repeat
from rote.errors import DamagedRowsWarning, RoteError, RoteWarning
from rote.records import Reading
from rote.store import (
    NEIGHBORS_FILE,
    RunDirectory,
    compute_checksums,
    encode_votes,
    read_predictions,
    read_run,
    read_table,
)
from rote.store.holdout import write_neighbor_votes

_CLASSES, _HOLDOUT = 5, 4
_BESIDE = ("predictions.bin", NEIGHBORS_FILE)

_Rows = list[dict[str, Any]]


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Damage runs and compare what both readers say with what was written."""
    return repeat(_trial, seed, seconds)


def _trial(rng: random.Random) -> list[str]:
    with new_folder() as place:
        trial = _Trial(rng, place)
        return [f"{trial.damage}: {finding}" for finding in trial.findings()]


class _Trial:
    """One run, written and then damaged."""

    def __init__(self, rng: random.Random, store: Path) -> None:
        self._rng = rng
        self._store, self._run = store, store / "run"
        self._written: list[tuple[Reading, np.ndarray]] = []
        self._write()
        shutil.copytree(self._run, store / "whole")
        self._good = read_run(self._run).readings
        self.damage = ""

    def findings(self) -> list[str]:
        """Return what is wrong with how the damaged run is read."""
        file = self._rng.choice(["journal.jsonl"] * 8 + ["run.json", *_BESIDE])
        before = (self._run / file).read_bytes()
        change = self._rng.choice([_flip, _cut, _double, _swap, _lose, _insert, _garble])
        after = change(self._rng, before)
        (self._run / file).write_bytes(after)
        self.damage = f"{change.__name__[1:]} of {file}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            one = _attempt(lambda: _rows_of_run(self._run))
            said_by_one = {str(entry.message) for entry in caught}
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            many = _attempt(lambda: _rows_of_table(self._store))
            said_by_many = {str(entry.message) for entry in caught}
        found = [entry for entry in (one, many) if isinstance(entry, str) and "traceback" in entry]
        if found or isinstance(many, str):
            return found or [f"one bad run made the store unreadable: {many}"]
        found += _differences(one, many, said_by_one, said_by_many)
        # Whole lines that are gone from the end leave no trace; power cuts are another attack.
        is_end = not after or before.startswith(after.rstrip(b"\n") + b"\n")
        if file != "run.json" and not isinstance(one, str):
            is_noted = bool(said_by_one) or (is_end and file == "journal.jsonl")
            found += self._silently_wrong(one, is_noted=is_noted)
        if file == NEIGHBORS_FILE:
            found += self._wrong_votes()
        if found:
            self.damage += f" [{after!r} for {before!r}]"
        return found

    def _write(self) -> None:
        holdout = {"size": _HOLDOUT, "predictions": [_HOLDOUT]}
        self._votes = np.random.default_rng(self._rng.randrange(99)).dirichlet(
            [1] * _CLASSES, _HOLDOUT
        )
        sums = compute_checksums({NEIGHBORS_FILE: encode_votes(self._votes)})
        described = {"name": "run", "num_classes": _CLASSES, "holdout": holdout}
        run = RunDirectory.create(self._run, described | sums)
        write_neighbor_votes(self._run, self._votes)
        count, row = self._rng.randint(1, 6), 0
        while row < count:
            run.append(self._reading(row + 1), row)
            row += 1
            if self._rng.random() < 0.2:
                row = self._rng.randint(0, row)
                run.resume_after(row)
        run.close()

    def _reading(self, step: int) -> Reading:
        a, b = (self._rng.choice([0.0, 2.5, math.nan, self._rng.gauss(0, 1e3)]) for _ in "ab")
        metrics = {n: self._rng.random() for n in ("a", "bé", "c d") if self._rng.random() < 0.5}
        drawn = np.array([self._rng.randrange(_CLASSES) for _ in range(_HOLDOUT)], dtype=np.uint8)
        flags = ("diverging",) if self._rng.random() < 0.3 else ()
        reading = Reading(step, a, b, a - b, b, a, flags=flags, metrics=metrics, predictions=drawn)
        self._written.append((reading, drawn))
        return reading

    def _wrong_votes(self) -> list[str]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RoteWarning)
            votes = _attempt(lambda: read_table(self._run).read_neighbor_votes("run"))
        if isinstance(votes, str):
            return [votes]
        is_right = votes is None or np.array_equal(votes, self._votes.astype(np.float32))
        return [] if is_right else ["votes of neighbors were changed unnoticed"]

    def _silently_wrong(self, rows: _Rows, *, is_noted: bool) -> list[str]:
        known = [(_values(reading), drawn.tolist()) for reading, drawn in self._written]
        found = []
        for row in rows:
            values = {name: value for name, value in row.items() if name not in ("row", "drawn")}
            matching = [drawn for written, drawn in known if written == values]
            if not matching:
                found.append(f"a reading was changed unnoticed: {values}")
            elif not is_noted and row["drawn"] not in [*matching, None]:
                found.append(f"step {row['step']} has the predictions of another reading")
        good = [_values(reading) for reading in self._good]
        shown = [{k: v for k, v in row.items() if k not in ("row", "drawn")} for row in rows]
        if shown != good and not is_noted:
            found.append(f"{len(good)} readings became {len(shown)} in silence")
        return found


def _differences(
    one: _Rows | str, many: _Rows | dict[str, str], said_by_one: set[str], said_by_many: set[str]
) -> list[str]:
    if isinstance(one, str) or isinstance(many, dict):
        agree = isinstance(one, str) and isinstance(many, dict) and one in many.values()
        return [] if agree else [f"read_run said {one}, read_table {many}"]
    if one != many:
        return [f"read_run read {one}, read_table {many}"]
    if said_by_one != said_by_many:
        return [f"read_run warned of {said_by_one}, read_table of {said_by_many}"]
    return []


def _attempt(read: Callable[[], Any]) -> Any:
    try:
        return read()
    except RoteError as error:
        return str(error)
    except Exception as error:
        return f"traceback: {type(error).__name__}: {error}"


def _values(reading: Reading) -> dict[str, Any]:
    values = reading.to_dict()
    metrics = values.pop("metrics")
    kept = {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in (values | metrics).items()
    }
    return {name: value for name, value in kept.items() if value not in (None, [])}


def _rows_of_run(path: Path) -> _Rows:
    record = read_run(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedRowsWarning)  # rows of the last second may be lost
        drawn = _attempt(lambda: read_predictions(record))
    if isinstance(drawn, str) and "traceback" in drawn:
        raise TypeError(drawn)
    shown = [] if drawn is None or isinstance(drawn, str) else drawn.tolist()
    shown += [None] * (len(record.readings) - len(shown))
    pairs = zip(record.readings, record.rows, shown, strict=True)
    return [_values(entry) | {"row": row, "drawn": d} for entry, row, d in pairs]


def _rows_of_table(store: Path) -> _Rows | dict[str, str]:
    """Return the rows of the damaged run, or why it is left out."""
    table = read_table(store)
    assert (store / "whole") in table.paths.values()
    if table.unreadable:
        return dict(table.unreadable)
    (name,) = (name for name, path in table.paths.items() if path == store / "run")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DamagedRowsWarning)
        drawn = table.read_predictions(name)
    rows = []
    for row in table.frame.to_dicts():
        if row.pop("run") == name:
            shown = {k: v for k, v in row.items() if v not in (None, [])}
            has = drawn is not None and row["row"] < len(drawn)
            shown.setdefault("seconds", 0.0)
            rows.append(shown | {"drawn": drawn[row["row"]].tolist() if has else None})  # type: ignore[index]
    return rows


def _lines(data: bytes) -> list[bytes]:
    return data.splitlines(keepends=True) or [b""]


def _flip(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    if changed:
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _garble(rng: random.Random, data: bytes) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(changed) + 1)
        changed[at : at + 1] = rng.choice(
            [b"9", b"-", b"e", b'"', b"[", b"{}", b"\n", b"true", b""]
        )
    return bytes(changed)


def _cut(rng: random.Random, data: bytes) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _double(rng: random.Random, data: bytes) -> bytes:
    lines = _lines(data)
    at = rng.randrange(len(lines))
    lines.insert(rng.randint(at, len(lines)), lines[at])
    return b"".join(lines)


def _swap(rng: random.Random, data: bytes) -> bytes:
    lines = _lines(data)
    rng.shuffle(lines)
    return b"".join(lines)


def _lose(rng: random.Random, data: bytes) -> bytes:
    lines = _lines(data)
    del lines[rng.randrange(len(lines))]
    return b"".join(lines)


def _insert(rng: random.Random, data: bytes) -> bytes:
    lines = _lines(data)
    strange = [
        b"[[" * 3000,
        b"null",
        b'{"schema":1,"kind":"note"}',
        b'{"schema":1,"kind":"reading","step":-3}',
        b'{"schema":1,"kind":"reading","step":1e3,"flags":[]}',
        b'{"schema":1,"kind":"reading","step":7,"flags":null}',
        b'{"schema":1,"kind":"reading","step":7,"a":"1.5"}',
        b'{"schema":1,"kind":"reading","step":7,"a":true}',
        b'{"schema":1,"kind":"reading","step":7,"a":1' + b"0" * 400 + b"}",
        b'{"schema":1,"kind":"reading","step":7,"a":1e999}',
        b'{"schema":1,"kind":"reading","step":7,"a":{"b":1}}',
        b'{"schema":1,"kind":"reading","step":7,"\\ud800":1}',
        b'{"schema":1,"kind":"reading","step":7,"step":8}',
        b'{"schema":9,"kind":"reading","step":7}',
        b'{"schema":1,"kind":"resume","step":99999999999999999999}',
    ]
    lines.insert(rng.randint(0, len(lines)), rng.choice(strange) + b"\n")
    return b"".join(lines)
