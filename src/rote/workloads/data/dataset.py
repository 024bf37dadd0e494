"""A data set in memory or memory-mapped: inputs, given labels and, if known, true labels."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rote.errors import InputError
from rote.workloads.spec import InputKind

Array: TypeAlias = NDArray[Any]
Labels: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Dataset:
    """Samples and labels.

    Attributes:
        name: the name of the data set.
        source: where it was found.
        inputs: the kind of samples.
        x_train: images (samples, height, width, channels), or rows of numbers or token ids.
        y_train: the given labels.
        truth: the true labels, where known.
        x_test: further samples, if there are any.
        y_test: their true labels.
        num_classes: the number of classes.
        class_names: the names of the classes, if they have names.
        table_rows: which rows of its table the training samples are, from 0, if it is one.
        files: the files of the training samples, below the source, if they have one each.
        remarks: notes for the user on how the inputs were made.

    Example:
        >>> from rote.workloads import read_data
        >>> found = read_data("digits")
        >>> found.num_classes, found.inputs
        (10, 'images')
    """

    name: str
    source: str
    inputs: InputKind
    x_train: Array
    y_train: Labels
    truth: Labels | None
    x_test: Array | None
    y_test: Labels | None
    num_classes: int
    class_names: tuple[str, ...] = ()
    table_rows: Labels | None = None
    files: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    @property
    def sample_shape(self) -> tuple[int, ...]:
        """The shape of one sample."""
        return tuple(self.x_train.shape[1:])


def order_class_names(values: Iterable[str]) -> tuple[str, ...]:
    """Return the distinct names in the order in which classes are numbered: numbers by value.

    Example:
        >>> order_class_names(["10", "9", "10"]), order_class_names(["spam", "ham"])
        (('9', '10'), ('ham', 'spam'))
    """
    names = set(values)
    try:
        return tuple(sorted(names, key=lambda name: (float(name), name)))
    except ValueError:
        return tuple(sorted(names))


def as_labels(name: str, labels: Array, samples: int) -> Labels:
    """Return integer labels, one per sample; −1 means that there is none.

    Raises:
        InputError: if they do not fit; it calls them ``name``.
    """
    if labels.ndim != 1 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(
            f"Expected `{name}` to be a vector of integers, got {labels.dtype} of shape "
            f"{labels.shape}."
        )
    if len(labels) != samples:
        raise InputError(
            f"Expected `{name}` to have one label per sample ({samples}), got {len(labels)}."
        )
    if len(labels) and labels.min() < -1:
        raise InputError(f"Expected `{name}` to be classes from 0 on, got {labels.min()}.")
    return labels.astype(np.int64)


def as_images(name: str, images: Array) -> Array:
    """Return images with four axes; gray ones are given a channel.

    Returns:
        Bytes as they are, other numbers as float32.

    Raises:
        InputError: if they do not fit.
    """
    with_channels = images[..., None] if images.ndim == 3 else images
    if with_channels.ndim != 4 or with_channels.shape[1] != with_channels.shape[2]:
        raise InputError(
            f"Expected `{name}` to be square images (samples, size, size[, channels]), got shape "
            f"{images.shape}. Crop or pad them, move the channels to the end, or flatten them and "
            "set data.inputs = 'features'."
        )
    return with_channels if with_channels.dtype == np.uint8 else as_numbers(name, with_channels)


def as_numbers(name: str, numbers: Array) -> Array:
    """Return an array of any shape as float32.

    Raises:
        InputError: if it holds anything but finite numbers; it calls them ``name``.
    """
    if numbers.dtype.kind not in "biuf":
        raise InputError(f"Expected `{name}` to hold numbers, got {numbers.dtype}.")
    converted = numbers.astype(np.float32, copy=False)
    if not np.isfinite(converted).all():
        raise InputError(f"Expected `{name}` to hold finite numbers, got NaN or infinity.")
    return converted
