"""The weights of a pick, copied to where somebody wants them."""

from __future__ import annotations

import filecmp
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError, StoreError
from rote.store import whole_file

if TYPE_CHECKING:
    from rote.selection.selection import Pick

_ODD = re.compile(r"[^\w.=+-]+", re.ASCII)
_LONGEST = 100


def copy_checkpoint(pick: Pick, folder: Path | str) -> Path:
    """Copy the weights of a pick into a folder, whole or not at all.

    The copy is named after its run and its step. One that is there already, and the same, stays.

    Returns:
        The copy.

    Raises:
        InputError: if the weights were not saved, or the folder has another file of that name.
        StoreError: if it cannot be written.
    """
    if pick.file is None:
        raise InputError(
            f"Expected the weights of step {pick.step} of {pick.run} to be saved, got no file. "
            'Next time: checkpoints = { keep = "all" } in a spec; in a loop of your own, '
            f"save them after every probe as step-{pick.step}.pt in the run's folder."
        )
    if pick.file.is_dir():
        raise InputError(
            f"Expected the weights of the pick to be one file, got the folder {pick.file}. Copy "
            "it yourself."
        )
    target = Path(folder).expanduser() / _name(pick, pick.file)
    if target.exists():
        if target.is_file() and filecmp.cmp(pick.file, target, shallow=False):
            return target
        raise InputError(
            f"Expected {target} to be free, got another file there. Move it, or copy elsewhere."
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(target, shared=True) as draft:
            shutil.copyfile(pick.file, draft)
    except OSError as error:
        raise StoreError(
            f"Expected {target} to be written, got: {error.strerror or error}. Choose another "
            "folder."
        ) from error
    return target


def _name(pick: Pick, file: Path) -> str:
    run = _ODD.sub("-", pick.run).strip("-.")[:_LONGEST] or "run"
    return f"{run}-step-{pick.step:05d}{file.suffix}"
