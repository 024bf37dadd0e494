"""Copies of the state of model, optimizer and random generators, their restoration and proof."""

from rote.snapshot.objects import (
    ObjectState as ObjectState,
    find_parameters as find_parameters,
    find_reachable as find_reachable,
)
from rote.snapshot.preservation import (
    HeldSignals as HeldSignals,
    Snapshot as Snapshot,
    Uncopied as Uncopied,
    exclude_other_threads as exclude_other_threads,
    hold_signals as hold_signals,
    preserved,
    restore_after,
    verify_unchanged,
)
from rote.snapshot.randomness import RandomState, make_restorer as make_restorer
from rote.snapshot.shards import (
    find_sharded_modules as find_sharded_modules,
    find_sharded_parameters as find_sharded_parameters,
    is_offloaded as is_offloaded,
)
from rote.snapshot.tensors import (
    FrozenTensors as FrozenTensors,
    Gradients as Gradients,
    TensorValues as TensorValues,
    split_into_strided as split_into_strided,
)

__all__ = ["RandomState", "preserved", "restore_after", "verify_unchanged"]
