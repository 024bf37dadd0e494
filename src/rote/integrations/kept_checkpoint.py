"""The checkpoint file of a Lightning trainer that holds the weights of one reading."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch

from rote.records import Reading


def find_checkpoint(
    folders: Iterable[str | Path], readings: Sequence[Reading], step: int, *, state_key: str
) -> str | None:
    """A checkpoint that this run saved where one of its readings was taken.

    Args:
        folders: where to look.
        readings: all readings of the run, with the ``global_step`` at which they were taken.
        step: the ``step`` of the reading.
        state_key: the name of the callback's state in a checkpoint.

    Returns:
        The first path in the order of names, or ``None``.
    """
    wanted = next((reading for reading in readings if reading.step == step), None)
    if wanted is None:
        return None
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.ckpt")):
        checkpoint = _read(path)
        state = checkpoint.get("callbacks", {}).get(state_key)
        if (
            state is not None
            and checkpoint.get("global_step") == wanted.global_step
            and _is_earlier(state["tracker"]["readings"], readings)
        ):
            return str(path)
    return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        # Mapped into memory: the weights of many large files are not read.
        found = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, UnpicklingError):
        return {}  # somebody else's file, or one with objects in it
    return found if isinstance(found, Mapping) else {}


def _is_earlier(saved: Sequence[Mapping[str, Any]], readings: Sequence[Reading]) -> bool:
    """Whether saved readings are the first ones of this run; no two probes take equally long."""
    taken = [reading.seconds for reading in readings]
    return [reading["seconds"] for reading in saved] == taken[: len(saved)]
