"""What a trial tells before training starts: whether the objective measures what it seems to."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from rote.errors import InputError, ProbabilitiesWarning, RoteWarning, UnrepeatablePassWarning
from rote.probe.inputs import Inputs
from rote.probe.objective import LogitsAt, evaluated, takes_model
from rote.probe.outputs import (
    LossFunction,
    are_shares,
    class_axis,
    cross_entropy,
    logits_of,
    single_logits,
)
from rote.probe.ranks import world_size
from rote.probe.session import Session

_REPEATABLE = 1e-3
"""Two passes from one state may differ by rounding, where sums are taken in any order."""


def examine_objective(
    session: Session, loss_fn: LossFunction, inputs: Inputs, labels: Tensor, num_classes: int
) -> list[RoteWarning]:
    """Look at model and objective without a step.

    Returns:
        What a user should know.

    Raises:
        InputError: if the objective does not depend on the labels, or takes them for another thing.
    """
    with torch.no_grad():
        first, again = (session.loss(inputs, labels).item() for _ in range(2))
        other = session.loss(inputs, _changed(labels, num_classes)).item()
    if (
        math.isfinite(first)
        and other == first == again
        and not _moves_gradients(session, inputs, labels, num_classes)
    ):
        raise InputError(
            "Expected the loss to depend on the random labels, got the same loss and gradients "
            "with others: `loss_fn` or the model uses labels of its own. Pass `loss_fn=` as a "
            "function of the model's logits and labels (rote.LogitsAt takes them out of a tuple or "
            "an object), or as a function of three arguments (model, inputs, labels)."
        )
    if again != first and world_size() == 1:  # other ranks may have nothing to repeat
        again = _farthest_of_more(session, inputs, labels, first, again)
    found = [*_unrepeatable(first, again)]
    if not takes_model(loss_fn):
        logits = logits_of(session.output(inputs))
        if logits is not None:
            found += _of_probabilities(loss_fn, logits, labels, first)
            found += _of_sigmoid(session, loss_fn, logits, labels, inputs)
            _check_rows(loss_fn, logits, labels.to(logits.device))
    return found


def _changed(labels: Tensor, num_classes: int) -> Tensor:
    """Other labels, each wrong if the first were right; ignored ones stay ignored."""
    if labels.is_floating_point():
        return 1 - labels
    return torch.where(labels >= 0, (labels + 1) % num_classes, labels)


def _moves_gradients(session: Session, inputs: Inputs, labels: Tensor, num_classes: int) -> bool:
    """Whether other labels give other gradients: an untrained layer of zeros has the same loss."""
    if world_size() > 1:
        return True  # not asked: the other ranks may have nothing to ask
    some = session.gradients(inputs, labels)
    others = session.gradients(inputs, _changed(labels, num_classes))
    pairs = zip(some, others, strict=True)
    return any((a is None) != (b is None) or (a is not None and _differ(a, b)) for a, b in pairs)


def _differ(one: Tensor, other: Tensor | None) -> bool:
    assert other is not None
    one, other = (t.detach().to_dense() if t.is_sparse else t.detach() for t in (one, other))
    return not torch.equal(one, other)


def _farthest_of_more(
    session: Session, inputs: Inputs, labels: Tensor, first: float, again: float
) -> float:
    """Of a few losses from one state the one farthest from the first: two may be near by chance."""
    with torch.no_grad():
        more = [session.loss(inputs, labels).item() for _ in range(3)]
    return max([again, *more], key=lambda loss: abs(loss - first))


def _unrepeatable(first: float, again: float) -> Iterator[RoteWarning]:
    if math.isfinite(first) and abs(first - again) > _REPEATABLE * max(abs(first), 1e-3):
        yield UnrepeatablePassWarning(
            "Expected two passes from the same state to give the same loss, got "
            f"{first:.6g} and {again:.6g}: the forward pass draws random numbers that cannot be "
            "wound back (torch.seed(), the operating system, a clock). Drops then hold that noise. "
            "Draw from torch's, NumPy's or Python's generators."
        )


def _of_probabilities(
    loss_fn: LossFunction, logits: Tensor, labels: Tensor, value: float
) -> Iterator[RoteWarning]:
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    if logits.dim() != labels.dim() + 1 or labels.is_floating_point():
        return
    axis = class_axis(logits, labels.shape)
    sums = logits.float().sum(axis)
    if logits.shape[axis] < 2 or not are_shares(logits) or bool((sums - 1).abs().max() > 1e-3):
        return
    # A function of the user's own that comes to the same is the same.
    is_for_logits = loss in (cross_entropy, functional.cross_entropy)
    is_equal = abs(cross_entropy(logits, labels.to(logits.device)).item() - value) < 1e-6
    if is_for_logits or is_equal or isinstance(loss, nn.CrossEntropyLoss):
        yield ProbabilitiesWarning(
            "Expected the model to return logits for cross entropy, got rows of probabilities that "
            "sum to 1: their cross entropy is not the one of training. Pass the loss that training "
            "uses (`loss_fn=lambda p, y: torch.nn.functional.nll_loss(p.log(), y)`), or return "
            "logits."
        )


def _of_sigmoid(
    session: Session, loss_fn: LossFunction, logits: Tensor, labels: Tensor, inputs: Inputs
) -> Iterator[RoteWarning]:
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    is_for_logits = loss in (cross_entropy, functional.binary_cross_entropy_with_logits)
    if not (is_for_logits or isinstance(loss, nn.BCEWithLogitsLoss)) or not are_shares(logits):
        return
    is_binary = labels.is_floating_point() or single_logits(logits, labels.shape) is not None
    if is_binary and session.ends_in_sigmoid(inputs, session.mode):
        yield ProbabilitiesWarning(
            "Expected the model to return logits for a binary cross entropy on logits, got "
            "probabilities of a sigmoid: their cross entropy is not the one of training. Pass "
            "`loss_fn=torch.nn.BCELoss()`, or return logits."
        )


def _check_rows(loss_fn: LossFunction, logits: Tensor, labels: Tensor) -> None:
    """With as many samples as classes, a loss for rows of shares takes classes without complaint.

    Raises:
        InputError: if the loss fails on twice the samples.
    """
    if labels.is_floating_point() or labels.dim() != 1 or tuple(logits.shape) != 2 * (len(labels),):
        return
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    if loss is cross_entropy:
        return
    try:
        evaluated(loss, logits.repeat(2, 1), labels.repeat(2))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            "Expected `loss_fn` to take one class per sample, got one that works only because "
            f"there are as many samples as classes ({len(labels)}); with twice the samples it "
            f"says: {error}. For a loss of rows of shares, pass `loss_fn=lambda o, y: loss(o, "
            "torch.nn.functional.one_hot(y, num_classes).float())`."
        ) from error
