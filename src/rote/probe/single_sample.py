"""One sample: as a batch of one, with the one row of logits and the one label that belong to it."""

import operator

import torch
from torch import Tensor, nn

from rote.errors import InputError
from rote.probe.inputs import Inputs, call, map_tensors
from rote.probe.outputs import logits_of


def as_batch_of_one(network: nn.Module, sample: Inputs) -> tuple[Inputs, int]:
    """The sample as a batch of one, and the number of classes that the network predicts.

    Raises:
        InputError: if the network takes it neither as it is nor with a batch axis in front.
    """
    shapes = _shapes(sample)
    candidates = [map_tensors(sample, lambda tensor: tensor.unsqueeze(0))]
    if all(shape[:1] in ((), (1,)) for shape in shapes):
        candidates.insert(0, sample)
    network.eval()
    refusal: Exception | None = None
    for candidate in candidates:
        try:
            with torch.no_grad():
                logits = row_of_logits(call(network, candidate))
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            refusal = error
        else:
            return candidate, logits.shape[1]
    raise InputError(
        "Expected `input` to be one sample that the model takes, with or without a batch axis of "
        f"length 1, got {', '.join(map(str, shapes))}: {refusal}"
    ) from refusal


def _shapes(sample: Inputs) -> list[tuple[int, ...]]:
    """The shape of every tensor of a nest."""
    shapes = []

    def note(tensor: Tensor) -> Tensor:
        shapes.append(tuple(tensor.shape))
        return tensor

    map_tensors(sample, note)
    if not shapes:
        raise InputError(
            "Expected `input` to be a tensor, or a tuple or mapping of tensors, "
            f"got {type(sample).__name__} without a tensor."
        )
    return shapes


def row_of_logits(output: object) -> Tensor:
    """The logits of one sample, of shape (1, classes).

    Raises:
        InputError: if the output holds no logits, or not one row of two or more classes.
    """
    logits = logits_of(output)
    if logits is None or logits.dim() != 2 or len(logits) != 1 or logits.shape[1] < 2:
        got = type(output).__name__ if logits is None else f"shape {tuple(logits.shape)}"
        raise InputError(
            f"Expected the model to return one row of logits of two or more classes, got {got}."
        )
    return logits


def as_class(label: int | Tensor, classes: int) -> int:
    """The label as a plain number.

    Raises:
        InputError: if it is not one of the network's classes.
    """
    value = label.item() if isinstance(label, Tensor) and label.numel() == 1 else label
    try:
        number = -1 if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        number = -1
    if not 0 <= number < classes:
        raise InputError(
            f"Expected `label` to be one of the {classes} classes, 0 to {classes - 1}, "
            f"got {label!r}."
        )
    return number
