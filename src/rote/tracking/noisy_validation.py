"""Accuracy on the pool's given labels, which may be noisy themselves."""

import numpy as np
from torch import Tensor

from rote.errors import InputError
from rote.labels import IGNORE_INDEX


def as_given_labels(given: Tensor, *, samples: int, num_classes: int) -> np.ndarray:
    """Check the pool's given labels.

    Args:
        given: one label per sample of the pool (or per token; or a row of zeros and ones).
        samples: how many samples the pool has.
        num_classes: how many classes.

    Returns:
        Integer labels.

    Raises:
        InputError: if they do not fit.
    """
    if not isinstance(given, Tensor) or given.dim() == 0 or len(given) != samples:
        got = f"{len(given)}" if isinstance(given, Tensor) and given.dim() else type(given).__name__
        raise InputError(
            f"Expected `given_labels` to be a tensor with one label per sample of `inputs` "
            f"({samples}), got {got}."
        )
    labels = given.detach().cpu().numpy().astype(np.int64)
    inside = ((labels >= 0) & (labels < num_classes)) | (labels == IGNORE_INDEX)
    if not inside.all():
        raise InputError(
            f"Expected `given_labels` to be classes from 0 to {num_classes - 1}, "
            f"got {labels[~inside][0]}."
        )
    return labels


def validation_accuracy(predictions: np.ndarray, given: np.ndarray) -> float:
    """The share of given labels that are predicted, ignored ones left out.

    Raises:
        InputError: if there is not one prediction per label.
    """
    if predictions.shape != given.shape:
        raise InputError(
            f"Expected `given_labels` to have one label per prediction {predictions.shape}, "
            f"got shape {given.shape}."
        )
    counted = given != IGNORE_INDEX
    return float((predictions[counted] == given[counted]).mean())
