"""Labels: as a noise model takes and returns them, and as the caller gets them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rote.errors import InputError

Labels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Draw:
    """Labels drawn by one noise model, with the settings that only this model has.

    Args:
        labels: one label per sample.
        settings: what was used, as JSON can hold it.
    """

    labels: Labels
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class NoisyLabels:
    """Labels with noise, and what is known about the noise.

    Args:
        labels: one noisy label per sample.
        mask: true where the label differs from the clean one.
        realized_rate: share of labels that differ, the mean of ``mask``.
        requested_rate: the rate asked for; None for human labels. Under most models it is not
            the share of wrong labels.
        model: name of the noise model.
        description: model, rate, number of classes and settings, as JSON can hold them. The
            generator is the caller's, so no seed is in here.
    """

    labels: Labels
    mask: NDArray[np.bool_]
    realized_rate: float
    requested_rate: float | None
    model: str
    description: Mapping[str, Any]


def check_labels(name: str, labels: ArrayLike, num_classes: int) -> Labels:
    """Return the labels, one class per sample, as a new array.

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
