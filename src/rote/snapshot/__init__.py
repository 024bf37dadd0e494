"""State of model, optimizer and random generators: copied, put back, and proved unchanged."""

from rote.snapshot.objects import ObjectState, parameters_of, reachable
from rote.snapshot.preservation import (
    Snapshot,
    delayed_interrupts,
    preserved,
    restored,
    verified,
)
from rote.snapshot.randomness import RandomState, restorer_of
from rote.snapshot.shards import offloads, sharded_modules, sharded_parameters
from rote.snapshot.tensors import Gradients, TensorValues

__all__ = [
    "Gradients",
    "ObjectState",
    "RandomState",
    "Snapshot",
    "TensorValues",
    "delayed_interrupts",
    "offloads",
    "parameters_of",
    "preserved",
    "reachable",
    "restored",
    "restorer_of",
    "sharded_modules",
    "sharded_parameters",
    "verified",
]
