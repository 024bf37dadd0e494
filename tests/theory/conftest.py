"""Small problems and the real data that tests of the theory share."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pytest

FloatArray: TypeAlias = npt.NDArray[np.float64]

MNIST = Path(__file__).parents[3] / "shared" / "data" / "mnist.npz"


@pytest.fixture
def unit_rows() -> Callable[..., FloatArray]:
    """Draw samples of norm 1."""

    def draw(n: int, d: int, seed: int = 0) -> FloatArray:
        x = np.random.default_rng(seed).standard_normal((n, d))
        return np.asarray(x / np.linalg.norm(x, axis=1, keepdims=True))

    return draw


@pytest.fixture(scope="session")
def mnist() -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """The first 1000 digits of MNIST, as pixels and classes."""
    if not MNIST.exists():
        pytest.skip(f"MNIST is not at {MNIST}")
    with np.load(MNIST) as archive:
        return archive["x_train"][:1000], archive["y_train"][:1000]
