"""Labels of -1 and 1: made from classes, resampled as label noise, or entirely random."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rote.errors import InputError
from rote.theory.arrays import FloatArray, Numbers, as_float64, as_probability


@dataclass(frozen=True, eq=False)
class BinaryLabels:
    """Two labels made from several classes.

    Attributes:
        y: -1 or 1 for each sample kept, of shape (kept,).
        kept: the positions of those samples in the classes given, of shape (kept,).
        rule: how the labels were made, in words for a figure.

    Example:
        >>> binary_labels([0, 1, 2, 3]).y.tolist()
        [1.0, -1.0, 1.0, -1.0]
    """

    y: FloatArray
    kept: npt.NDArray[np.intp]
    rule: str


def binary_labels(classes: Numbers, *, pair: tuple[int, int] | None = None) -> BinaryLabels:
    """Return labels of ±1 from classes, by parity or from a pair of classes.

    Args:
        classes: a whole number for each sample, of shape (n,).
        pair: keep only these two classes, the first as 1 and the second as -1. By default all
            samples are kept, even classes as 1 and odd ones as -1.

    Returns:
        The labels, which samples they are of, and the rule in words.

    Raises:
        InputError: if classes are not whole numbers, or no sample is left on one of the two sides.

    Example:
        >>> binary_labels([3, 8, 8]).y.tolist()
        [-1.0, 1.0, 1.0]
        >>> binary_labels([3, 8, 1], pair=(8, 3)).rule
        'class 8 is 1, class 3 is -1'
    """
    values = as_float64(classes, "classes")
    if values.ndim != 1 or (values != np.floor(values)).any():
        raise InputError(
            f"Expected `classes` to be whole numbers of shape (n,), got {values.dtype} values of "
            f"shape {values.shape}. Pass one class for each sample."
        )
    if pair is None:
        kept = np.arange(len(values))
        y = np.where(values % 2 == 0, 1.0, -1.0)
        rule = "even classes are 1, odd classes are -1"
    else:
        kept = np.flatnonzero(np.isin(values, pair))
        y = np.where(values[kept] == pair[0], 1.0, -1.0)
        rule = f"class {pair[0]} is 1, class {pair[1]} is -1"
    if len(np.unique(y)) < 2:
        raise InputError(
            f"Expected `classes` to have samples on both sides ({rule}), got {len(y)} samples of "
            "one side or none. Choose another pair, or give more samples."
        )
    return BinaryLabels(y, kept, rule)


def redraw_labels(
    y: FloatArray, noise: float, *, draws: int, rng: np.random.Generator
) -> FloatArray:
    """Clean labels, each resampled uniformly from ±1 with probability `noise`, on its own.

    Args:
        y: clean labels, of shape (n,).
        noise: the label noise level LNL; on average half of it are wrong labels.
        draws: the number of label vectors to draw.
        rng: where the draws come from.

    Returns:
        Noisy labels, of shape (draws, n).

    Raises:
        InputError: if the noise level lies outside [0, 1].

    Example:
        >>> import numpy as np
        >>> redraw_labels(np.ones(4), 0.0, draws=2, rng=np.random.default_rng(0)).tolist()
        [[1.0, 1.0, 1.0, 1.0], [1.0, 1.0, 1.0, 1.0]]
    """
    level = as_probability(noise, "noise")
    is_resampled = rng.random((draws, len(y))) < level
    return np.where(is_resampled, random_labels(len(y), draws=draws, rng=rng), y)


def random_labels(samples: int, *, draws: int, rng: np.random.Generator) -> FloatArray:
    """Return labels drawn uniformly from ±1.

    Args:
        samples: the number n of samples.
        draws: the number of rows.
        rng: the source of the draws.

    Returns:
        Random labels, of shape (draws, n).

    Example:
        >>> import numpy as np
        >>> random_labels(4, draws=2, rng=np.random.default_rng(0)).shape
        (2, 4)
    """
    return rng.choice(np.array([-1.0, 1.0]), size=(draws, samples))
