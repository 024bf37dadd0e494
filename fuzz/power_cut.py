"""Power cuts: what was not synced is lost, names in folders too; at most one second may be."""

import os
import random
import stat
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from fuzz._trials import new_folder, repeat
from rote.errors import RoteError, RoteWarning
from rote.records import Reading
from rote.store import RunDirectory, read_predictions, read_run, read_table, write_whole

_DESCRIPTION = {"name": "run", "num_classes": 7, "holdout": {"predictions": [3]}}
_STATE = "state.bin"


def attack(seed: int, seconds: float) -> tuple[int, list[str]]:
    """Cut the power while runs are written, and see what is left."""
    return repeat(_trial, seed, seconds)


class PowerCut(BaseException):
    """The moment; nothing may catch it."""


class Disk:
    """What a disk holds for sure: files and folders as they were when they were last synced.

    Args:
        root: a folder that is there for sure; what lies below is watched.
        cut_at: before which operation the power is cut.
        rng: decides how much of what was not synced reached the disk all the same.
    """

    def __init__(self, root: Path, cut_at: int, rng: random.Random) -> None:
        self._root, self._left, self._rng = root, cut_at, rng
        self._files: dict[int, bytes] = {}
        self._folders: dict[int, dict[str, int]] = {}
        self._held: list[int] = []  # so that no number of a file is given to another

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Inside the block syncs are noted, and the power is cut at its time."""
        names = ("fsync", "write", "pwrite", "replace", "ftruncate")
        patches = [mock.patch.object(os, name, self._wrap(name)) for name in names]
        try:
            with mock.patch.dict(os.environ), patches[0], patches[1], patches[2]:
                os.environ.setdefault("ROTE_FSYNC", "1")
                with patches[3], patches[4]:
                    yield
        finally:
            for number in self._held:
                os.close(number)

    def _wrap(self, name: str) -> Callable[..., Any]:
        act = self._sync if name == "fsync" else getattr(os, name)

        def operate(*arguments: Any) -> Any:
            self._left -= 1
            if self._left < 0:
                raise PowerCut
            return act(*arguments)

        return operate

    def _sync(self, number: int) -> None:
        found, place = os.fstat(number), f"/proc/self/fd/{number}"
        self._held.append(os.dup(number))
        if stat.S_ISDIR(found.st_mode):
            self._folders[found.st_ino] = _entries(place)
        else:
            self._files[found.st_ino] = Path(place).read_bytes()

    def copy_to(self, place: Path) -> None:
        """Copy what is found after the cut."""
        self._copy(self._root, self._root.stat().st_ino, place)

    def _copy(self, now: Path | None, number: int, place: Path) -> None:
        there = _entries(str(now)) if now is not None else {}
        kept = self._folders.get(number, {})
        for name in sorted(there.keys() | kept.keys()):
            chosen = self._rng.choice([there, kept]).get(name)
            if chosen is None:
                continue
            current = now / name if now is not None and there.get(name) == chosen else None
            target = place / name
            if chosen in self._folders or (current is not None and current.is_dir()):
                target.mkdir()
                self._copy(current, chosen, target)
            else:
                target.write_bytes(self._content(current, chosen))

    def _content(self, current: Path | None, number: int) -> bytes:
        sure = self._files.get(number, b"")
        now = sure if current is None else current.read_bytes()
        if not now.startswith(sure):
            return self._rng.choice([sure, now])
        more = self._rng.randint(0, len(now) - len(sure))
        zeros = bytes(len(now) - len(sure) - more)  # the length may reach the disk before the bytes
        return sure + now[len(sure) :][:more] + self._rng.choice([b"", zeros])


def _entries(folder: str) -> dict[str, int]:
    with os.scandir(folder) as entries:
        return {entry.name: entry.inode() for entry in entries}


class _Writer:
    """Writes a run, and knows what must be found of it at any moment."""

    def __init__(self, rng: random.Random, path: Path) -> None:
        self._rng, self._path = rng, path
        self.is_begun = False
        self.readings: list[Reading] = []
        self.allowed: list[list[Reading]] = [[]]
        self.states: list[bytes | None] = [None]

    def write(self) -> None:
        run = RunDirectory.create(self._path, _DESCRIPTION)
        self.is_begun = True
        self._run = run
        for _ in range(self._rng.randint(1, 6)):
            if self._rng.random() < 0.3:
                run.close()
                self._run = run = RunDirectory.reopen(self._path)
                keep = self._rng.randint(0, len(self.readings))
                self._change(self.readings[:keep], partial(run.resume_after, keep))
            row = len(self.readings)
            drawn = np.array([self._rng.randrange(7) for _ in range(3)], dtype=np.uint8)
            reading = Reading(row + 1, self._rng.random(), 1.0, 0.5, 0.25, 0.1, predictions=drawn)
            self._change(
                [*self.readings, reading],
                partial(run.append, reading, row),
            )
            if self._rng.random() < 0.5:
                continue  # as if the next probe came at once
            run.sync()
            self.allowed = [self.readings]
            state = self._rng.randbytes(100)
            self.states = [self.states[-1], state]
            write_whole(self._path / _STATE, state)
            self.states = [state]
        run.close()

    def _change(self, after: list[Reading], act: Callable[[], None]) -> None:
        self.allowed = [*self.allowed, after]
        act()
        self.readings = after
        if self._run._is_synced:
            self.allowed = [after]


def _trial(rng: random.Random) -> list[str]:
    with new_folder() as place:
        return _after_a_cut(rng, place)


def _after_a_cut(rng: random.Random, place: Path) -> list[str]:
    (place / "before").mkdir()
    (place / "after").mkdir()
    disk = Disk(place / "before", rng.randint(0, 60), rng)
    writer = _Writer(rng, place / "before" / "runs" / "run")
    with disk.watched():
        with suppress(PowerCut):
            writer.write()
        disk.copy_to(place / "after")
    path = place / "after" / "runs" / "run"
    if not writer.is_begun:
        return []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", RoteWarning)
        try:
            return _losses(path, writer)
        except RoteError as error:
            return [f"after a power cut {path} cannot be read: {error}"]


def _losses(path: Path, writer: _Writer) -> list[str]:
    found = []
    record = read_run(path)
    if list(record.readings) not in writer.allowed:
        found.append(f"{len(writer.readings)} readings were written, {len(record.readings)} found")
    drawn = read_predictions(record)
    shown = [] if drawn is None else drawn.tolist()
    expected = [entry for entry in writer.allowed if entry == list(record.readings)]
    for entry in expected[:1]:
        wanted = [reading.predictions.tolist() for reading in entry]  # type: ignore[union-attr]
        if shown != wanted[: len(shown)] or len(shown) < min(record.synced_rows, len(wanted)):
            found.append(f"predictions {wanted} became {shown}")
    state = path / _STATE
    if (state.read_bytes() if state.is_file() else None) not in writer.states:
        found.append("the state is neither the last nor the one before")
    run = RunDirectory.reopen(path)
    run.resume_after(len(record.readings))
    run.append(Reading(len(record.readings) + 1, 1.0, 1.0, 0, 0, 0), len(record.readings))
    run.close()
    lengths = {len(read_run(path).readings), len(read_table(path).frame)}
    if lengths != {len(record.readings) + 1}:
        found.append("a resumed run reads wrongly")
    return found
