"""A model's outputs and its objective: passes, logits, cross entropy and predicted classes."""

import inspect
from collections.abc import Callable, Mapping
from copy import copy
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from rote.errors import InputError
from rote.labels import IGNORE_INDEX
from rote.probe.inputs import Inputs, Samples

LossFunction: TypeAlias = Callable[[Any, Tensor], Tensor]
"""``(output, labels) -> scalar``; one with three arguments gets (model, inputs, labels)."""

_RESHAPING = ("View", "Unsafe", "Squeeze", "Unsqueeze", "Select", "Slice", "Reshape", "Clone", "To")
"""The beginnings of the names of autograd nodes that only reshape or convert."""


def call(model: nn.Module, inputs: Inputs) -> Any:  # noqa: ANN401  # a model may return anything
    """Call a model with a mapping as keywords, a tuple as arguments, or a tensor as it is."""
    # A model that opens an autocast of its own, as those prepared by Accelerate do, turns the cache
    # on again, and would see the weights that were converted before the step.
    torch.clear_autocast_cache()
    if isinstance(inputs, Samples):
        output = call(model, inputs.inputs)
        return output if inputs.axis is not None else _select_rows(output, inputs.rows)
    if isinstance(inputs, Mapping):
        return model(**inputs)
    if isinstance(inputs, tuple | list):
        return model(*inputs)
    return model(inputs)


def _select_rows(output: object, rows: Tensor) -> Tensor:
    logits = find_logits(output)
    if logits is None:
        raise InputError(
            "Expected a model whose samples are rows of its logits to return logits or an object "
            f"with `.logits`, got {type(output).__name__}."
        )
    if len(rows) and not -len(logits) <= int(rows.min()) <= int(rows.max()) < len(logits):
        raise InputError(
            f"Expected `rows` to number the model's {len(logits)} rows of logits, got "
            f"{int(rows.min())} to {int(rows.max())}."
        )
    return logits[rows.to(logits.device)]


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


def _convert_logits(output: object, logits: Tensor) -> object:
    """Return a model's output with other logits, where its kind of object can be copied."""
    if isinstance(output, Tensor):
        return logits
    if find_logits(output) is logits:
        return output
    changed: Any = copy(output)
    try:
        if hasattr(output, "logits"):
            changed.logits = logits
        else:
            changed["logits"] = logits
    except (AttributeError, TypeError):
        return output  # a named tuple
    return changed


def check_scalar(loss: object) -> Tensor:
    """Return the value of a loss function, if it is one number.

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
    """Return whether all values are from 0 to 1."""
    return bool(((values >= 0) & (values <= 1)).all())


def is_sigmoid_output(output: object) -> bool:
    """Return whether an output comes out of a sigmoid: probabilities instead of logits."""
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


class LogitsAt:
    """An objective on one part of what a model returns, such as a tuple (logits, hidden states).

    Args:
        where: the place of the logits in a tuple, or their key or attribute.
        loss_fn: ``(logits, labels) -> scalar``; cross entropy by default.

    Example:
        >>> import torch
        >>> objective = LogitsAt(1)
        >>> round(objective((None, torch.zeros(2, 4)), torch.tensor([0, 3])).item(), 4)  # log 4
        1.3863
    """

    def __init__(self, where: int | str = 0, loss_fn: LossFunction | None = None) -> None:
        self.where = where
        self.loss_fn = cross_entropy if loss_fn is None else loss_fn

    def find_logits(self, output: Any) -> Any:  # noqa: ANN401  # whatever the model returns
        """Return the part of an output that holds the logits.

        Raises:
            InputError: if the output has none there.
        """
        try:
            if isinstance(self.where, str) and not isinstance(output, Mapping):
                return getattr(output, self.where)
            return output[self.where]
        except (AttributeError, KeyError, IndexError, TypeError) as error:
            raise InputError(
                f"Expected the model's output to have logits at {self.where!r}, got "
                f"{type(output).__name__} ({type(error).__name__}: {error})."
            ) from error

    def __call__(self, output: Any, labels: Tensor) -> Tensor:  # noqa: ANN401
        """Return the loss of that part."""
        return evaluate_loss(self.loss_fn, self.find_logits(output), labels)


def check_loss_fn(loss_fn: object) -> None:
    """Refuse a loss function that cannot be called with an output and labels.

    Raises:
        InputError: if it cannot; the message names its type.
    """
    if isinstance(loss_fn, type) or not callable(loss_fn):
        name = loss_fn.__name__ if isinstance(loss_fn, type) else repr(loss_fn)
        made = f" Pass an object of it: `loss_fn={name}()`." if isinstance(loss_fn, type) else ""
        raise InputError(
            "Expected `loss_fn` to be a function (output, labels) -> scalar, got "
            f"{'the class ' if made else ''}{name}.{made or ' Pass the loss of your training.'}"
        )


def takes_model(loss_fn: Callable[..., object]) -> bool:
    """Return whether an objective takes three arguments: model, inputs and labels."""
    called = loss_fn.forward if isinstance(loss_fn, nn.Module) else loss_fn
    try:
        parameters = inspect.signature(called).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    needed = [p for p in parameters if p.kind in positional and p.default is p.empty]
    return len(needed) == 3


def evaluate_objective(
    loss_fn: LossFunction,
    model: nn.Module,
    inputs: Inputs,
    labels: Tensor,
    num_classes: int | None = None,
) -> Tensor:
    """Evaluate the objective of a model on a batch.

    Raises:
        InputError: if logits or loss have the wrong shape.
    """
    if takes_model(loss_fn):
        inside = inputs.inputs if isinstance(inputs, Samples) else inputs
        return check_scalar(loss_fn(model, inside, labels))  # type: ignore[call-arg, arg-type]
    return evaluate_loss(loss_fn, call(model, inputs), labels, num_classes)


def evaluate_loss(
    loss_fn: LossFunction, output: object, labels: Tensor, num_classes: int | None = None
) -> Tensor:
    """Evaluate the loss of an output.

    Raises:
        InputError: if logits or loss have the wrong shape.
    """
    if isinstance(loss_fn, LogitsAt):
        return evaluate_loss(loss_fn.loss_fn, loss_fn.find_logits(output), labels, num_classes)
    if loss_fn is cross_entropy and num_classes is not None:
        check_logits(output, labels, num_classes)
    logits = find_logits(output)
    if logits is not None:
        # A model that is split over devices may end on another than it begins on.
        labels = labels.to(logits.device)
        output = _convert_logits(output, convert_to_single(logits))
    if not labels.is_floating_point() and _takes_shares(loss_fn):
        labels = _convert_to_shares(output, labels)
    return check_scalar(loss_fn(output, labels))


def find_part_with_logits(loss_fn: LossFunction, output: object) -> object:
    """Return the part of a model's output that the objective takes."""
    return loss_fn.find_logits(output) if isinstance(loss_fn, LogitsAt) else output


def capture_logits(loss_fn: LossFunction | None, output: object) -> Tensor:
    """Return the logits of a model's output, where the objective looks for them.

    Raises:
        InputError: if there are none.
    """
    part = output if loss_fn is None else find_part_with_logits(loss_fn, output)
    logits = find_logits(part)
    if logits is None:
        raise InputError(
            "Expected the model to return logits or an object with `.logits`, got "
            f"{type(part).__name__}. Pass loss_fn=rote.LogitsAt(...) to say where they are."
        )
    return logits


def _takes_shares(loss_fn: object) -> bool:
    functions = (functional.binary_cross_entropy_with_logits, functional.binary_cross_entropy)
    return loss_fn in functions or isinstance(loss_fn, nn.BCEWithLogitsLoss | nn.BCELoss)


def _convert_to_shares(output: object, labels: Tensor) -> Tensor:
    """Return labels of two classes as zeros and ones, in the shape of a model's single logits."""
    logits = find_logits(output)
    if logits is None or logits.numel() != labels.numel():
        got = type(output).__name__ if logits is None else f"shape {tuple(logits.shape)}"
        raise InputError(
            f"Expected one logit per label (shape {tuple(labels.shape)}) for a binary cross "
            f"entropy, got {got}. Pass labels=rote.labels.MultiLabel(...) for several classes at "
            "once."
        )
    return labels.to(logits.dtype).reshape(logits.shape)
