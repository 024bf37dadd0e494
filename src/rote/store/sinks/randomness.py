"""Loggers draw random numbers, too; they must not be those of the training."""

import random
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


@contextmanager
def own_randomness() -> Iterator[None]:
    """Let a logger draw from a generator of its own, and put the caller's back.

    MLflow makes up names with Python's generator: without this, a run that is logged would go on
    with other random numbers than one that is not, and runs with one seed would have one name.
    """
    python, numpy = random.getstate(), np.random.get_state()
    random.seed()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)
