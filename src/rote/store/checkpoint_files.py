"""Where the weights after a reading lie: in the run's own folder, or where its file says."""

import json
from pathlib import Path

CHECKPOINT_FOLDER = "checkpoints"
CHECKPOINTS_FILE = "checkpoints.json"
"""From steps to files, of a run whose weights lie elsewhere."""

_SAVED_AS = ("safetensors", "pt", "pth", "ckpt")


def checkpoint_path(run: Path | str, step: int) -> Path:
    """Where a run of a spec keeps the weights after an epoch."""
    return Path(run) / CHECKPOINT_FOLDER / f"step-{step:05d}.safetensors"


def find_checkpoint(run: Path, step: int) -> Path | None:
    """The weights after a step of a run: a file, or a trainer's folder; None if there are none.

    Of a loop of somebody's own, what is saved as ``step-7.pt`` in the run's folder is found, too.
    """
    names = [f"{stem}.{end}" for end in _SAVED_AS for stem in (f"step-{step:05d}", f"step-{step}")]
    places = [folder / name for folder in (run / CHECKPOINT_FOLDER, run) for name in names]
    saved = next((place for place in places if place.is_file()), None)
    if saved is not None:
        return saved
    try:
        named = json.loads((run / CHECKPOINTS_FILE).read_bytes())
        found = run / named[str(step)]
        return found if found.exists() else None
    except (OSError, ValueError, TypeError, KeyError, RecursionError):  # none, or damaged
        return None
