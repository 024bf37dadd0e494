"""State of model, optimizer and random generators: copied, put back, and proved unchanged."""

from rote.snapshot.exclusion import exclusive
from rote.snapshot.objects import ObjectState, parameters_of
from rote.snapshot.preservation import (
    Snapshot,
    delayed_interrupts,
    preserved,
    restored,
    verified,
)
from rote.snapshot.randomness import RandomState, restorer_of
from rote.snapshot.reach import reachable
from rote.snapshot.shards import offloads, sharded_modules, sharded_parameters
from rote.snapshot.tensors import Gradients, TensorValues, strided_parts
from rote.snapshot.uncopied import Uncopied

__all__ = [
    "Gradients",
    "ObjectState",
    "RandomState",
    "Snapshot",
    "TensorValues",
    "Uncopied",
    "delayed_interrupts",
    "exclusive",
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
