"""Inside the preserved block of one probe: forward, backward, step, forward."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.inputs import Inputs, Samples, call, num_samples, placed, take
from rote.probe.joint_optimizer import members_of
from rote.probe.objective import objective_of, part_with_logits
from rote.probe.outputs import (
    LossFunction,
    are_shares,
    is_of_sigmoid,
    logits_of,
    predicted_classes,
    single_logits,
)
from rote.probe.policy import Mode, PlainStep, ProbePolicy, StepRule
from rote.probe.steps import Backward, backward, stepper
from rote.snapshot import (
    RandomState,
    Snapshot,
    TensorValues,
    exclusive,
    parameters_of,
    reachable,
    restored,
    verified,
)
from rote.store import smallest_type


class Session:
    """A model that may be changed freely, because its snapshot will be restored.

    Every forward pass starts from the buffers, attributes and random numbers of the snapshot, so
    two losses differ by the step between them alone.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        snapshot: Snapshot,
        loss_fn: LossFunction,
        num_classes: int,
        policy: ProbePolicy,
        how: Backward | None = None,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._parameters = parameters_of(optimizer)
        self._snapshot = snapshot
        self._draws = snapshot.randomness
        self._loss_fn = loss_fn
        self._num_classes = num_classes
        self._policy = policy
        self._backward = how
        self._device = next(model.parameters()).device

    def loss(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """The objective on S̃.

        Raises:
            InputError: if logits or loss have the wrong shape.
        """
        self._rewind(self._policy.mode)
        labels, inputs = labels.to(self._device), placed(inputs, self._device)
        return objective_of(self._loss_fn, self._model, inputs, labels, self._num_classes)

    @torch.no_grad()
    def output(self, inputs: Inputs) -> Any:  # noqa: ANN401  # a model may return anything
        """What the model returns on S̃, as far as the objective looks at it."""
        self._rewind(self._policy.mode)
        output = call(self._model, placed(inputs, self._device))
        return part_with_logits(self._loss_fn, output)

    def gradients(self, inputs: Inputs, labels: Tensor) -> list[Tensor | None]:
        """The gradients of the objective, parameter by parameter."""
        for parameter in self._parameters:
            parameter.grad = None
        self.differentiate(inputs, labels)
        return [parameter.grad for parameter in self._parameters]

    def differentiate(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """The objective on S̃, with its gradients put on the optimizer's parameters.

        Raises:
            InputError: if no gradient can flow.
        """
        with torch.enable_grad():
            loss = self.loss(inputs, labels)
        if not self._policy.same_masks and self._draws is self._snapshot.randomness:
            self._draws = RandomState()
        backward(loss, self._parameters, self._backward)
        return loss.detach()

    def losses_after(self, inputs: Inputs, labels: Tensor) -> dict[StepRule, float]:
        """The objective after each rule's step, each from the same parameters and gradients."""
        policy = self._policy

        def closure() -> Tensor:
            for parameter in self._parameters:
                parameter.grad = None
            return self.differentiate(inputs, labels)

        # Plain steps leave the gradients alone; an optimizer may overwrite them (nesterov, LBFGS).
        ordered = sorted(policy.rules, key=lambda rule: not isinstance(rule, PlainStep))
        origin = self._snapshot.parameters
        if len(ordered) > 1 and not origin.is_untouched():
            # The forward pass itself wrote to parameters (Embedding with max_norm); as in training,
            # the step starts from there.
            origin = TensorValues(self._parameters)
        draws_of_step = RandomState()
        losses: dict[StepRule, float] = {}
        for rule in ordered:
            if losses:
                origin.restore()
                draws_of_step.restore()
            with stepper(rule, self._optimizer, closure, always_closure=policy.closure) as step:
                step()
            with torch.no_grad():
                losses[rule] = self.loss(inputs, labels).item()
        return {rule: losses[rule] for rule in policy.rules}

    def predict(self, holdout: Inputs, label_shape: torch.Size) -> np.ndarray:
        """The predicted class of every sample of the holdout, in eval mode, from unstepped weights.

        The holdout is worked through in pieces of the size of S̃, whose labels have ``label_shape``.

        Raises:
            InputError: if the output carries no logits of these classes.
        """
        self._snapshot.parameters.restore()
        total, size, per_sample = num_samples(holdout), label_shape[0], label_shape[1:]
        cut: float | None = None
        if isinstance(holdout, Samples) and holdout.axis is None:
            size = total  # one pass brings the rows of all
        predicted = []
        for start in range(0, total, size):
            self._rewind("eval")
            chunk = take(holdout, slice(start, start + size))
            shape = torch.Size([num_samples(chunk), *per_sample])
            with torch.no_grad():
                output = call(self._model, placed(chunk, self._device))
            output = part_with_logits(self._loss_fn, output)
            if cut is None:
                cut = self._cut(output, chunk, shape)
            predicted.append(predicted_classes(output, shape, cut=cut).cpu())
        classes = torch.cat(predicted).numpy()
        if classes.size and classes.max() >= max(self._num_classes, 2):
            raise InputError(
                f"Expected the model to predict one of num_classes = {self._num_classes} classes, "
                f"got class {classes.max()}."
            )
        return classes.astype(smallest_type(self._num_classes))

    @property
    def mode(self) -> Mode:
        """In which mode the losses are measured."""
        return self._policy.mode

    def ends_in_sigmoid(self, inputs: Inputs, mode: Mode) -> bool:
        """Whether the model's last layer makes probabilities, one by one."""
        self._rewind(mode)
        with torch.enable_grad():
            output = call(self._model, placed(inputs, self._device))
        return is_of_sigmoid(part_with_logits(self._loss_fn, output))

    def _cut(self, output: object, inputs: Inputs, label_shape: torch.Size) -> float:
        """Above which output a class is predicted, where there is one output per label."""
        logits = logits_of(output)
        single = None if logits is None else single_logits(logits, label_shape)
        if single is None or not are_shares(single):
            return 0.0
        return 0.5 if self.ends_in_sigmoid(inputs, "eval") else 0.0

    def _rewind(self, mode: Mode) -> None:
        """Buffers, attributes and random numbers as the caller left them; then the mode."""
        self._snapshot.shards.reshard()
        self._snapshot.contents.restore()
        self._draws.restore()
        if mode == "eval":
            self._model.eval()
        elif not self._model.training:
            # A model in train mode may hold layers in eval mode on purpose (frozen BatchNorm).
            self._model.train()


@contextmanager
def undisturbed(
    model: nn.Module, optimizer: Optimizer, loss_fn: LossFunction, *, verify: bool
) -> Iterator[Snapshot]:
    """A block in which a model may be changed freely: at its end everything is put back.

    The optimizer's own state is not, which is copied later, around the step that changes it.

    Yields:
        The snapshot that will be restored; the gradients are set aside.

    Raises:
        ConcurrentProbeError: if another thread is probing with this optimizer.
        InterferenceError: with ``verify``, if something could not be put back.
    """
    check = verified(model, optimizer, loss_fn) if verify else nullcontext()
    with ExitStack() as stack:
        for member in members_of(optimizer):
            stack.enter_context(exclusive(member))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(check)
        objects = (model, loss_fn, *_modules_behind(loss_fn, model))
        snapshot = Snapshot(*objects, tensors=tuple(parameters_of(optimizer)))
        with restored(snapshot), _uncached_autocast(next(model.parameters()).device):
            snapshot.set_aside()
            yield snapshot


@contextmanager
def _uncached_autocast(device: torch.device) -> Iterator[None]:
    """The autocast that is on now, converting weights anew in every forward pass.

    Autocast keeps the low-precision copies of weights until its block ends. Read after a step, such
    a copy would show the weights from before the step, and the drop would be zero.
    """
    with torch.autocast(
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=False,
    ):
        try:
            yield
        finally:
            # A model with an autocast of its own may have left stepped weights in the cache.
            torch.clear_autocast_cache()


def _modules_behind(loss_fn: LossFunction, model: nn.Module) -> list[nn.Module]:
    """The networks that a loss function holds, but for the model itself."""
    own = {id(module) for module in model.modules()}
    found = [thing for thing in reachable([loss_fn]) if isinstance(thing, nn.Module)]
    return [module for module in found if id(module) not in own]
