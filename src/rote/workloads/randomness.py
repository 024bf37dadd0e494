"""Random generators that are derived from one seed, one for each purpose.

A generator's seed is a hash of the root seed and of names, so that adding a use of randomness
moves no other, and any epoch can be repeated without the epochs before it.
"""

import hashlib

import numpy as np
import torch


def derive_seed(root: int, *names: str | int) -> int:
    """Derive the 63-bit seed of one use of randomness.

    Args:
        root: the seed in the run spec.
        *names: what is drawn, such as ``("order", 3)`` for the batches of the third epoch.

    Example:
        >>> derive_seed(0, "weights") == derive_seed(0, "weights") != derive_seed(0, "order", 1)
        True
    """
    text = "/".join(map(str, (root, *names)))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def make_torch_generator(root: int, *names: str | int) -> torch.Generator:
    """Return a CPU generator for one use of randomness."""
    return torch.Generator().manual_seed(derive_seed(root, *names))


def make_numpy_generator(root: int, *names: str | int) -> np.random.Generator:
    """Return a NumPy generator for one use of randomness."""
    return np.random.default_rng(derive_seed(root, *names))
