"""Frozen records that rooms hand to each other. Nothing here knows torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np


ZETAS = (
    "susceptibility",
    "susceptibility_relative",
    "susceptibility_plain",
    "susceptibility_plain_relative",
)
"""The four ζ: of the live or the plain step, absolute or relative to the loss before it."""


@dataclass(frozen=True)
class Reading:
    """One probe, and the running means up to it.

    Attributes:
        step: the unit of training (epoch, or step) after which the probe was taken, from 1.
        loss_before: Φ̃(W), the loss on S̃ before the throw-away step.
        loss_after: Φ̃(W̃), the loss on S̃ after it.
        drop: loss_before − loss_after.
        susceptibility: ζ, the mean of the finite drops so far.
        susceptibility_relative: the mean of drop / loss_before so far; at most 1 for losses that
            are not negative.
        loss_after_plain: the loss after the plain step instead.
        drop_plain: loss_before − loss_after_plain.
        susceptibility_plain: the mean of drop_plain so far.
        susceptibility_plain_relative: the mean of drop_plain / loss_before so far.
        validation_accuracy: the share of the pool whose given, possibly noisy label is predicted.
        seconds: how long the probe took.
        flags: what is odd about it: ``non_finite`` (left out of the mean), ``exploding`` (a drop
            of more than ten times the loss of a uniform guess), ``dominated`` (of three readings
            or more, a large one makes up more than half of the mean); with ``_plain`` behind it,
            of the plain step.
        metrics: whatever else the caller measured; also readable as attributes.
        predictions: the predicted class of each sample of the pool.
    """

    step: int
    loss_before: float
    loss_after: float
    drop: float
    susceptibility: float
    susceptibility_relative: float
    loss_after_plain: float | None = None
    drop_plain: float | None = None
    susceptibility_plain: float | None = None
    susceptibility_plain_relative: float | None = None
    validation_accuracy: float | None = None
    seconds: float = 0.0
    flags: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    predictions: np.ndarray | None = field(default=None, compare=False, repr=False)

    def __getattr__(self, name: str) -> float:
        """A metric that was given to the probe, as an attribute."""
        metrics: Mapping[str, float] = self.__dict__.get("metrics", {})
        if name in metrics:
            return metrics[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without the predictions."""
        values = {entry.name: getattr(self, entry.name) for entry in fields(self)}
        del values["predictions"]
        return values | {"flags": list(self.flags), "metrics": dict(self.metrics)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Reading:
        """The inverse of ``to_dict``; names that a later version added are passed over."""
        known = {entry.name for entry in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**(kept | {"flags": tuple(values.get("flags", ()))}))


@dataclass(frozen=True)
class RunRecord:
    """A run as it stands on disk.

    Attributes:
        path: its directory.
        description: what was run: seed, versions, policy, pool, labels (``run.json``).
        readings: every reading that counts, in order.
    """

    path: Path
    description: Mapping[str, Any]
    readings: tuple[Reading, ...]
