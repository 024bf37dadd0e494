"""Model outputs: the logits in them, their cross entropy, and the classes they predict."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from rote.errors import InputError
from rote.labels import IGNORE_INDEX

LossFunction: TypeAlias = Callable[[Any, Tensor], Tensor]
"""``(output, labels) -> scalar``; one with three arguments gets (model, inputs, labels)."""


def cross_entropy(output: object, labels: Tensor) -> Tensor:
    """Return the mean cross entropy between a model's output and labels, the default objective.

    Integer labels are classes (negative ones are left out, as −100), also where the model returns
    one logit for two classes; floating labels are the zeros and ones of a multi-label task, whose
    cross entropy is the binary one, class by class.

    Args:
        output: logits, or an object with ``.logits``. The class axis is 1, or the last one when
            only that fits the labels, as in token classification (samples, tokens, classes); where
            both fit, the last for three axes and 1 for more.
        labels: one per sample, or one per token or pixel.

    Returns:
        A scalar.

    Raises:
        InputError: if there are no logits in the output, or they do not fit the labels.

    Example:
        >>> logits, labels = torch.zeros(2, 4), torch.tensor([0, 3])
        >>> round(cross_entropy(logits, labels).item(), 4)
        1.3863
    """
    logits = find_logits(output)
    if logits is None:
        raise InputError(
            "Expected the model to return logits or an object with `.logits`, "
            f"got {type(output).__name__}. Pass `loss_fn=` to say how to compute its loss."
        )
    logits, labels = convert_to_single(logits), labels.to(logits.device)
    if labels.is_floating_point():
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype))
    single = find_single_logits(logits, labels.shape)
    if single is not None:
        return _compute_binary_cross_entropy(single, labels)
    by_class = logits
    if logits.dim() == labels.dim() + 1:
        by_class = logits.movedim(find_class_axis(logits, labels.shape), -1)
    if by_class.shape[:-1] != labels.shape:
        raise InputError(
            f"Expected the model to return one row of logits per label (shape "
            f"{tuple(labels.shape)}), got shape {tuple(logits.shape)}. Pass `labels=` for another "
            "kind of label (rote.labels.PerToken, rote.labels.MultiLabel), or your own `loss_fn=`."
        )
    ignored = labels.masked_fill(labels < 0, IGNORE_INDEX)
    # One row per label: over more axes torch has no deterministic kernel for CUDA.
    rows = by_class.reshape(-1, by_class.shape[-1])
    return functional.cross_entropy(rows, ignored.reshape(-1), ignore_index=IGNORE_INDEX)


def _compute_binary_cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the mean over labels that are not negative, without waiting for their number."""
    counted = (labels >= 0).to(logits.dtype)
    shares = labels.clamp(min=0).to(logits.dtype)
    total = functional.binary_cross_entropy_with_logits(
        logits, shares, weight=counted, reduction="sum"
    )
    return total / counted.sum()


def convert_to_single(logits: Tensor) -> Tensor:
    """Convert logits of half precision: a loss in bfloat16 has steps of 1/64 at log(10)."""
    return logits.float() if logits.dtype in (torch.float16, torch.bfloat16) else logits


def check_scalar(loss: object) -> Tensor:
    """Return what a loss function returned, if it is one number.

    Raises:
        InputError: if it is not.
    """
    if isinstance(loss, Tensor) and loss.numel() == 1:
        return loss
    got = f"shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
    raise InputError(
        f"Expected `loss_fn` to return a scalar tensor, got {got}. "
        "Use the mean over the batch, as in training."
    )


def find_logits(output: object) -> Tensor | None:
    """Return the logits in a model's output, if it says which they are."""
    if isinstance(output, Tensor):
        return output
    found = output.get("logits") if isinstance(output, Mapping) else None
    found = getattr(output, "logits", found)
    return found if isinstance(found, Tensor) else None


def find_row_of_logits(output: object) -> Tensor:
    """Return the logits of one sample, of shape (1, classes).

    Raises:
        InputError: if the output holds no logits, or not one row of two or more classes.
    """
    logits = find_logits(output)
    if logits is None or logits.dim() != 2 or len(logits) != 1 or logits.shape[1] < 2:
        got = type(output).__name__ if logits is None else f"shape {tuple(logits.shape)}"
        raise InputError(
            f"Expected the model to return one row of logits of two or more classes, got {got}."
        )
    return logits


def find_single_logits(logits: Tensor, label_shape: torch.Size) -> Tensor | None:
    """Return one logit per label, in the labels' shape, if the model has one for two classes."""
    if logits.shape == label_shape:
        return logits
    if (
        logits.dim() == len(label_shape) + 1
        and logits.shape[find_class_axis(logits, label_shape)] == 1
    ):
        single = logits.squeeze(find_class_axis(logits, label_shape))
        return single if single.shape == label_shape else None
    return None


def find_class_axis(logits: Tensor, label_shape: torch.Size) -> int:
    """Return the axis of the logits that runs over classes, given the shape of their labels."""
    first_fits = logits.shape[:1] + logits.shape[2:] == label_shape
    last_fits = logits.shape[:-1] == label_shape
    return -1 if last_fits and (logits.dim() <= 3 or not first_fits) else 1


def check_logits(output: object, labels: Tensor, num_classes: int) -> None:
    """Refuse logits that cannot belong to these labels.

    Raises:
        InputError: if there is not one row of ``num_classes`` logits per label.
    """
    logits = find_logits(output)
    if logits is None or logits.dim() == 0:
        return  # an output that only the caller's own loss function understands
    if len(logits) != len(labels):
        raise InputError(
            f"Expected the model to return one row of logits per sample ({len(labels)}), "
            f"got shape {tuple(logits.shape)}."
        )
    if logits.dim() == labels.dim() + 1:
        width = logits.shape[find_class_axis(logits, labels.shape)]
    elif labels.is_floating_point() and logits.shape == labels.shape:
        width = logits.shape[-1]
    elif logits.shape == labels.shape:
        width = 1
    else:
        return
    is_single = width == 1 and num_classes == 2 and not labels.is_floating_point()
    if width != num_classes and not is_single:
        raise InputError(
            f"Expected the model's logits to have num_classes = {num_classes} classes, got {width} "
            f"(shape {tuple(logits.shape)}). Pass the number of classes the model was built for."
        )


def are_shares(values: Tensor) -> bool:
    """Whether all values are from 0 to 1."""
    return bool(((values >= 0) & (values <= 1)).all())


_RESHAPING = ("View", "Unsafe", "Squeeze", "Unsqueeze", "Select", "Slice", "Reshape", "Clone", "To")


def is_sigmoid_output(output: object) -> bool:
    """Whether a model's output, with its graph, ends in a sigmoid: probabilities, not logits."""
    logits = find_logits(output)
    node: Any = None if logits is None else logits.grad_fn
    while node is not None and node.name().startswith(_RESHAPING):
        node = node.next_functions[0][0]
    return node is not None and bool(node.name().startswith("SigmoidBackward"))


def find_undefined(output: object, label_shape: torch.Size) -> Tensor:
    """Return, for each label, whether one of its logits is NaN."""
    logits = find_logits(output)
    assert logits is not None
    single = find_single_logits(logits, label_shape)
    if single is not None:
        return single.isnan()
    return logits.isnan().any(find_class_axis(logits, label_shape))


def predict_classes(output: object, label_shape: torch.Size, *, threshold: float = 0.0) -> Tensor:
    """Return the class that the model predicts, one per label.

    Logits with an axis more than labels have one class axis: its largest entry wins. Logits of the
    labels' own shape are decided one by one (multi-label, or one logit for two classes): those
    above the ``threshold`` count, which is 0.5 for probabilities.

    Raises:
        InputError: if the output carries no logits, or they do not fit the labels.
    """
    logits = find_logits(output)
    single = None if logits is None else find_single_logits(logits, label_shape)
    if single is not None:
        return (single > threshold).long()
    if logits is not None and logits.dim() == len(label_shape) + 1:
        return logits.argmax(find_class_axis(logits, label_shape))
    got = type(output).__name__ if logits is None else f"logits of shape {tuple(logits.shape)}"
    raise InputError(
        f"Expected the model to return logits that fit labels of shape {tuple(label_shape)}, "
        f"got {got}. Pass ProbePolicy(record_predictions=False) to probe without predictions."
    )
