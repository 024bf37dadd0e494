"""Checks of labels, rates and names given to the noise models."""

import math
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from rote.errors import InputError, did_you_mean
from rote.labels.noise.record import Labels


def check_labels(name: str, labels: ArrayLike, num_classes: int) -> Labels:
    """Return the labels as a new int64 array, or refuse them.

    Args:
        name: the argument, for the message.
        labels: one class index per sample.
        num_classes: how many classes.

    Returns:
        A copy.

    Raises:
        InputError: if the labels are not integers in one dimension, are none, or name a class
            outside ``range(num_classes)``.
    """
    given = np.asarray(labels)
    if given.ndim != 1 or not np.issubdtype(given.dtype, np.integer) or not given.size:
        raise InputError(
            f"Expected `{name}` to be a one-dimensional array of at least one integer, "
            f"got {given.dtype} of shape {given.shape}."
        )
    outside = given[(given < 0) | (given >= num_classes)]
    if outside.size:
        raise InputError(
            f"Expected `{name}` to lie between 0 and {num_classes - 1} (`num_classes` - 1), "
            f"got {outside[0]}."
        )
    return given.astype(np.int64)


def check_rate(rate: object) -> float:
    """Return the rate, or refuse it.

    Args:
        rate: what was given.

    Returns:
        The rate as a float.

    Raises:
        InputError: if ``rate`` is not a number between 0 and 1.
    """
    if not _is_number(rate) or not 0 <= rate <= 1:
        raise InputError(f"Expected `rate` to be a number between 0 and 1, got {rate!r}.")
    return float(rate)


def check_positive(name: str, value: object) -> float:
    """Return the number, or refuse it.

    Args:
        name: the argument, for the message.
        value: what was given.

    Returns:
        The number as a float.

    Raises:
        InputError: if ``value`` is not a positive finite number.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise InputError(f"Expected `{name}` to be a positive finite number, got {value!r}.")
    return float(value)


def check_num_classes(num_classes: int) -> int:
    """Return the number of classes, or refuse it.

    Args:
        num_classes: what was given.

    Returns:
        The number as a Python integer.

    Raises:
        InputError: if it is not an integer of at least 2.
    """
    if isinstance(num_classes, bool) or not isinstance(num_classes, Integral) or num_classes < 2:
        raise InputError(
            f"Expected `num_classes` to be an integer of at least 2, got {num_classes!r}."
        )
    return int(num_classes)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Refuse a word that is not among the choices, and guess which was meant.

    Args:
        name: the argument, for the message.
        value: what was given.
        choices: the words allowed.

    Raises:
        InputError: if ``value`` is none of them.
    """
    known = list(choices)
    if value in known:
        return
    raise InputError(
        f"Expected `{name}` to be one of {', '.join(known)}, got {value!r}."
        f"{did_you_mean(value, known)}"
    )


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)
