"""What a run of a spec leaves beside its journal: the spec, its labels, and how to go on."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rote.errors import CorruptRunError, InputError, RunExistsError, shown
from rote.store import (
    CLAIM_FILE,
    LABELS_FILE,
    RUN_FILE,
    WORKLOAD_FILE,
    WriterLock,
    check_free,
    leaves,
    read_run,
    whole_file,
    write_whole,
)
from rote.workloads.data.dataset import Array
from rote.workloads.saved_states import SavedStates
from rote.workloads.spec import RunSpec

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
