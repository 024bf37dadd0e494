"""The training objective: a loss of a model's output, or of the model and its inputs."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn
from torch.nn import functional

from rote.errors import InputError
from rote.probe.inputs import Inputs, Samples, call
from rote.probe.outputs import (
    LossFunction,
    check_logits,
    check_scalar,
    convert_to_single,
    cross_entropy,
    find_logits,
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
        """Return that part of an output.

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
    """Refuse what cannot be called with an output and labels.

    Raises:
        InputError: saying what it is instead.
    """
    if isinstance(loss_fn, type) or not callable(loss_fn):
        name = loss_fn.__name__ if isinstance(loss_fn, type) else repr(loss_fn)
        made = f" Pass an object of it: `loss_fn={name}()`." if isinstance(loss_fn, type) else ""
        raise InputError(
            "Expected `loss_fn` to be a function (output, labels) -> scalar, got "
            f"{'the class ' if made else ''}{name}.{made or ' Pass the loss of your training.'}"
        )


def takes_model(loss_fn: Callable[..., object]) -> bool:
    """Whether an objective is to be called with (model, inputs, labels): it has three arguments."""
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
    if isinstance(output, Tensor):
        output = convert_to_single(output)
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
    """Return two classes as zeros and ones, in the shape of a model's single logits."""
    logits = find_logits(output)
    if logits is None or logits.numel() != labels.numel():
        got = type(output).__name__ if logits is None else f"shape {tuple(logits.shape)}"
        raise InputError(
            f"Expected one logit per label (shape {tuple(labels.shape)}) for a binary cross "
            f"entropy, got {got}. Pass labels=rote.labels.MultiLabel(...) for several classes at "
            "once."
        )
    return labels.to(logits.dtype).reshape(logits.shape)
