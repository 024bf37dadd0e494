"""Weights of a run on disk, as safetensors, by policy."""

import math
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import nn

from rote.errors import CorruptRunError, StoreError, quote
from rote.records import Reading
from rote.store import CHECKPOINT_FOLDER, get_checkpoint_path, replace_file
from rote.workloads.spec import BestCheckpoints, Checkpoints, FieldError


def load_checkpoint(run: Path | str, step: int, model: nn.Module) -> None:
    """Load the weights after an epoch into a network of the same architecture.

    Raises:
        CorruptRunError: if there is no such checkpoint.
    """
    path = get_checkpoint_path(run, step)
    if not path.is_file():
        kept = sorted(int(file.stem.removeprefix("step-")) for file in path.parent.glob("step-*"))
        raise CorruptRunError(
            f"{run} has no checkpoint of step {step}. Steps with one: {kept or 'none'}."
        )
    load_model(model, path)


class CheckpointKeeper:
    """Writes and removes the checkpoints of a run in its directory, as its policy says."""

    def __init__(self, policy: Checkpoints, run: Path, epochs: int) -> None:
        self._policy = policy
        self._run = run
        self._epochs = epochs
        self._best: list[tuple[float, int]] = []
        for left in (run / CHECKPOINT_FOLDER).glob(".tmp*"):
            left.unlink()  # half a file of safetensors, from before a power cut

    def keep(self, model: nn.Module, epoch: int, reading: Reading | None) -> None:
        """Save the weights after an epoch, if the policy wants them.

        Raises:
            FieldError: if readings lack the metric that the policy compares.
        """
        if isinstance(self._policy, BestCheckpoints):
            if reading is not None:
                self._keep_best(self._policy, model, reading)
            return
        is_wanted = {"all": reading is not None, "last": epoch == self._epochs, "none": False}
        if is_wanted[self._policy.keep]:
            self._save(model, epoch)

    def state_dict(self) -> dict[str, Any]:
        """Return the best checkpoints so far."""
        return {"best": [list(entry) for entry in self._best]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the list of best checkpoints from a state."""
        self._best = [(value, step) for value, step in state["best"]]

    def _keep_best(self, policy: BestCheckpoints, model: nn.Module, reading: Reading) -> None:
        value = _read_metric(reading, policy.metric)
        if not math.isfinite(value):
            return
        # Small is good from here on; of equals, the earlier one is better.
        entry = (-value if policy.mode == "max" else value, reading.step)
        ranked = sorted([*self._best, entry])
        self._best = ranked[: policy.k]
        if entry in self._best:
            self._save(model, reading.step)
        for _, step in ranked[policy.k :]:
            get_checkpoint_path(self._run, step).unlink(missing_ok=True)

    def _save(self, model: nn.Module, step: int) -> None:
        path = get_checkpoint_path(self._run, step)
        path.parent.mkdir(exist_ok=True)
        try:
            with replace_file(path) as draft:
                save_model(model, str(draft), metadata={"step": str(step)})
        except SafetensorError as error:  # which wraps what the disk says
            raise StoreError(f"Cannot write {path}: {error}.") from error


def _read_metric(reading: Reading, name: str) -> float:
    value = getattr(reading, name, None)
    if not isinstance(value, float):
        known = [key for key, entry in reading.to_dict().items() if isinstance(entry, float)]
        raise FieldError(
            "checkpoints.metric",
            f"to be a number that is measured ({', '.join([*known, *reading.metrics])}), "
            f"got {quote(name)}.",
        )
    return value
