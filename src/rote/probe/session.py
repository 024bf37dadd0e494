"""Inside the preserved block of one probe: forward, backward, step, forward."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from functools import partial
from types import FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.inputs import Inputs, call, num_samples, placed, take
from rote.probe.outputs import (
    LossFunction,
    as_scalar,
    check_logits,
    cross_entropy,
    predicted_classes,
)
from rote.probe.policy import Mode, PlainStep, ProbePolicy, StepRule
from rote.probe.steps import backward, stepper
from rote.snapshot import (
    RandomState,
    Snapshot,
    TensorValues,
    parameters_of,
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
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._parameters = parameters_of(optimizer)
        self._snapshot = snapshot
        self._draws = snapshot.randomness
        self._loss_fn = loss_fn
        self._num_classes = num_classes
        self._policy = policy
        self._device = next(model.parameters()).device

    def loss(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """The objective on S̃.

        Raises:
            InputError: if logits or loss have the wrong shape.
        """
        self._rewind(self._policy.mode)
        labels = labels.to(self._device)
        output = call(self._model, placed(inputs, self._device))
        if self._loss_fn is cross_entropy:
            check_logits(output, labels, self._num_classes)
        return as_scalar(self._loss_fn(output, labels))

    def differentiate(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """The objective on S̃, with its gradients put on the optimizer's parameters.

        Raises:
            InputError: if no gradient can flow.
        """
        with torch.enable_grad():
            loss = self.loss(inputs, labels)
        if not self._policy.same_masks and self._draws is self._snapshot.randomness:
            self._draws = RandomState()
        backward(loss, self._parameters)
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

    def predict(self, pool: Inputs, label_shape: torch.Size) -> np.ndarray:
        """The predicted class of every sample of the pool, in eval mode, from unstepped weights.

        The pool is worked through in pieces of the size of S̃, whose labels have ``label_shape``.

        Raises:
            InputError: if the output carries no logits of these classes.
        """
        self._snapshot.parameters.restore()
        size, per_sample = label_shape[0], label_shape[1:]
        predicted = []
        for start in range(0, num_samples(pool), size):
            self._rewind("eval")
            chunk = take(pool, slice(start, start + size))
            shape = torch.Size([num_samples(chunk), *per_sample])
            with torch.no_grad():
                output = call(self._model, placed(chunk, self._device))
            predicted.append(predicted_classes(output, shape).cpu())
        classes = torch.cat(predicted).numpy()
        if classes.size and classes.max() >= max(self._num_classes, 2):
            raise InputError(
                f"Expected the model to predict one of num_classes = {self._num_classes} classes, "
                f"got class {classes.max()}."
            )
        return classes.astype(smallest_type(self._num_classes))

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
        InterferenceError: with ``verify``, if something could not be put back.
    """
    loss_state = _objects_behind(loss_fn)
    check = verified(model, optimizer, *loss_state) if verify else nullcontext()
    with torch.inference_mode(False), check:
        snapshot = Snapshot(model, *loss_state, tensors=tuple(parameters_of(optimizer)))
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


def _objects_behind(loss_fn: Callable[..., Any]) -> list[object]:
    """What a loss function keeps its state in.

    A module or callable object is one itself; of a bound method it is the object it is bound to; of
    a partial or a closure, the modules among its arguments or the names it closes over.
    """
    if isinstance(loss_fn, MethodType):
        return [loss_fn.__self__] if hasattr(loss_fn.__self__, "__dict__") else []
    if isinstance(loss_fn, partial):
        bound = [*loss_fn.args, *loss_fn.keywords.values()]
        return [*_objects_behind(loss_fn.func), *_modules(bound)]
    if isinstance(loss_fn, FunctionType):
        cells = loss_fn.__closure__ or ()
        return _modules([cell.cell_contents for cell in cells if not _is_empty(cell)])
    is_object = hasattr(loss_fn, "__dict__") and not isinstance(loss_fn, type)
    return [loss_fn] if is_object else []


def _modules(things: list[object]) -> list[object]:
    return [thing for thing in things if isinstance(thing, nn.Module)]


def _is_empty(cell: Any) -> bool:  # noqa: ANN401  # types.CellType has no useful stub
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
