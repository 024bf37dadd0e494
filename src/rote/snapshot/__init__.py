"""State of model, optimizer and random generators: copied, put back, and proved unchanged."""

from rote.snapshot.exclusion import HeldSignals, exclusive, hold_signals
from rote.snapshot.objects import ObjectState, parameters_of, reachable
from rote.snapshot.preservation import (
    Snapshot,
    Uncopied,
    preserved,
    restored,
    verified,
)
from rote.snapshot.randomness import RandomState, restorer_of
from rote.snapshot.shards import offloads, sharded_modules, sharded_parameters
from rote.snapshot.tensors import Gradients, TensorValues, strided_parts

__all__ = [
    "Gradients",
    "HeldSignals",
    "ObjectState",
    "RandomState",
    "Snapshot",
    "TensorValues",
    "Uncopied",
    "exclusive",
    "hold_signals",
    "offloads",
    "parameters_of",
    "preserved",
    "reachable",
    "restored",
    "restorer_of",
    "sharded_modules",
    "sharded_parameters",
    "strided_parts",
    "verified",
]
