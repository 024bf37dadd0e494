"""The directory of a run of a spec: the spec, its labels, and the states from which it resumes."""

import hashlib
import io
import json
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

from rote.errors import (
    CorruptRunError,
    DamagedStateWarning,
    DataChangedError,
    InputError,
    MissingExtraError,
    RoteError,
    RunExistsError,
    quote,
)
from rote.snapshot import hold_signals
from rote.store import (
    CLAIM_FILE,
    DAMAGED_ARRAYS,
    LABELS_FILE,
    OUT_OF_SAMPLE_FILE,
    RUN_FILE,
    STATE_FILE,
    WORKLOAD_FILE,
    WriterLock,
    check_free,
    fingerprint_file,
    flatten_tables,
    has_changed,
    read_data_file,
    read_plain,
    read_run,
    replace_file,
    write_whole,
)
from rote.workloads.data.dataset import Array
from rote.workloads.data.lookup import load
from rote.workloads.spec import NoNoise, RunSpec

PREVIOUS_FILE = "resume-before.pt"
_MAGIC = b"rote state 1 "
_HEADER = len(_MAGIC) + 64 + 1  # then the digest in hexadecimal, and a new line


class SavedStates:
    """The newest state of a run and the last but one, in its directory.

    A file is a line with a checksum, then what ``torch.save`` writes.
    """

    def __init__(self, folder: Path) -> None:
        self._newest, self._previous = folder / STATE_FILE, folder / PREVIOUS_FILE

    def save(self, state: dict[str, Any]) -> None:
        """Write a state; the newest one becomes the last but one."""
        # Given a path, torch writes by itself and does not say why it could not.
        with replace_file(self._newest) as draft:
            with draft.open("wb") as file:
                file.write(bytes(_HEADER))
                hashing = _HashingFile(file)
                try:
                    # An interrupted writer of torch writes its end into a closed file, and aborts.
                    with hold_signals():
                        torch.save(state, hashing)  # type: ignore[arg-type]  # it only writes
                except RuntimeError as error:  # torch hides what the disk says
                    raise hashing.failure or error from error
                file.seek(0)
                file.write(_make_header(hashing.digest.hexdigest()))
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
        """Load the newest undamaged state; nothing but numbers, text and tensors is loaded.

        Raises:
            CorruptRunError: if there are states, and none is whole.
        """
        if not self._newest.is_file() and not self._previous.is_file():
            return None
        state = _read_state(self._newest)
        if state is not None:
            return state
        state = _read_state(self._previous)
        if state is None:
            raise CorruptRunError(
                f"The saved state {self._newest} is damaged, and so is the one before it. Delete "
                f"{self._newest.parent} and start the run again: it gives the same numbers."
            )
        warnings.warn(
            f"{self._newest} is damaged or missing. The run resumes from the state before it, "
            f"{self._previous.name}, and repeats the epochs after that, with the same numbers.",
            DamagedStateWarning,
            stacklevel=2,
        )
        return state

    def forget(self) -> None:
        """Delete all saved states."""
        self._newest.unlink(missing_ok=True)
        self._previous.unlink(missing_ok=True)


class _HashingFile:
    """A file that is hashed while it is written."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.digest = hashlib.sha256()
        self.failure: OSError | None = None

    def write(self, part: bytes) -> int:
        self.digest.update(part)
        try:
            return self._file.write(part)
        except OSError as error:
            self.failure = error
            raise

    def flush(self) -> None:
        self._file.flush()


def _make_header(digest: str) -> bytes:
    return _MAGIC + digest.encode() + b"\n"


def _read_state(file: Path) -> dict[str, Any] | None:
    """Read a state; return None if the file is damaged or missing."""
    if not file.is_file():
        return None
    raw = file.read_bytes()
    contents = memoryview(raw)[_HEADER:]
    if raw[:_HEADER] != _make_header(hashlib.sha256(contents).hexdigest()):
        return None
    try:
        state = torch.load(BytesIO(bytes(contents)), map_location="cpu", weights_only=True)
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
        data: the file or folder that it is trained on, if it is one.
    """

    path: Path
    spec: RunSpec
    data: Path | None = None

    def examine(self) -> dict[str, Any] | None:
        """Return ``workload.json`` of an earlier attempt at the same run; None if there is none.

        Raises:
            RunExistsError: if the directory holds another run, or something else.
            DataChangedError: if the data have changed since.
        """
        file = self.path / WORKLOAD_FILE
        if file.is_file():
            found = read_workload(self.path)
            if found.get("identity") != self.spec.identity:
                raise RunExistsError(
                    f"{self.path} holds another run, which differs in "
                    f"{', '.join(self._list_differences(found))}. Choose another directory."
                )
            self._check_data()
            return found
        if self.is_started and read_run(self.path).readings:
            raise RunExistsError(
                f"{self.path} holds a run that was not made by a spec: it has no "
                f"{WORKLOAD_FILE}. Choose another directory."
            )
        if not self.is_started:
            check_free(self.path)
        return None

    @contextmanager
    def claim(self) -> Iterator[None]:
        """Keep other processes from training this run inside the block.

        Raises:
            InputError: if the directory cannot be written.
            RunLockedError: if another process trains it.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock = WriterLock(self.path / CLAIM_FILE)
        except OSError as error:
            raise InputError(f"Cannot write to `out` ({self.path}): {error.strerror}.") from error
        try:
            yield
        finally:
            lock.release()

    @property
    def is_started(self) -> bool:
        """Whether the journal has been opened before."""
        return (self.path / RUN_FILE).is_file()

    def describe(self, description: dict[str, Any], *, finished: bool) -> dict[str, Any]:
        """Write ``workload.json``: what the data are, and whether the run has finished."""
        recorded = read_data_file(self.path)
        if recorded is None and self.data is not None:
            recorded = fingerprint_file(self.data).to_dict()
        contents = {
            "schema": _SCHEMA,
            "identity": self.spec.identity,
            "finished": finished,
            "data": description,
            "spec": self.spec.to_dict(),
        } | ({} if recorded is None else {"data_file": recorded})
        text = json.dumps(contents, indent=2, allow_nan=False) + "\n"
        write_whole(self.path / WORKLOAD_FILE, text.encode())
        return contents

    def record(self, labels: dict[str, Array]) -> None:
        """Write the spec as it was run, and the division and labels of its data."""
        for name, content in self._encode_contents(labels).items():
            write_whole(self.path / name, content)

    def record_out_of_sample(self, arrays: dict[str, Array]) -> None:
        """Write the probabilities of the held-out fold."""
        with replace_file(self.path / OUT_OF_SAMPLE_FILE) as draft, draft.open("wb") as file:
            np.savez_compressed(file, **arrays)  # type: ignore[arg-type]  # a name is not a flag

    def check_record(self, labels: dict[str, Array]) -> None:
        """Warn about files of ``record`` that were changed or removed, and write them again."""
        contents = self._encode_contents(labels)
        for name, is_whole in {
            SPEC_FILE: self._is_spec_whole(),
            LABELS_FILE: _read_or_none(self.path / LABELS_FILE) == contents[LABELS_FILE],
        }.items():
            if not is_whole:
                warnings.warn(
                    f"{self.path / name} was changed or removed since the run began; it is "
                    "written again.",
                    DamagedStateWarning,
                    stacklevel=2,
                )
                write_whole(self.path / name, contents[name])

    def _is_spec_whole(self) -> bool:
        try:
            return RunSpec.from_toml(self.path / SPEC_FILE).identity == self.spec.identity
        except (RoteError, OSError, ValueError):
            return False

    def _encode_contents(self, labels: dict[str, Array]) -> dict[str, bytes]:
        arrays = io.BytesIO()
        np.savez_compressed(arrays, **labels)  # type: ignore[arg-type]  # a name is not a flag
        return {SPEC_FILE: self.spec.to_toml().encode(), LABELS_FILE: arrays.getvalue()}

    @property
    def states(self) -> SavedStates:
        """Everything that the rest of the run depends on, as saved after epochs."""
        return SavedStates(self.path)

    def finish(self, description: dict[str, Any]) -> dict[str, Any]:
        """Declare the run finished, and delete its saved states."""
        contents = self.describe(description, finished=True)
        self.states.forget()
        return contents

    def _check_data(self) -> None:
        recorded = read_data_file(self.path)
        if self.data is None or recorded is None or not has_changed(recorded, self.data):
            return
        raise DataChangedError(
            f"{self.data} has changed since {self.path} was trained on it"
            f"{_describe_change(self.path, self.spec, self.data)}.",
            fingerprint_file(self.data).content,
        )

    def _list_differences(self, found: dict[str, Any]) -> list[str]:
        theirs = _flatten_spec(found["spec"])
        ours = _flatten_spec(self.spec.to_dict())
        names = sorted({*theirs, *ours})
        return [name for name in names if theirs.get(name) != ours.get(name)] or ["its version"]


def _read_or_none(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _describe_change(run: Path, spec: RunSpec, place: Path) -> str:
    """Describe what differs between the data of a run and the file as it is now."""
    try:
        before = read_division(run)
        now = load(replace(spec.data, path=str(place)))  # type: ignore[arg-type]  # a path
    except (CorruptRunError, InputError, MissingExtraError):
        return ""
    used, there = len(before["rows"]), len(now.y_train)
    if spec.data.train_size is None and used != there:
        return f": {used:,} labeled samples then, {there:,} now"
    if not isinstance(spec.noise, NoNoise) or int(before["rows"].max(initial=0)) >= there:
        return ""
    changed = int(np.sum(now.y_train[before["rows"]] != before["labels"]))
    return f": {changed:,} of {used:,} labels differ" if changed else ": its inputs differ"


def read_workload(run: Path) -> dict[str, Any]:
    """Read what a run of a spec was trained on: ``workload.json``.

    Raises:
        InputError: if the run is not one of a spec.
        CorruptRunError: if the file is damaged.
    """
    file = run / WORKLOAD_FILE
    try:
        contents = json.loads(read_plain(file))
    except CorruptRunError:
        raise
    except FileNotFoundError:
        raise InputError(
            f"{run} is not a run of `rote train`: it has no {WORKLOAD_FILE}. Load its weights into "
            "your own network with safetensors."
        ) from None
    except OSError as error:
        raise CorruptRunError(f"Cannot read {file}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise CorruptRunError(f"{file} is not valid JSON: {error}.") from error
    if not isinstance(contents, dict) or contents.get("schema") != _SCHEMA:
        raise CorruptRunError(
            f"{file} is not a workload of schema {_SCHEMA}: it was written by another version of "
            "rote, or edited."
        )
    kinds = {"identity": str, "finished": bool, "spec": dict, "data": dict}
    for name, kind in kinds.items():
        if not isinstance(contents.get(name), kind):
            raise CorruptRunError(
                f"{file} has no valid {name!r}: {quote(contents.get(name))}. It was edited or "
                "damaged. Choose another directory."
            )
    return contents


def read_division(run: Path) -> dict[str, Array]:
    """Read the labels of a run of a spec, and which samples it trained on and held out.

    Raises:
        CorruptRunError: if ``labels.npz`` is missing or damaged.
    """
    try:
        with np.load(BytesIO(read_plain(run / LABELS_FILE))) as found:
            return {name: found[name] for name in found.files}
    except DAMAGED_ARRAYS as error:
        raise CorruptRunError(f"{run / LABELS_FILE} is missing or damaged: {error}.") from error


def _flatten_spec(values: dict[str, Any]) -> dict[str, Any]:
    """Return what a spec sets, by dotted name; an empty table sets nothing."""
    return {name: value for name, value in flatten_tables(values) if value != {}}
