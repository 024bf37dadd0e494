"""Inside the preserved block of one probe: forward, backward, step, forward."""

from typing import Literal

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.backward import backward
from rote.probe.inputs import Inputs, call, num_samples, placed, take
from rote.probe.outputs import (
    LossFunction,
    as_scalar,
    check_logits,
    cross_entropy,
    predicted_classes,
)
from rote.probe.policy import PlainStep, StepRule
from rote.probe.steps import stepper
from rote.snapshot import RandomState, Snapshot, TensorValues, parameters_of
from rote.store import smallest_type

Mode = Literal["train", "eval"]


class Session:
    """A model that may be changed freely, because its snapshot will be restored.

    Every forward pass starts from the buffers, attributes and random numbers of the snapshot, so
    two losses differ by the step between them alone.

    Args:
        model: the bare module.
        optimizer: the training optimizer.
        snapshot: of model and parameters, taken just now.
        loss_fn: the objective.
        num_classes: how many classes the labels have.
        mode: train or eval.
        same_masks: whether the forward pass after the step repeats the random numbers before it.
        always_closure: whether the optimizer gets a closure without asking for it.
    """

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        snapshot: Snapshot,
        *,
        loss_fn: LossFunction,
        num_classes: int,
        mode: Mode,
        same_masks: bool,
        always_closure: bool,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._parameters = parameters_of(optimizer)
        self._snapshot = snapshot
        self._draws = snapshot.randomness
        self._loss_fn = loss_fn
        self._num_classes = num_classes
        self._mode = mode
        self._same_masks = same_masks
        self._always_closure = always_closure
        self._device = next(model.parameters()).device

    def loss(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """The objective on S̃.

        Raises:
            InputError: if logits or loss have the wrong shape.
        """
        self._rewind(self._mode)
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
        if not self._same_masks and self._draws is self._snapshot.randomness:
            self._draws = RandomState()
        backward(loss, self._parameters)
        return loss.detach()

    def losses_after(
        self, rules: tuple[StepRule, ...], inputs: Inputs, labels: Tensor
    ) -> dict[StepRule, float]:
        """The objective after each rule's step, each from the same parameters and gradients."""

        def closure() -> Tensor:
            for parameter in self._parameters:
                parameter.grad = None
            return self.differentiate(inputs, labels)

        # Plain steps leave the gradients alone; optimizers may overwrite them (nesterov, LBFGS).
        ordered = sorted(rules, key=lambda rule: not isinstance(rule, PlainStep))
        gradients = [parameter.grad for parameter in self._parameters]
        origin = self._snapshot.parameters
        if len(ordered) > 1 and not origin.is_untouched():
            # The forward pass itself wrote to parameters (Embedding with max_norm); as in training,
            # the step starts from there.
            origin = TensorValues(self._parameters)
        draws_of_step = RandomState()
        losses: dict[StepRule, float] = {}
        for position, rule in enumerate(ordered, start=1):
            if position > 1:
                origin.restore()
                draws_of_step.restore()
            is_last = position == len(ordered)
            self._put_on(gradients, copies=not (is_last or isinstance(rule, PlainStep)))
            with stepper(
                rule, self._optimizer, closure, always_closure=self._always_closure
            ) as step:
                step()
            with torch.no_grad():
                losses[rule] = self.loss(inputs, labels).item()
        return {rule: losses[rule] for rule in rules}

    def predict(self, pool: Inputs, label_shape: torch.Size) -> np.ndarray:
        """The predicted class of every sample of the pool, in eval mode, from unstepped weights.

        Args:
            pool: the samples, worked through in pieces of the size of S̃.
            label_shape: the shape of the labels of S̃.
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

    def _put_on(self, gradients: list[Tensor | None], *, copies: bool) -> None:
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient.clone() if copies and gradient is not None else gradient
