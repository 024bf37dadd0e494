"""A folder in which a trainer left the checkpoints of one run, as files or as folders."""

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from rote.errors import InputError
from rote.tracking.saved_weights import SUFFIXES

_OTHERS = ("optimizer", "scheduler", "training_args", "rng_state", "scaler", ".")
"""What else lies in a checkpoint of the Hugging Face Trainer or of Accelerate, or is hidden."""

_OTHER_FOLDERS = ("global_step", ".")
"""DeepSpeed's shards lie beside the whole weights."""

_PIECE = re.compile(r"-\d+-of-\d+\.")
_VERSION = re.compile(r"-v\d+$")  # Lightning's, where a name was taken


@dataclass(frozen=True)
class CheckpointFolder:
    """The checkpoints of one run.

    Attributes:
        files: those to probe, in no order.
        left_out: files of weights without a number (``last.ckpt``, ``best.pt``, a final
            ``model.safetensors``) beside others with one: copies of what has a number, mostly.
    """

    files: tuple[Path, ...]
    left_out: tuple[Path, ...] = ()


def look_into(folder: Path) -> CheckpointFolder:
    """Find the checkpoints of one run, in a folder or below it.

    Either all lie in one folder (Lightning's ``version_0/checkpoints/epoch=3-step=40.ckpt``), or
    each in one of its own, side by side (Hugging Face's ``checkpoint-500/model.safetensors``).

    Args:
        folder: where to look. Nothing below a checkpoint's own folder is looked at.

    Raises:
        InputError: if there is none, there are several runs, or weights are spread over files.
    """
    found = sorted(_walk(folder))
    if not found:
        raise InputError(
            f"Expected {folder} to hold checkpoints ({', '.join(SUFFIXES)}), in it or in folders "
            "below it, got none. Check the path."
        )
    numbered = [file for file in found if _has_number(file, folder)]
    files = numbered or found
    _check_whole(files, folder)
    _check_one_run(files, folder)
    return CheckpointFolder(tuple(files), tuple(file for file in found if file not in files))


def _walk(root: Path) -> Iterator[Path]:
    for place, below, names in os.walk(root):
        files = [
            Path(place, name)
            for name in names
            if Path(name).suffix in SUFFIXES and not name.startswith(_OTHERS)
        ]
        below[:] = [name for name in below if not name.startswith(_OTHER_FOLDERS)]
        if files and Path(place) != root:
            below.clear()
        yield from files


def _has_number(file: Path, root: Path) -> bool:
    names = [_VERSION.sub("", file.stem)]
    if file.parent != root:
        names.append(file.parent.name)
    return any(re.search(r"\d", name) for name in names)


def _check_whole(files: Iterable[Path], folder: Path) -> None:
    piece = next((file for file in files if _PIECE.search(file.name)), None)
    if piece is not None:
        raise InputError(
            f"Expected every checkpoint in {folder} to be one file, got weights in several "
            f"({piece.name}). Save them again in one, such as with max_shard_size='100GB'."
        )


def _check_one_run(files: list[Path], folder: Path) -> None:
    parents = sorted({file.parent for file in files})
    one_each = len(parents) == len(files) and len({parent.parent for parent in parents}) == 1
    if len(parents) > 1 and not one_each:
        raise InputError(
            f"Expected {folder} to hold the checkpoints of one run, got some in {parents[0]} and "
            f"some in {parents[1]}. Name one of these folders, or the files."
        )
