"""Things that are neither tensor nor container and still change: generators and arrays."""

import random
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch

Restore: TypeAlias = Callable[[], object]


def restorer_of(thing: object) -> Restore | None:
    """A function that puts a generator or an array back to how it is now, if it is one."""
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: thing.set_state(state)
    if isinstance(thing, random.Random):
        python_state = thing.getstate()
        return lambda: thing.setstate(python_state)
    if isinstance(thing, np.random.Generator | np.random.RandomState):
        bits = thing.bit_generator if isinstance(thing, np.random.Generator) else thing
        numpy_state = _numpy_state(bits)
        return lambda: _set_numpy_state(bits, numpy_state)
    if isinstance(thing, np.ndarray) and thing.flags.writeable:
        values = thing.copy()
        return lambda: np.copyto(thing, values)
    return None


def _numpy_state(bits: np.random.BitGenerator | np.random.RandomState) -> object:
    return bits.get_state() if isinstance(bits, np.random.RandomState) else bits.state


def _set_numpy_state(bits: np.random.BitGenerator | np.random.RandomState, state: object) -> None:
    if isinstance(bits, np.random.RandomState):
        bits.set_state(state)  # type: ignore[arg-type]  # what get_state returned
    else:
        bits.state = state  # type: ignore[assignment]  # what .state returned
