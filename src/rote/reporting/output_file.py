"""Output files named by the user, which are written completely or not at all."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.store import write_whole

if TYPE_CHECKING:
    from pathlib import Path


def write_file(path: Path, content: bytes) -> None:
    """Write a file; an existing one is replaced once the new one is complete.

    Raises:
        InputError: if it is a directory, or cannot be written.
    """
    check_writable(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path.resolve(), content, shared=True)  # keeps a symbolic link
    except OSError as error:
        raise _make_error(path, error) from error


def check_writable(path: Path) -> None:
    """Raise an error before a long computation if its result could not be written.

    Raises:
        InputError: if it is a directory, or its folder cannot be written.
    """
    try:
        is_directory = path.is_dir()
        folder = next(parent for parent in path.absolute().parents if parent.exists())
    except OSError as error:
        raise _make_error(path, error) from error
    if path.exists() and not (is_directory or path.is_file()):
        raise InputError(f"Cannot write {path}: it is a device. Name a file.")
    if is_directory:
        raise InputError(f"Cannot write {path}: it is a directory. Name a file in it.")
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise InputError(f"Cannot write {path}: {folder} is not a writable folder. Choose another.")


def _make_error(path: Path, error: OSError) -> InputError:
    return InputError(f"Cannot write {path}: {error.strerror or error}. Choose another file.")
