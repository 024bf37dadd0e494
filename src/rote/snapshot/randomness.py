"""Random number generators: the global ones of Python, NumPy and torch, and any that one holds."""

import random
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch

Restore: TypeAlias = Callable[[], object]


class RandomState:
    """Where every global generator stands now; ``restore`` winds them back to here."""

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if uses_cuda() else []
        self._mps = torch.mps.get_rng_state() if torch.backends.mps.is_available() else None

    def restore(self) -> None:
        """Wind every generator back."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda:
            torch.cuda.set_rng_state_all(self._cuda)
        if self._mps is not None:
            torch.mps.set_rng_state(self._mps)


def uses_cuda() -> bool:
    """Whether this process has CUDA generators; asking must not start CUDA."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


def restorer_of(thing: object) -> Restore | None:
    """A function that winds a generator back to where it stands now, if the thing is one."""
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: thing.set_state(state)
    if isinstance(thing, random.Random):
        python_state = thing.getstate()
        return lambda: thing.setstate(python_state)
    if isinstance(thing, np.random.RandomState):
        old_state = thing.get_state()
        return lambda: thing.set_state(old_state)
    if isinstance(thing, np.random.Generator):
        bits = thing.bit_generator
        numpy_state = bits.state
        return lambda: setattr(bits, "state", numpy_state)
    return None
