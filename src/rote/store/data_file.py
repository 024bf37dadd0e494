"""The fingerprint of the file or folder that a run was trained on, and whether it has changed."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from rote.errors import InputError
from rote.store.files import read_plain
from rote.store.run_status import WORKLOAD_FILE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_BLOCK = 2**20


@dataclass(frozen=True)
class DataFile:
    """What identifies a file, or all files of a folder.

    Attributes:
        path: the absolute path.
        stamp: a hash of names, sizes and times of change; cheap, and enough if it is equal.
        content: a hash of names and contents, which decides where the stamp differs.
    """

    path: str
    stamp: str
    content: str

    def to_dict(self) -> dict[str, str]:
        """Return the fields, as ``workload.json`` holds them under ``data_file``."""
        return asdict(self)


def fingerprint_file(path: Path) -> DataFile:
    """Fingerprint a file or a folder.

    Args:
        path: an existing file or folder.

    Returns:
        Its fingerprint; equal contents under equal names have equal ``content``.

    Raises:
        OSError: if it cannot be read.
    """
    return DataFile(str(path.resolve()), _make_stamp(path), _hash_content(path))


def has_changed(recorded: Mapping[str, Any], path: Path | None = None) -> bool:
    """Tell whether a file differs from the one that was fingerprinted.

    Args:
        recorded: the fingerprint, as ``DataFile.to_dict`` gives it.
        path: where the file is now; where it was by default.

    Returns:
        False for a file that is gone: nothing is known to have changed.
    """
    from pathlib import Path

    place = Path(recorded["path"]) if path is None else path
    if not place.exists():
        return False
    is_same = _make_stamp(place) == recorded["stamp"] or _hash_content(place) == recorded["content"]
    return not is_same


def read_data_file(run: Path | str) -> dict[str, str] | None:
    """Read the fingerprint of the data that a run was trained on; None if it has none."""
    from pathlib import Path

    try:
        found = json.loads(read_plain(Path(run) / WORKLOAD_FILE))["data_file"]
        return {name: str(found[name]) for name in ("path", "stamp", "content")}
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return None


def check_data_unchanged(runs: Iterable[Path | str], *, to: str = "name its rows") -> None:
    """Refuse runs whose data file is no longer the one that they were trained on.

    Args:
        runs: run directories; those without a fingerprint pass.
        to: what the file is needed for, in the message.

    Raises:
        InputError: naming the first run and its file.
    """
    for run in runs:
        recorded = read_data_file(run)
        if recorded is not None and has_changed(recorded):
            raise InputError(
                f"{recorded['path']} has changed since {run} was trained on it, so rote cannot "
                f"{to}. Restore the file, or train on the new one (rote train --data FILE)."
            )


def _make_stamp(path: Path) -> str:
    code = hashlib.sha256()
    for name, file in _list_files(path):
        facts = file.stat()
        code.update(f"{name}\0{facts.st_size}\0{facts.st_mtime_ns}\n".encode(errors="replace"))
    return code.hexdigest()[:16]


def _hash_content(path: Path) -> str:
    code = hashlib.sha256()
    for name, file in _list_files(path):
        code.update(f"{name}\0".encode(errors="replace"))
        with file.open("rb") as opened:
            while block := opened.read(_BLOCK):
                code.update(block)
    return code.hexdigest()[:16]


def _list_files(path: Path) -> list[tuple[str, Path]]:
    """List the files with their names inside of the folder; a single file has no name."""
    if not path.is_dir():
        return [("", path)]
    files = (file for file in path.rglob("*") if file.is_file())
    return sorted((file.relative_to(path).as_posix(), file) for file in files)
