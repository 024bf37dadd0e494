"""One seed, and a generator of its own for everything that draws.

A generator's seed is a hash of the root seed and of names, so that adding a use of randomness
moves no other, and any epoch can be repeated without the epochs before it.
"""

import hashlib

import numpy as np
import torch


def seed_of(root: int, *names: str | int) -> int:
    """The seed of one use of randomness, of 63 bits.

    Args:
        root: the seed in the run spec.
        *names: what is drawn, such as ``("order", 3)`` for the batches of the third epoch.

    Example:
        >>> seed_of(0, "weights") == seed_of(0, "weights") != seed_of(0, "order", 1)
        True
    """
    text = "/".join(map(str, (root, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def torch_generator(root: int, *names: str | int) -> torch.Generator:
    """A CPU generator for one use of randomness."""
    return torch.Generator().manual_seed(seed_of(root, *names))


def numpy_generator(root: int, *names: str | int) -> np.random.Generator:
    """A NumPy generator for one use of randomness."""
    return np.random.default_rng(seed_of(root, *names))
