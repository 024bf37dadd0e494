"""Resistance: the number of steps until a network memorizes one sample."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError
from rote.probe.compatibility import (
    check_model_and_optimizer,
    communicates,
    unwrap,
    unwrap_optimizer,
)
from rote.probe.inputs import Inputs, copy_inputs, list_tensors, map_tensors, move_inputs
from rote.probe.objective import (
    LossFunction,
    call,
    cross_entropy,
    evaluate_loss,
    evaluate_objective,
    find_part_with_logits,
    find_row_of_logits,
    takes_model,
)
from rote.probe.policy import Mode, PlainStep, StepRule, check_rule
from rote.probe.session import restore_everything
from rote.probe.steps import make_stepper, needs_closure, run_backward
from rote.snapshot import HeldSignals, find_parameters, hold_signals, restore_after


@dataclass(frozen=True, eq=False)
class Resistance:
    """The result of training on one sample until it is memorized.

    Attributes:
        label: the class to learn.
        steps: k̃, the steps until it was predicted: 0 when it was from the start, ``None`` when
            ``max_steps`` were not enough or training diverged on the way.
        probabilities: of every class before the first step and after each, of shape
            (steps taken + 1, classes).
        losses: the objective at the same moments, of shape (steps taken + 1,).

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        >>> found = rote.resistance(model, optimizer, torch.ones(4), label=2, max_steps=50)
        >>> found.label, len(found.losses) == found.steps + 1
        (2, True)
    """

    label: int
    steps: int | None
    probabilities: npt.NDArray[np.float64]
    losses: npt.NDArray[np.float64]

    @property
    def is_memorized(self) -> bool:
        """Whether the label was predicted in the end."""
        return self.steps is not None


def resistance(
    model: nn.Module,
    optimizer: Optimizer | Sequence[Optimizer],
    input: Inputs,  # noqa: A002  # the name that a forward pass gives it
    label: int | Tensor,
    *,
    max_steps: int = 1000,
    loss_fn: LossFunction | None = None,
    rule: StepRule = "live",
    mode: Mode = "eval",
    temperature: float = 1.0,
    min_probability: float = 0.0,
    closure: bool = False,
    verify: bool = False,
) -> Resistance:
    """Train on one sample until its label is predicted; then restore everything.

    This is the first figure of the paper: good networks take many steps to a wrong label, and few
    to the correct label of an unseen sample. The optimizer's state evolves with the steps as in
    training, without its hooks. Afterwards model, optimizer, gradients and random numbers are as
    before, bit for bit, even if an error is raised.

    Args:
        model: the network in training.
        optimizer: its optimizer. At the end of a schedule its learning rate may be 0: then compare
            networks by ``rule=PlainStep(lr)``.
        input: one sample as the model takes it, with a batch axis of length 1 or without one: a
            tensor, a tuple of arguments or a mapping of keyword arguments. If the model takes both,
            it counts as a batch.
        label: the class to learn, wrong or right.
        max_steps: the maximum number of steps.
        loss_fn: the training objective ``(output, labels) -> scalar``; by default cross entropy.
        rule: ``"live"`` (the training optimizer from its live state), ``"fresh"`` (the same as if
            newly built) or a ``PlainStep``.
        mode: of the passes that are differentiated. By default ``"eval"``: batch statistics of one
            sample are no statistics, and BatchNorm refuses them. Predictions are always made in
            eval mode.
        temperature: T, by which logits are divided for the probabilities, so that networks are
            judged at equal calibration (`find_temperature_for_error`). The objective ignores T,
            which would also change the learning rate, by about 1/T².
        min_probability: to count as memorized, the predicted label must also have this probability.
        closure: pass the optimizer a closure although its signature needs none, as ``ProbePolicy``.
        verify: prove by checksum that nothing changed.

    Returns:
        The steps and the trajectory.

    Raises:
        InputError: if an argument does not fit; nothing was touched.
        InterferenceError: with ``verify``, if something could not be restored.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 3)
        >>> _ = torch.nn.init.eye_(model.weight), torch.nn.init.zeros_(model.bias)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> found = resistance(model, optimizer, torch.tensor([2.0, 0.0]), 2)
        >>> found.steps, found.probabilities.shape
        (3, (4, 3))
    """
    network = unwrap(model)
    check_model_and_optimizer(network, optimizer)
    stepped = unwrap_optimizer(optimizer)
    if communicates(network):
        raise InputError(
            "The forward pass of `model` waits for other ranks (fully_shard, SyncBatchNorm). "
            "Measure resistance in one process."
        )
    check_rule("rule", rule)
    check_choice("mode", mode, get_args(Mode))
    limits = _Limits(max_steps, temperature, min_probability)
    objective = loss_fn or cross_entropy
    device = next(network.parameters()).device
    with (
        hold_signals() as held,
        restore_everything(network, stepped, objective, verify=verify) as snapshot,
    ):
        with restore_after(snapshot):
            sample = move_inputs(copy_inputs(input), device)
            batch, classes = _make_batch_of_one(network, sample, objective)
        snapshot.set_aside()
        wanted = _convert_to_class(label, classes)
        learner = _Learner(
            network,
            stepped,
            batch,
            torch.tensor([wanted], device=device),
            objective,
            mode=mode,
            steps_by_itself=not isinstance(rule, PlainStep) and needs_closure(stepped),
        )
        with make_stepper(rule, stepped, learner.evaluate, always_closure=closure) as step:
            return _memorize(learner, step, wanted, limits, held)


@dataclass(frozen=True)
class _Limits:
    """The criteria for memorization and for stopping."""

    max_steps: int
    temperature: float
    min_probability: float

    def __post_init__(self) -> None:
        check_integer("max_steps", self.max_steps, least=0)
        check_number("temperature", self.temperature, above=0)
        check_number("min_probability", self.min_probability, least=0, below=1)


def _make_batch_of_one(
    network: nn.Module, sample: Inputs, loss_fn: LossFunction
) -> tuple[Inputs, int]:
    """Return the sample as a batch of one, and the number of classes that the network predicts.

    Args:
        network: the network.
        sample: the sample, with or without a batch axis.
        loss_fn: the objective, which finds the logits in the output.

    Raises:
        InputError: if the network takes it neither as it is nor with a batch axis in front.
    """
    shapes = [tuple(tensor.shape) for _, tensor in list_tensors(sample)]
    if not shapes:
        raise InputError(
            "Expected `input` to be a tensor, or a tuple or mapping of tensors, "
            f"got {type(sample).__name__} without a tensor."
        )
    candidates = [map_tensors(sample, lambda tensor: tensor.unsqueeze(0))]
    if all(shape[:1] in ((), (1,)) for shape in shapes):
        candidates.insert(0, sample)
    network.eval()
    refusal: Exception | None = None
    for candidate in candidates:
        try:
            with torch.no_grad():
                logits = find_row_of_logits(
                    find_part_with_logits(loss_fn, call(network, candidate))
                )
        except (RuntimeError, ValueError, TypeError, IndexError) as error:
            refusal = error
        else:
            return candidate, logits.shape[1]
    raise InputError(
        "Expected `input` to be one sample that the model takes, with or without a batch axis of "
        f"length 1, got {', '.join(map(str, shapes))}: {refusal}"
    ) from refusal


def _convert_to_class(label: int | Tensor, classes: int) -> int:
    """Return the label as a plain number.

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


class _Learner:
    """A network that learns one sample; its snapshot is restored later.

    Args:
        network: the bare module.
        optimizer: the training optimizer.
        batch: the sample, as a batch of one.
        labels: its label, of shape (1,).
        loss_fn: the objective.
        mode: train or eval, in the passes that are differentiated.
        steps_by_itself: whether the step evaluates the objective through a closure.
    """

    def __init__(
        self,
        network: nn.Module,
        optimizer: Optimizer,
        batch: Inputs,
        labels: Tensor,
        loss_fn: LossFunction,
        *,
        mode: Mode,
        steps_by_itself: bool,
    ) -> None:
        self._network, self._batch, self._labels = network, batch, labels
        self._loss_fn = loss_fn
        self._parameters = find_parameters(optimizer)
        self._steps_by_itself = steps_by_itself
        if mode == "train" and not network.training:
            network.train()
        # A model in train mode may hold layers in eval mode on purpose (frozen BatchNorm).
        flags = [(module, mode == "train" and module.training) for module in network.modules()]
        self._flags = flags
        self._steps_in_eval = not any(is_training for _, is_training in flags)

    def observe(self) -> tuple[Tensor, Tensor]:
        """Return logits, of shape (classes,), and the objective, both in eval mode.

        Raises:
            InputError: if the objective cannot be computed.
        """
        self._network.eval()
        with torch.set_grad_enabled(self._steps_in_eval):
            logits, loss = self._run_forward()
        return logits.detach()[0], loss

    def prepare_step(self, observed: Tensor) -> None:
        """Put the gradients of the objective on the parameters.

        Args:
            observed: the objective as just observed; in eval mode its graph is the one to
                differentiate.

        Raises:
            InputError: if no gradient can flow.
        """
        for module, is_training in self._flags:
            module.training = is_training
        if self._steps_by_itself:
            return
        if self._steps_in_eval:
            self._differentiate(observed)
        else:
            self.evaluate()

    def evaluate(self) -> Tensor:
        """Evaluate the objective and put its gradients on the parameters."""
        with torch.enable_grad():
            _, loss = self._run_forward()
        return self._differentiate(loss)

    def _differentiate(self, loss: Tensor) -> Tensor:
        for parameter in self._parameters:
            parameter.grad = None
        run_backward(loss, self._parameters)
        return loss.detach()

    def _run_forward(self) -> tuple[Tensor, Tensor]:
        output = call(self._network, self._batch)
        logits = find_row_of_logits(find_part_with_logits(self._loss_fn, output))
        if takes_model(self._loss_fn):
            loss = evaluate_objective(self._loss_fn, self._network, self._batch, self._labels)
            return logits, loss
        return logits, evaluate_loss(self._loss_fn, output, self._labels)


def _memorize(
    learner: _Learner,
    step: Callable[[], None],
    label: int,
    limits: _Limits,
    signals: HeldSignals,
) -> Resistance:
    """Step until the label is predicted, training diverges, or ``max_steps`` are taken."""
    probabilities, losses = [], []
    steps = None
    for taken in range(limits.max_steps + 1):
        logits, loss = learner.observe()
        row = (logits.cpu().double() / limits.temperature).softmax(0)
        probabilities.append(row.numpy())
        losses.append(loss.item())
        # argmax treats NaN as the largest, but a diverged network has no prediction.
        if not bool(row.isfinite().all()):
            break
        if int(logits.argmax()) == label and float(row[label]) >= limits.min_probability:
            steps = taken
            break
        signals.run_handlers()  # Ctrl-C must not wait for all steps
        if taken < limits.max_steps:
            learner.prepare_step(loss)
            step()
    return Resistance(label, steps, _make_read_only(probabilities), _make_read_only(losses))


def _make_read_only(values: list[Any]) -> npt.NDArray[np.float64]:
    array = np.array(values, dtype=np.float64)
    array.flags.writeable = False
    return array
