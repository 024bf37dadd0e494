"""Accuracy on the holdout's given labels, which may be noisy themselves."""

from collections.abc import Mapping

import numpy as np
from torch import Tensor

from rote.errors import InputError
from rote.labels import IGNORE_INDEX
from rote.records import COLUMNS
from rote.tracking.signal import Signal, SignalContext


class NoisyValidation(Signal):
    """The share of the holdout whose given label is predicted.

    Args:
        given_labels: of the holdout.
    """

    name = "validation"
    columns = (COLUMNS["validation_accuracy"],)

    def __init__(self, given_labels: np.ndarray) -> None:
        self._given_labels = given_labels

    def start(self, context: SignalContext) -> None:
        """Remember where the predictions will be."""
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """The accuracy of what the probe predicted."""
        assert self._context.predictions is not None
        accuracy = validation_accuracy(self._context.predictions, self._given_labels)
        return {"validation_accuracy": accuracy}


def as_given_labels(
    given: Tensor, *, shape: tuple[int, ...], num_classes: int, name: str = "given_labels"
) -> np.ndarray:
    """Check the given labels of samples.

    Args:
        given: one label per sample (or per token; or a row of zeros and ones).
        shape: that the labels must have.
        num_classes: how many classes.
        name: what the caller calls them.

    Returns:
        Integer labels.

    Raises:
        InputError: if they do not fit.
    """
    if not isinstance(given, Tensor) or tuple(given.shape) != shape:
        got = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise InputError(
            f"Expected `{name}` to be a tensor with one label per sample of `inputs`, shape "
            f"{shape}, got {got}."
        )
    if given.is_floating_point() and given.dim() < 2:
        raise InputError(
            f"Expected `{name}` to be integers, one class per sample, got {given.dtype}. Convert "
            "classes with .long()."
        )
    values = given.detach().cpu().numpy()
    labels = values.astype(np.int64)
    inside = ((labels >= 0) & (labels < num_classes)) | (labels == IGNORE_INDEX)
    if not (inside & (labels == values)).all():
        odd = values[~(inside & (labels == values))][0]
        raise InputError(f"Expected `{name}` to be classes from 0 to {num_classes - 1}, got {odd}.")
    return labels


def validation_accuracy(predictions: np.ndarray, given: np.ndarray) -> float:
    """The share of given labels that are predicted, ignored ones left out."""
    counted = given != IGNORE_INDEX
    return float((predictions[counted] == given[counted]).mean())
