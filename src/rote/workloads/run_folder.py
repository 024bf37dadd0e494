"""The directory of a run of a spec: the spec, its labels, and the states from which it resumes."""

import hashlib
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from rote.errors import CorruptRunError, DamagedStateWarning, InputError, RunExistsError, shown
from rote.store import (
    CLAIM_FILE,
    LABELS_FILE,
    RUN_FILE,
    STATE_FILE,
    WORKLOAD_FILE,
    WriterLock,
    check_free,
    leaves,
    read_run,
    whole_file,
    write_whole,
)
from rote.workloads.data.dataset import Array
from rote.workloads.spec import RunSpec

PREVIOUS_FILE = "resume-before.pt"
_MAGIC = b"rote state 1 "
_HEADER = len(_MAGIC) + 64 + 1  # then the digest in hexadecimal, and a new line
_ZIP = b"PK\x03\x04"  # how states of earlier versions begin, which have no checksum


class SavedStates:
    """The newest state of a run and the last but one, in its directory.

    A file is a line with a checksum, then what ``torch.save`` writes.
    """

    def __init__(self, folder: Path) -> None:
        self._newest, self._previous = folder / STATE_FILE, folder / PREVIOUS_FILE

    def save(self, state: dict[str, Any]) -> None:
        """Write a state; the newest one becomes the last but one."""
        # Given a path, torch writes by itself and does not say why it could not.
        with whole_file(self._newest) as draft:
            with draft.open("wb") as file:
                file.write(bytes(_HEADER))
                summed = _Summed(file)
                torch.save(state, summed)  # type: ignore[arg-type]  # all it does is to write
                file.seek(0)
                file.write(_header(summed.digest.hexdigest()))
            if self._newest.is_file():
                self._keep_newest()

    def _keep_newest(self) -> None:
        """Give it the other name too: who is stopped now must not find the newest missing."""
        self._previous.unlink(missing_ok=True)
        try:
            self._previous.hardlink_to(self._newest)
        except OSError:  # a file system without links
            self._newest.replace(self._previous)

    def load(self) -> dict[str, Any] | None:
        """The newest state that is whole; nothing but numbers, text and tensors is loaded.

        Raises:
            CorruptRunError: if there are states, and none is whole.
        """
        if not self._newest.is_file() and not self._previous.is_file():
            return None
        state = _read(self._newest)
        if state is not None:
            return state
        state = _read(self._previous)
        if state is None:
            raise CorruptRunError(
                f"Expected {self._newest} to be the whole state of a run, got a damaged file, as "
                f"after a power cut. Delete {self._newest.parent}: the run is then made anew, with "
                "the same bits."
            )
        warnings.warn(
            f"{self._newest} is damaged or missing: the run goes on from the state before it, "
            f"{self._previous.name}, and trains again what came after, to the same bits.",
            DamagedStateWarning,
            stacklevel=2,
        )
        return state

    def forget(self) -> None:
        """There is nothing left to go on from."""
        self._newest.unlink(missing_ok=True)
        self._previous.unlink(missing_ok=True)


class _Summed:
    """A file that is summed up while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()

    def write(self, part: bytes) -> int:
        self.digest.update(part)
        return self._file.write(part)

    def flush(self) -> None:
        self._file.flush()


def _header(digest: str) -> bytes:
    return _MAGIC + digest.encode() + b"\n"


def _read(file: Path) -> dict[str, Any] | None:
    """A state, or None if the file is damaged or not there."""
    if not file.is_file():
        return None
    raw = file.read_bytes()
    if not raw.startswith(_ZIP):
        contents = memoryview(raw)[_HEADER:]
        if raw[:_HEADER] != _header(hashlib.sha256(contents).hexdigest()):
            return None
        raw = bytes(contents)
    try:
        state = torch.load(BytesIO(raw), map_location="cpu", weights_only=True)
    except Exception:  # noqa: BLE001  # torch raises whatever the damage leads to
        return None
    return state if isinstance(state, dict) else None


SPEC_FILE = "spec.toml"
_SCHEMA = 1


@dataclass(frozen=True)
class RunFolder:
    """The directory of a run, as far as the workload is concerned.

    Files are written aside and then renamed: a kill leaves the old one or the new one.

    Attributes:
        path: the directory.
        spec: the run.
    """

    path: Path
    spec: RunSpec

    def examine(self) -> dict[str, Any] | None:
        """What ``workload.json`` says about an earlier attempt at the same run that got so far.

        Raises:
            RunExistsError: if the directory holds another run, or something else.
        """
        file = self.path / WORKLOAD_FILE
        if file.is_file():
            found = _read_json(file)
            if found.get("identity") != self.spec.identity:
                raise RunExistsError(
                    f"Expected {self.path} to hold this run, got one that differs in "
                    f"{', '.join(self._differences(found))}. Choose another directory."
                )
            return found
        if self.is_started and read_run(self.path).readings:
            raise RunExistsError(
                f"Expected {self.path} to be a new directory or a run of a spec, got a run that "
                f"has no {WORKLOAD_FILE}. Choose another directory."
            )
        if not self.is_started:
            check_free(self.path)
        return None

    @contextmanager
    def claimed(self) -> Iterator[None]:
        """Inside the block nobody else trains this run, not even up to the journal's opening.

        Raises:
            InputError: if the directory cannot be written.
            RunLockedError: if another process trains it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(self.path / CLAIM_FILE)
        except OSError as error:
            raise InputError(
                f"Expected `out` to be a writable directory, got {self.path}: {error.strerror}."
            ) from error
        try:
            yield
        finally:
            lock.release()

    @property
    def is_started(self) -> bool:
        """Whether the journal has been opened before."""
        return (self.path / RUN_FILE).is_file()

    def describe(self, description: dict[str, Any], *, finished: bool) -> dict[str, Any]:
        """Write ``workload.json``: what the data are, and whether the run is over."""
        contents = {
            "schema": _SCHEMA,
            "identity": self.spec.identity,
            "finished": finished,
            "data": description,
            "spec": self.spec.to_dict(),
        }
        text = json.dumps(contents, indent=2, allow_nan=False) + "\n"
        write_whole(self.path / WORKLOAD_FILE, text.encode())
        return contents

    def record(self, labels: dict[str, Array]) -> None:
        """Write the spec as it was run, and the division and labels of its data."""
        write_whole(self.path / SPEC_FILE, self.spec.to_toml().encode())
        with whole_file(self.path / LABELS_FILE) as draft, draft.open("wb") as file:
            np.savez_compressed(file, **labels)  # type: ignore[arg-type]  # a name is not a flag

    @property
    def states(self) -> SavedStates:
        """Everything that the rest of the run depends on, as saved after epochs."""
        return SavedStates(self.path)

    def finish(self, description: dict[str, Any]) -> dict[str, Any]:
        """Declare the run over; there is nothing left to resume."""
        contents = self.describe(description, finished=True)
        self.states.forget()
        return contents

    def _differences(self, found: dict[str, Any]) -> list[str]:
        theirs = _fields(found["spec"])
        ours = _fields(self.spec.to_dict())
        names = sorted({*theirs, *ours})
        return [name for name in names if theirs.get(name) != ours.get(name)] or ["its version"]


def _read_json(file: Path) -> dict[str, Any]:
    try:
        contents = json.loads(file.read_bytes())
    except (ValueError, RecursionError) as error:
        raise CorruptRunError(f"Expected {file} to be JSON, got: {error}.") from error
    if not isinstance(contents, dict) or contents.get("schema") != _SCHEMA:
        raise CorruptRunError(
            f"Expected {file} to describe a workload of schema {_SCHEMA}, got another. It was "
            "written by another version of rote."
        )
    kinds = {"identity": str, "finished": bool, "spec": dict}
    for name, kind in kinds.items():
        if not isinstance(contents.get(name), kind):
            raise CorruptRunError(
                f"Expected {file} to say {name!r}, got {shown(contents.get(name))}. It is not as "
                "rote wrote it: choose another directory."
            )
    return contents


def _fields(values: dict[str, Any]) -> dict[str, Any]:
    """What a spec sets, by dotted name; an empty table sets nothing."""
    return {name: value for name, value in leaves(values) if value != {}}
