"""The states of random number generators: of Python, NumPy, torch and its accelerator."""

import random
from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

Restore: TypeAlias = Callable[[], object]


class RandomState:
    """The states of all global random number generators.

    Example:
        >>> import torch
        >>> state = RandomState()
        >>> first = torch.rand(1)
        >>> state.restore()
        >>> torch.equal(torch.rand(1), first)
        True
    """

    def __init__(self) -> None:
        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._accelerator = get_accelerator_states()

    def restore(self) -> None:
        """Set every generator back to its state."""
        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._accelerator:
            _set_accelerator_states(self._accelerator)


def get_accelerator_states() -> list[Tensor]:
    """Return the generator state of each device of the accelerator; empty without one in use."""
    module = _find_accelerator()
    if module is None:
        return []
    if hasattr(module, "get_rng_state_all"):
        return list(module.get_rng_state_all())
    if not hasattr(module, "get_rng_state"):
        return []
    count = int(module.device_count()) if hasattr(module, "device_count") else 1
    if count == 1:
        return [module.get_rng_state()]
    return [module.get_rng_state(index) for index in range(count)]


def _set_accelerator_states(states: list[Tensor]) -> None:
    module = _find_accelerator()
    if hasattr(module, "set_rng_state_all"):
        module.set_rng_state_all(states)
    elif len(states) == 1:
        module.set_rng_state(states[0])
    else:
        for index, state in enumerate(states):
            module.set_rng_state(state, index)


def _find_accelerator() -> Any:  # noqa: ANN401  # torch.cuda, torch.mps, torch.xpu, or another's module
    """Return torch's module of the accelerator without starting the device, or None."""
    device = torch.accelerator.current_accelerator()
    if device is None:
        return None
    module = torch.get_device_module(device)
    is_started = getattr(module, "is_initialized", None) or getattr(module, "is_available", None)
    return module if is_started is None or is_started() else None


def make_restorer(thing: object) -> Restore | None:
    """Return a function that sets a generator back to its present state; None for other things."""
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: thing.set_state(state)
    if isinstance(thing, random.Random):
        python_state = thing.getstate()
        return lambda: thing.setstate(python_state)
    if isinstance(thing, np.random.RandomState):
        old_state = thing.get_state()
        return lambda: thing.set_state(old_state)
    if isinstance(thing, np.random.Generator | np.random.BitGenerator):
        bits = thing.bit_generator if isinstance(thing, np.random.Generator) else thing
        numpy_state = bits.state
        return lambda: setattr(bits, "state", numpy_state)
    return None
