"""From where a run goes on: its state after an epoch, with a checksum, and the one before."""

import hashlib
import warnings
from io import BytesIO
from pathlib import Path
from typing import IO, Any

import torch

from rote.errors import CorruptRunError, DamagedStateWarning
from rote.store import STATE_FILE, whole_file

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
