"""State of model, optimizer and random generators: copied, put back, and proved unchanged."""

from rote.snapshot.exclusion import HeldSignals, exclude_other_threads, hold_signals
from rote.snapshot.objects import ObjectState, find_parameters, find_reachable
from rote.snapshot.preservation import (
    Snapshot,
    Uncopied,
    preserved,
    restore_after,
    verify_unchanged,
)
from rote.snapshot.randomness import RandomState, make_restorer
from rote.snapshot.shards import find_sharded_modules, find_sharded_parameters, offloads
from rote.snapshot.tensors import Gradients, TensorValues, split_into_strided

__all__ = [
    "Gradients",
    "HeldSignals",
    "ObjectState",
    "RandomState",
    "Snapshot",
    "TensorValues",
    "Uncopied",
    "exclude_other_threads",
    "find_parameters",
    "find_reachable",
    "find_sharded_modules",
    "find_sharded_parameters",
    "hold_signals",
    "make_restorer",
    "offloads",
    "preserved",
    "restore_after",
    "split_into_strided",
    "verify_unchanged",
]
