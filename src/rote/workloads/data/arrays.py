"""Arrays on disk: an ``.npz`` file or a folder of ``.npy`` files, read or memory-mapped."""

import hashlib
import math
import os
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from rote.errors import InputError
from rote.store import replace_file
from rote.workloads.data.dataset import Array

IN_MEMORY_BYTES = 4 * 2**30
"""Larger arrays are mapped from disk."""

_NAMED = {
    "x_train": " Save the inputs under that name, and their labels as `y_train`.",
    "y_train": " Save the labels under that name.",
}
"""The advice if an array that training needs is missing."""


def cache_folder() -> Path:
    """Return the folder of converted data: ``ROTE_CACHE``, or ``~/.cache/rote``."""
    return Path(os.environ.get("ROTE_CACHE", "~/.cache/rote")).expanduser()


class ArrayFile:
    """Named arrays in an ``.npz`` file, or in a folder of ``.npy`` files.

    Args:
        path: the file or folder.
        in_memory_bytes: arrays larger than this are mapped. Members of an ``.npz`` cannot be, so
            they are first unpacked, once, into the cache.

    Raises:
        InputError: if there is no such file, or it is neither.
    """

    def __init__(self, path: Path, *, in_memory_bytes: int = IN_MEMORY_BYTES) -> None:
        self.path = path
        self._limit = in_memory_bytes
        if path.is_dir():
            self.names = sorted(file.stem for file in path.glob("*.npy") if file.is_file())
        elif not path.is_file():
            raise InputError(f"File not found: {path}.")
        elif not zipfile.is_zipfile(path):
            raise InputError(f"{path} is not an .npz file. Save the arrays with numpy.savez.")
        else:
            self.names = sorted(name.removesuffix(".npy") for name in _list_members(path))

    def __contains__(self, name: str) -> bool:
        return name in self.names

    def header(self, name: str) -> tuple[tuple[int, ...], np.dtype[Any]]:
        """Return shape and type of an array, without reading it.

        Raises:
            InputError: if it is damaged.
        """
        with self._open(name) as file:
            version = np.lib.format.read_magic(file)
            if version == (1, 0):
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
            else:
                shape, _, dtype = np.lib.format.read_array_header_2_0(file)
        return shape, dtype

    def read(self, name: str) -> Array:
        """One array.

        Raises:
            InputError: if it is missing or damaged, or holds Python objects.
        """
        if name not in self.names:
            raise InputError(
                f"{self.path} has no array `{name}`. It holds: "
                f"{', '.join(self.names) or 'nothing'}.{_NAMED.get(name, '')}"
            )
        shape, dtype = self.header(name)
        if dtype.hasobject:
            raise InputError(
                f"Expected `{name}` of {self.path} to hold plain values, got Python objects. "
                "Save numbers or text instead."
            )
        claimed = dtype.itemsize * math.prod(shape)
        self._check_size(name, claimed)
        if claimed > self._limit:
            mapped: Array = np.load(self._unpack(name), mmap_mode="r")
            return mapped
        with self._open(name) as file:
            whole: Array = np.lib.format.read_array(file, allow_pickle=False)
        return whole

    def _check_size(self, name: str, claimed: int) -> None:
        """Refuse an array that the file cannot hold, or that the cache has no room for."""
        if self.path.is_dir():
            held = (self.path / f"{name}.npy").stat().st_size
        else:
            with zipfile.ZipFile(self.path) as archive:
                held = archive.getinfo(f"{name}.npy").file_size
        if claimed > held:
            raise InputError(
                f"Array `{name}` of {self.path} is damaged: its header promises {claimed:,} bytes, "
                f"and the file holds {held:,}. Get the file again."
            )
        if claimed > self._limit and not self.path.is_dir():
            cache_folder().mkdir(parents=True, exist_ok=True)
            free = shutil.disk_usage(cache_folder()).free
            if claimed > free:
                raise InputError(
                    f"Array `{name}` of {self.path} unpacks to {claimed:,} bytes, and "
                    f"{cache_folder()} has {free:,} bytes left. Make room, or use a smaller file."
                )

    @contextmanager
    def _open(self, name: str) -> Iterator[IO[bytes]]:
        try:
            if self.path.is_dir():
                with (self.path / f"{name}.npy").open("rb") as file:
                    yield file
            else:
                with zipfile.ZipFile(self.path) as archive, archive.open(f"{name}.npy") as member:
                    yield member
        except Exception as error:  # whatever the damage leads to
            raise InputError(
                f"Array `{name}` of {self.path} is damaged: {error}. Get the file again."
            ) from error

    def _unpack(self, name: str) -> Path:
        if self.path.is_dir():
            return self.path / f"{name}.npy"
        facts = self.path.stat()
        stamp = f"{self.path.resolve()} {facts.st_size} {facts.st_mtime_ns}"
        code = hashlib.sha256(stamp.encode()).hexdigest()[:16]
        target = cache_folder() / f"{self.path.stem}-{code}-{name}.npy"
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with (
                self._open(name) as member,
                replace_file(target, shared=True) as draft,
                draft.open("wb") as file,
            ):
                shutil.copyfileobj(member, file, 2**20)
        return target


def _list_members(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path} is damaged: {error}. Get the file again.") from error
