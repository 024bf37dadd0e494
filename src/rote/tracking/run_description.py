"""What ``run.json`` says about a run, and whether another run is the same."""

import math
import platform
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from rote.errors import StateError
from rote.probe import Probe, num_samples
from rote.records import COLUMNS
from rote.store import (
    GIVEN_LABELS,
    NEIGHBORS_FILE,
    bytes_of_votes,
    checksums_of,
    text_of_labels,
)
from rote.tracking.random_batch import RandomBatch
from rote.tracking.signals import Signals
from rote.version import __version__


def describe_run(
    probe: Probe,
    batch: RandomBatch,
    signals: Signals,
    *,
    predicts: bool,
    given_labels: np.ndarray | None,
    neighbor_votes: np.ndarray | None,
    seed: int,
    name: str | None,
    start: Mapping[str, float],
) -> dict[str, Any]:
    """What is known about a run before it starts."""
    given = None if given_labels is None else text_of_labels(given_labels)
    contents = {} if given is None else {GIVEN_LABELS: given.encode()}
    if neighbor_votes is not None:
        contents[NEIGHBORS_FILE] = bytes_of_votes(neighbor_votes)
    return {
        "name": name,
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": sys.argv,
        "versions": {
            "rote": __version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
            "python": platform.python_version(),
            "platform": platform.platform(),
        },
        "seed": seed,
        "num_classes": probe.num_classes,
        "policy": signals.context.policy.describe(),
        "labels": batch.describe(),
        "holdout": _describe_holdout(batch, predicts=predicts),
        # Apart from the holdout, so that a run that has none yet can be resumed.
        GIVEN_LABELS: given,
        **(checksums_of(contents) if contents else {}),
        "model": _describe_model(probe.model),
        "optimizer": _describe_optimizer(probe.optimizer),
        "start": dict(start),
        **signals.describe(),
    }


def check_same_run(found: Mapping[str, Any], wanted: Mapping[str, Any], place: str) -> None:
    """Refuse to go on with a run that measured something else.

    Raises:
        StateError: if classes, random labels, samples, policy or signals differ.
    """
    new = wanted.get("columns", {}).keys() - found.get("columns", {}).keys() - COLUMNS.keys()
    if new:
        raise StateError(
            f"Expected `signals` to be as in the run to resume ({place}), got one that measures "
            f"`{min(new)}` besides. Give what the run was started with, or start a new one "
            "elsewhere."
        )
    for key in ("num_classes", "labels", "holdout", "policy"):
        mine, theirs = wanted[key], found.get(key)
        if key == "policy":  # to verify or not changes no reading
            mine, theirs = ({**(policy or {}), "verify": None} for policy in (mine, theirs))
        if mine != theirs:
            raise StateError(
                f"Expected {_WORDS[key]} to be as in the run to resume ({place}), got "
                f"{_difference(key, mine, theirs)}. Give what the run was started with, or start "
                "a new one elsewhere."
            )


_WORDS = {
    "num_classes": "`num_classes`",
    "labels": "the random labels (`labels`, `seed`)",
    "holdout": "the holdout (`inputs`)",
    "policy": "`policy`",
}


def _describe_holdout(batch: RandomBatch, *, predicts: bool) -> dict[str, Any] | None:
    if batch.holdout is None:
        return None
    size = num_samples(batch.holdout)
    shape = [size, *batch.labels.shape[1:]] if predicts else None
    return {"size": size, "hash": batch.holdout_hash, "predictions": shape}


def _describe_model(model: nn.Module) -> dict[str, Any]:
    count = sum(parameter.numel() for parameter in model.parameters())
    return {"class": _full_name(model), "parameters": count}


def _describe_optimizer(optimizer: Optimizer) -> dict[str, Any]:
    defaults = getattr(optimizer, "defaults", {})
    settings = {name: _plain(value) for name, value in defaults.items()}
    return {"class": _full_name(optimizer), "settings": settings}


def _full_name(thing: object) -> str:
    return f"{type(thing).__module__}.{type(thing).__qualname__}"


def _plain(value: object) -> object:
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    if value is None or isinstance(value, bool | int | str):
        return value
    return value if type(value) is float and math.isfinite(value) else repr(value)


def _difference(key: str, mine: Any, theirs: Any) -> str:  # noqa: ANN401
    """What differs, in words; values that only machines read are left out."""
    if not isinstance(mine, Mapping) or not isinstance(theirs, Mapping):
        if key == "num_classes":
            return f"{mine} instead of {theirs}"
        return "a fixed one instead of none" if mine else "none instead of a fixed one"
    unlike = [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]
    plain = [name for name in unlike if name not in _UNREADABLE]
    if plain:
        return ", ".join(f"{name} {mine.get(name)} instead of {theirs.get(name)}" for name in plain)
    if key == "holdout":
        return f"as many samples ({mine['size']}), but others"
    return "others of the same kind and shape"


_UNREADABLE = ("hash", "values")
