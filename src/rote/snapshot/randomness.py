"""The global random number generators of Python, NumPy and torch."""

import random

import numpy as np
import torch


def uses_cuda() -> bool:
    """Whether this process has CUDA generators; asking must not start CUDA."""
    return bool(torch.cuda.is_initialized())  # type: ignore[no-untyped-call]


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
