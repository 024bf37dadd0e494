"""What the theory accepts as numbers: anything numpy reads, or a torch tensor, made float64."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import numpy.typing as npt

from rote.errors import InputError

if TYPE_CHECKING:
    import torch

FloatArray: TypeAlias = npt.NDArray[np.float64]
Numbers: TypeAlias = "npt.ArrayLike | torch.Tensor"


def as_float64(values: Numbers, name: str) -> FloatArray:
    """Return numbers, or a torch tensor, as a float64 array.

    Args:
        values: anything `numpy.asarray` reads, or a torch tensor on any device and of any type.
        name: what the caller calls it, for the message.

    Raises:
        InputError: if a value is missing, infinite or not a number.
    """
    if hasattr(values, "detach"):
        # double() before numpy(): numpy has no bfloat16.
        values = values.detach().cpu().double().numpy()
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(
            f"Expected `{name}` to be numbers, got {type(values).__name__}. "
            "Pass an array, a list of numbers or a tensor."
        ) from error
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise InputError(
            f"Expected `{name}` to be finite, got {count} values that are NaN or infinite. "
            "Remove or replace them."
        )
    return array


def as_inputs(x: Numbers, name: str = "x") -> FloatArray:
    """Return samples of any shape as rows: (n, ...) becomes (n, d).

    Raises:
        InputError: if there is no sample, or no second dimension.
    """
    array = as_float64(x, name)
    if array.ndim < 2 or array.size == 0:
        raise InputError(
            f"Expected `{name}` to be samples of shape (n, d), got shape {array.shape}. "
            "Put one sample in each row."
        )
    return array.reshape(len(array), -1)


def as_vector(y: Numbers, name: str, size: int) -> FloatArray:
    """One label per sample, or several such vectors as rows.

    Raises:
        InputError: if the last dimension is not `size`.
    """
    array = as_float64(y, name)
    if array.ndim not in (1, 2) or array.shape[-1] != size:
        raise InputError(
            f"Expected `{name}` to be of shape ({size},) or (draws, {size}), "
            f"got {array.shape}. Give one label to each sample of the Gram matrix."
        )
    return array


def as_labels(y: Numbers, name: str, size: int) -> FloatArray:
    """One label per sample.

    Raises:
        InputError: if the shape is not ``(size,)``.
    """
    array = as_float64(y, name)
    if array.shape != (size,):
        raise InputError(
            f"Expected `{name}` to be of shape ({size},), got {array.shape}. "
            "Give one label to each sample."
        )
    return array


def as_signs(y: Numbers, name: str, size: int) -> FloatArray:
    """One label of -1 or 1 per sample.

    Raises:
        InputError: if the shape is not ``(size,)``, or a label is neither -1 nor 1.
    """
    array = as_labels(y, name, size)
    strange = array[np.abs(array) != 1.0]
    if strange.size:
        raise InputError(
            f"Expected `{name}` to be labels of -1 or 1, got {strange[0]:g}. "
            "Use `binary_labels` to turn classes into two."
        )
    return array


def as_steps(steps: Numbers, name: str) -> FloatArray:
    """One or several numbers of steps, in their shape.

    Raises:
        InputError: if a number is negative or not whole.
    """
    array = as_float64(steps, name)
    strange = array[(array < 0) | (array != np.floor(array))]
    return _refuse_strange(strange, array, name, "whole numbers of steps >= 0")


def as_probability(value: Numbers, name: str) -> FloatArray:
    """One or several probabilities, in their shape.

    Raises:
        InputError: if a value lies outside [0, 1].
    """
    array = as_float64(value, name)
    return _refuse_strange(array[(array < 0) | (array > 1)], array, name, "numbers in [0, 1]")


def _refuse_strange(strange: FloatArray, array: FloatArray, name: str, what: str) -> FloatArray:
    """Return the array if it is one number or a vector, and every value is valid."""
    if strange.size or array.ndim > 1 or array.size == 0:
        got = f"{strange[0]:g}" if strange.size else f"shape {array.shape}"
        raise InputError(f"Expected `{name}` to be one or several {what}, got {got}.")
    return array


def take(x: Numbers, rows: npt.NDArray[np.intp]) -> FloatArray:
    """Return some of many samples as float64, without converting all of them.

    Raises:
        InputError: if there are fewer samples than a row asks for.
    """
    # What has a shape, a tensor too, can be indexed before it is converted.
    samples: Any = x if hasattr(x, "shape") else np.asarray(x)
    if len(samples) <= rows.max():
        raise InputError(
            f"Expected `x` to have a sample for every label, got {len(samples)} samples and a "
            f"label at index {rows.max()}. Pass inputs and labels of the same samples."
        )
    return as_inputs(samples[rows])


def iterate_slices(size: int, block: int) -> Iterator[slice]:
    """``range(size)`` in slices of at most `block`, so that temporaries stay small."""
    for start in range(0, size, block):
        yield slice(start, min(start + block, size))
