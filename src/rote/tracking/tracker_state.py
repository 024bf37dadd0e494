"""The saved state of a tracker: whether it belongs here, and the readings in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from rote.errors import StateError
from rote.probe import ProbePolicy
from rote.records import Reading

STATE_VERSION = 3
_READABLE = {2, 3}  # 3 has the states of signals
_KEYS = {
    "version",
    "step",
    "num_classes",
    "policy",
    "holdout",
    "batch",
    "means",
    "readings",
    "predictions",
}


def check_state(
    state: Mapping[str, Any], *, num_classes: int, policy: ProbePolicy, holdout_hash: str | None
) -> None:
    """Refuse a state that a tracker cannot go on from.

    Raises:
        StateError: if the state is incomplete, or belongs to other inputs.
    """
    if not isinstance(state, Mapping) or set(state) - {"signals"} != _KEYS:
        keys = set(state) if isinstance(state, Mapping) else set()
        raise StateError(
            f"Expected the state of a tracker, got {type(state).__name__} with missing keys "
            f"{sorted(_KEYS - keys)} and unknown ones {sorted(keys - _KEYS - {'signals'})}."
        )
    if state["version"] not in _READABLE:
        raise StateError(
            f"Expected a tracker state of version {STATE_VERSION}, got {state['version']!r}."
        )
    if state["num_classes"] != num_classes:
        raise StateError(
            f"Expected a state for num_classes = {num_classes}, got {state['num_classes']!r}."
        )
    if not policy.measures_as(state["policy"]):
        raise StateError(
            f"Expected a state of the same policy, {policy.describe()!r}, got "
            f"{state['policy']!r}. Drops of two policies have no common mean."
        )
    if state["holdout"] != holdout_hash:
        raise StateError(
            "Expected `inputs` to be those that the state was saved with, got others (their "
            "hashes differ). Pass the same samples, or start a new tracker."
        )


def state_of(readings: Sequence[Reading]) -> dict[str, list[Any]]:
    """Readings as a state holds them."""
    predictions = [reading.predictions for reading in readings]
    return {
        "readings": [reading.to_dict() for reading in readings],
        "predictions": [None if p is None else torch.from_numpy(p) for p in predictions],
    }


def readings_of(readings: Sequence[Mapping[str, Any]], predictions: Sequence[Any]) -> list[Reading]:
    """The readings in a state."""
    return [
        replace(Reading.from_dict(values), predictions=None if p is None else p.numpy())
        for values, p in zip(readings, predictions, strict=True)
    ]
