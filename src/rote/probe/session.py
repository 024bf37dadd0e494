"""One probe: forward passes, steps and predictions of a model that is restored later."""

import functools
import sys
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from rote.errors import InputError
from rote.probe.compatibility import list_members
from rote.probe.inputs import Inputs, Samples, count_samples, move_inputs, take
from rote.probe.objective import (
    LossFunction,
    are_shares,
    call,
    evaluate_loss,
    evaluate_objective,
    find_logits,
    find_part_with_logits,
    find_single_logits,
    find_undefined,
    is_sigmoid_output,
    predict_classes,
)
from rote.probe.policy import Mode, PlainStep, ProbePolicy, StepRule
from rote.probe.steps import Backward, make_stepper, run_backward
from rote.snapshot import (
    RandomState,
    Snapshot,
    TensorValues,
    exclude_other_threads,
    find_parameters,
    find_reachable,
    restore_after,
    verify_unchanged,
)
from rote.store import find_smallest_type


@dataclass(frozen=True)
class Measurement:
    """The result of one probe.

    Attributes:
        loss_before: Φ̃(W), the loss on S̃.
        losses_after: Φ̃(W̃), the loss on S̃ after each rule's step from W.
        predictions: the predicted class of each sample of the holdout, if there was one.
        has_undefined_predictions: whether logits of the holdout are NaN in eval mode.
        resolution: the smallest change of the loss that its floating-point type can show.
        is_idle: whether the optimizer's learning rates are all 0.
    """

    loss_before: float
    losses_after: dict[StepRule, float]
    predictions: np.ndarray | None = None
    has_undefined_predictions: bool = False
    resolution: float = 0.0
    is_idle: bool = False

    def list_flags(self, policy: ProbePolicy) -> tuple[str, ...]:
        """Return the ``Reading.flags`` of this measurement."""
        rules = {"unresolved": policy.optimizer, "unresolved_plain": policy.plain}
        odd = {
            flag: rule in self.losses_after and self._is_unresolved(rule)
            for flag, rule in rules.items()
            if rule is not None
        }
        odd["undefined_predictions"] = self.has_undefined_predictions
        return tuple(flag for flag, is_odd in odd.items() if is_odd)

    def _is_unresolved(self, rule: StepRule) -> bool:
        if self.is_idle and not isinstance(rule, PlainStep):
            return False  # a step of learning rate 0 changes nothing
        return abs(self.loss_before - self.losses_after[rule]) < self.resolution


class Session:
    """A model that may be changed, because its snapshot is restored later.

    Every pass over S̃ starts from the buffers, attributes and random numbers of the snapshot, so
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
        self._parameters = find_parameters(optimizer)
        self._snapshot = snapshot
        self._draws = snapshot.randomness
        self._loss_fn = loss_fn
        self._num_classes = num_classes
        self._policy = policy
        self._backward = how
        self._device = find_device(model)

    def measure(self, inputs: Inputs, labels: Tensor, holdout: Inputs | None) -> Measurement:
        """Measure the loss on S̃ before and after each rule's step, and predict the holdout.

        Raises:
            InputError: if logits or loss have the wrong shape, or no gradient can flow.
        """
        before = self.differentiate(inputs, labels)
        after = self.measure_steps(inputs, labels)
        loss_before, *losses = _read_losses([before, *after.values()])
        found = Measurement(
            loss_before,
            dict(zip(after, losses, strict=True)),
            resolution=torch.finfo(before.dtype).eps * abs(loss_before),
            is_idle=all(group.get("lr") == 0 for group in self._optimizer.param_groups),
        )
        if holdout is None:
            return found
        classes, undefined = self.predict(holdout, labels.shape)
        return replace(found, predictions=classes, has_undefined_predictions=bool(undefined.any()))

    def evaluate(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """Evaluate the objective on S̃.

        Raises:
            InputError: if logits or loss have the wrong shape.
        """
        self._rewind(self._policy.mode)
        pieces = self._cut_into_pieces(inputs, labels)
        return _sum_losses(self._evaluate_objective(*piece) for piece in pieces)

    @torch.no_grad()
    def compute_output(self, inputs: Inputs) -> Any:  # noqa: ANN401  # a model may return anything
        """Return the model's output on samples."""
        self._rewind(self._policy.mode)
        return call(self._model, move_inputs(inputs, self._device))

    @torch.no_grad()
    def compare_labels(
        self, inputs: Inputs, labels: Tensor, others: Tensor
    ) -> tuple[Any, Tensor, Tensor]:
        """Evaluate an objective with two sets of labels, both on the output of one pass.

        The objective must keep no state and draw no random numbers, and both sets must ignore the
        same labels.

        Returns:
            The model's output on the first micro-batch, and the two losses.
        """
        self._rewind(self._policy.mode)
        outputs: list[Any] = []
        losses: list[Tensor] = []
        other_losses: list[Tensor] = []
        pieces = zip(
            self._cut_into_pieces(inputs, labels),
            self._cut_into_pieces(inputs, others),
            strict=True,
        )
        for (samples, targets, share), (_, changed, _) in pieces:
            output = call(self._model, samples)
            outputs = outputs or [output]
            losses.append(self._evaluate_output(output, targets, share))
            other_losses.append(self._evaluate_output(output, changed, share))
        return outputs[0], _sum_losses(losses), _sum_losses(other_losses)

    def compute_gradients(self, inputs: Inputs, labels: Tensor) -> list[Tensor | None]:
        """Return the gradients of the objective, parameter by parameter."""
        for parameter in self._parameters:
            parameter.grad = None
        self.differentiate(inputs, labels)
        return [parameter.grad for parameter in self._parameters]

    def differentiate(self, inputs: Inputs, labels: Tensor) -> Tensor:
        """Evaluate the objective on S̃ and add its gradients to the optimizer's parameters.

        Raises:
            InputError: if no gradient can flow.
        """
        self._rewind(self._policy.mode)
        losses = []
        for piece in self._cut_into_pieces(inputs, labels):
            with torch.enable_grad():
                loss = self._evaluate_objective(*piece)
            draws = None if self._policy.same_masks else RandomState()
            run_backward(loss, self._parameters, self._backward)
            losses.append(loss.detach())
        if draws is not None and self._draws is self._snapshot.randomness:
            self._draws = draws
        return _sum_losses(losses)

    def measure_steps(self, inputs: Inputs, labels: Tensor) -> dict[StepRule, Tensor]:
        """Evaluate the objective after each rule's step, each from the same gradients."""
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
            origin = TensorValues(self._parameters, device=policy.snapshot_device)
        draws_of_step = RandomState()
        losses: dict[StepRule, Tensor] = {}
        for rule in ordered:
            if losses:
                origin.restore()
                draws_of_step.restore()
            with make_stepper(
                rule,
                self._optimizer,
                closure,
                always_closure=policy.closure,
                device=policy.snapshot_device,
            ) as step:
                step()
            with torch.no_grad():
                losses[rule] = self.evaluate(inputs, labels)
        return {rule: losses[rule] for rule in policy.rules}

    def predict(self, holdout: Inputs, label_shape: torch.Size) -> tuple[np.ndarray, np.ndarray]:
        """Predict the class of every sample in eval mode, from unstepped weights.

        Args:
            holdout: the samples, passed in pieces of the micro-batch or of the size of S̃.
            label_shape: the shape of the labels of S̃.

        Returns:
            The predicted classes, and whether each is undefined because its logits are NaN.

        Raises:
            InputError: if the output carries no logits of these classes.
        """
        self._snapshot.parameters.restore()
        total, per_sample = count_samples(holdout), label_shape[1:]
        size = self._policy.micro_batch or label_shape[0]
        threshold: float | None = None
        if isinstance(holdout, Samples) and holdout.axis is None:
            size = total  # one pass returns all rows
        found = []
        for start in range(0, total, size):
            self._rewind("eval")
            chunk = take(holdout, slice(start, start + size))
            shape = torch.Size([count_samples(chunk), *per_sample])
            with torch.no_grad():
                output = call(self._model, move_inputs(chunk, self._device))
            output = find_part_with_logits(self._loss_fn, output)
            if threshold is None:
                threshold = self._find_threshold(output, chunk, shape)
            classes = predict_classes(output, shape, threshold=threshold)
            found.append(torch.stack([classes, find_undefined(output, shape).to(classes.dtype)]))
        predicted, undefined = torch.cat(found, 1).cpu().numpy()
        if predicted.size and predicted.max() >= max(self._num_classes, 2):
            raise InputError(
                f"Expected the model to predict one of num_classes = {self._num_classes} classes, "
                f"got class {predicted.max()}."
            )
        return predicted.astype(find_smallest_type(self._num_classes)), undefined.astype(bool)

    @property
    def whole_batch_reason(self) -> str | None:
        """The reason to pass S̃ as a whole although the policy has a micro-batch, or None."""
        if self._policy.micro_batch is None or self._policy.mode == "eval":
            return None
        if not self._model.training:
            self._model.train()
        for name, module in self._model.named_modules():
            if isinstance(module, _BatchNorm) and module.training:
                return f"layer {name!r} ({type(module).__name__}) normalizes by batch statistics"
        return None

    def take_first_piece(self, inputs: Inputs, labels: Tensor) -> tuple[Inputs, Tensor]:
        """Return the samples and labels of the first pass over S̃."""
        samples, targets, _ = next(self._cut_into_pieces(inputs, labels))
        return samples, targets

    def _cut_into_pieces(
        self, inputs: Inputs, labels: Tensor
    ) -> Iterator[tuple[Inputs, Tensor, float | None]]:
        """Cut S̃ into micro-batches, each with its share of the mean."""
        size = self._policy.micro_batch
        is_whole = isinstance(inputs, Samples) and inputs.axis is None
        if size is None or size >= len(labels) or is_whole or self.whole_batch_reason:
            yield move_inputs(inputs, self._device), labels.to(self._device), None
            return
        is_class = not labels.is_floating_point()
        counted = labels >= 0 if is_class else torch.ones_like(labels, dtype=torch.bool)
        total = int(counted.sum())
        for start in range(0, len(labels), size):
            part = slice(start, start + size)
            share = int(counted[part].sum()) / max(total, 1)
            if share:
                samples = move_inputs(take(inputs, part), self._device)
                yield samples, labels[part].to(self._device), share

    def _evaluate_objective(self, inputs: Inputs, labels: Tensor, share: float | None) -> Tensor:
        loss = evaluate_objective(self._loss_fn, self._model, inputs, labels, self._num_classes)
        return loss if share is None else loss * share

    def _evaluate_output(self, output: object, labels: Tensor, share: float | None) -> Tensor:
        loss = evaluate_loss(self._loss_fn, output, labels, self._num_classes)
        return loss if share is None else loss * share

    @property
    def mode(self) -> Mode:
        """The mode in which losses are measured."""
        return self._policy.mode

    def ends_in_sigmoid(self, inputs: Inputs, mode: Mode) -> bool:
        """Return whether the model ends in a sigmoid, and so returns probabilities."""
        self._rewind(mode)
        with torch.enable_grad():
            output = call(self._model, move_inputs(inputs, self._device))
        return is_sigmoid_output(find_part_with_logits(self._loss_fn, output))

    def _find_threshold(self, output: object, inputs: Inputs, label_shape: torch.Size) -> float:
        """Return the output above which a class is predicted, if there is one output per label."""
        logits = find_logits(output)
        single = None if logits is None else find_single_logits(logits, label_shape)
        if single is None or not are_shares(single):
            return 0.0
        return 0.5 if self.ends_in_sigmoid(inputs, "eval") else 0.0

    def _rewind(self, mode: Mode) -> None:
        """Restore buffers, attributes and random numbers; then set the mode."""
        self._snapshot.shards.reshard()
        # With the attributes that say how a weight is packed, the weight itself.
        self._snapshot.frozen.rebind()
        self._snapshot.contents.restore()
        self._draws.restore()
        if mode == "eval":
            self._model.eval()
        elif not self._model.training:
            # A model in train mode may hold layers in eval mode on purpose (frozen BatchNorm).
            self._model.train()


def find_device(model: nn.Module) -> torch.device:
    """Return the device of a model's first parameter that has values."""
    devices = [parameter.device for parameter in model.parameters()]
    return next((device for device in devices if device.type != "meta"), devices[0])


def _sum_losses(losses: Iterable[Tensor]) -> Tensor:
    first, *others = losses
    return sum(others, first)


def _read_losses(losses: list[Tensor]) -> list[float]:
    """Read several losses at once, to wait for a device only once."""
    dtype = functools.reduce(torch.promote_types, [loss.dtype for loss in losses])
    device = losses[0].device
    numbers = [loss.detach().reshape(()).to(device, dtype) for loss in losses]
    return [float(number) for number in torch.stack(numbers).tolist()]


@contextmanager
def restore_everything(
    model: nn.Module,
    optimizer: Optimizer,
    loss_fn: LossFunction,
    *,
    verify: bool,
    written: set[int] | None = None,
    keeps_writes: bool = False,
    device: str | None = None,
) -> Iterator[Snapshot]:
    """Let a block change a model, and restore everything at its end.

    The optimizer's own state is copied later, around the step that changes it.

    Args:
        model: the network.
        optimizer: its optimizer.
        loss_fn: the objective.
        verify: prove by checksum that everything was restored.
        written: ids of frozen tensors that passes write to. If it is given, other frozen
            parameters are not copied.
        keeps_writes: in a trial, find the frozen tensors that passes write to, restore them,
            and add them to ``written``.
        device: where to keep copies.

    Yields:
        The snapshot that will be restored; the gradients are set aside.

    Raises:
        ConcurrentProbeError: if another thread is probing with this optimizer.
        InterferenceError: if a frozen parameter was written to; with ``verify``, if anything could
            not be restored.
    """
    check = verify_unchanged(model, optimizer, loss_fn) if verify else nullcontext()
    with ExitStack() as stack:
        for member in list_members(optimizer):
            stack.enter_context(exclude_other_threads(member))
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(_disable_compilation())
        stack.enter_context(check)
        objects = (model, loss_fn, *_find_modules_behind(loss_fn, model))
        snapshot = Snapshot(
            *objects,
            tensors=tuple(find_parameters(optimizer)),
            spares_frozen=written is not None,
            written=written or (),
            device=device,
        )
        keeping = keeps_writes and len(snapshot.frozen) > 0
        with restore_after(snapshot), _disable_autocast_cache():
            snapshot.set_aside()
            with snapshot.frozen.keep_writes() if keeping else nullcontext():
                yield snapshot
        if written is not None:
            written |= snapshot.frozen.written


def _disable_compilation() -> AbstractContextManager[object]:
    """Run compiled parts of a model eagerly.

    The probe's batch has another size than the training's: torch.compile would compile once more,
    for sizes of any kind, and training would continue with other kernels.
    """
    if "torch._dynamo" not in sys.modules:
        return nullcontext()  # nothing can have been compiled
    stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
    return stance


@contextmanager
def _disable_autocast_cache() -> Iterator[None]:
    """Convert weights again in every forward pass under autocast.

    Autocast keeps the low-precision copies of weights until its block ends. Read after a step, such
    a copy would show the weights from before the step, and the drop would be zero.
    """
    was_enabled = torch.is_autocast_cache_enabled()
    # Not by a block of autocast, which devices without autocast refuse.
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        # A model with an autocast of its own may have left stepped weights in the cache.
        torch.clear_autocast_cache()
        torch.set_autocast_cache_enabled(was_enabled)


def _find_modules_behind(loss_fn: LossFunction, model: nn.Module) -> list[nn.Module]:
    """Return the networks that a loss function holds, apart from the model itself."""
    own = {id(module) for module in model.modules()}
    found = [thing for thing in find_reachable([loss_fn]) if isinstance(thing, nn.Module)]
    return [module for module in found if id(module) not in own]
