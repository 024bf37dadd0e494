"""Probes of a model: the trial when tracking begins, and single measurements after it."""

import math
import traceback
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.optim import Optimizer

from rote.errors import (
    ConcurrentProbeError,
    InputError,
    InterferenceError,
    MicroBatchWarning,
    ProbabilitiesWarning,
    ProbeMemoryError,
    RoteError,
    RoteWarning,
    TrialError,
    UncopiedStateWarning,
    UnrepeatablePassWarning,
)
from rote.probe.compatibility import communicates, unwrap
from rote.probe.inputs import Inputs
from rote.probe.objective import (
    LogitsAt,
    LossFunction,
    are_shares,
    check_loss_fn,
    cross_entropy,
    evaluate_loss,
    find_class_axis,
    find_logits,
    find_part_with_logits,
    find_single_logits,
    takes_model,
)
from rote.probe.policy import ProbePolicy
from rote.probe.ranks import average_over_ranks, broadcast_from_first, count_ranks, fail_together
from rote.probe.session import Measurement, Session, restore_everything
from rote.probe.steps import Backward
from rote.snapshot import hold_signals

_REPEATABLE = 1e-3
"""How far losses of one state may differ by rounding, where sums have no fixed order."""

_ULP = torch.finfo(torch.float32).eps
_NOISE_FACTOR = 10
"""With other labels, loss or gradients must change by this factor more than in a repeated pass."""


@dataclass(frozen=True)
class Trial:
    """The result of a trial of the probe.

    Attributes:
        measurement: the measurement of the network before training.
        warnings: for the user.
    """

    measurement: Measurement
    warnings: tuple[RoteWarning, ...]


@dataclass(frozen=True)
class Probe:
    """A model and its optimizer that can be probed without changing training state.

    Attributes:
        model: the network in training; wrappers of torch.compile, DataParallel and DDP are looked
            through.
        optimizer: its optimizer.
        num_classes: the number of classes the labels have.
        loss_fn: the training objective ``(output, labels) -> scalar``, or one of three arguments
            ``(model, inputs, labels) -> scalar``.
        policy: which steps to measure, and how; the paper's Algorithm 1 by default.
        backward: how the loop differentiates a loss, if not by ``loss.backward()``.
        written: ids of frozen tensors that a pass writes to, found by ``check``.

    Example:
        >>> import torch
        >>> model = torch.nn.Linear(2, 3)
        >>> probe = Probe(model, torch.optim.SGD(model.parameters(), lr=0.1), num_classes=3)
        >>> found = probe.measure(torch.ones(4, 2), torch.tensor([0, 1, 2, 0]))
        >>> found.losses_after["live"] < found.loss_before
        True
    """

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    loss_fn: LossFunction = cross_entropy
    policy: ProbePolicy = field(default_factory=ProbePolicy)
    backward: Backward | None = None
    written: set[int] = field(default_factory=set, repr=False, compare=False)

    def measure(self, inputs: Inputs, labels: Tensor, holdout: Inputs | None = None) -> Measurement:
        """Run one forward and backward pass on S̃, and one step and forward pass per step rule.

        With several ranks all must call this; losses are means over ranks, predictions the first
        rank's.

        Args:
            inputs: the samples of S̃.
            labels: their random labels.
            holdout: samples whose classes to predict.

        Returns:
            The losses, and the predictions on the holdout.

        Raises:
            InputError: if logits or loss have the wrong shape, or no gradient can flow.
            InterferenceError: with ``policy.verify``, if something could not be restored.
            ProbeMemoryError: if there is not enough memory; everything is restored.
            RankError: if another rank failed.
        """
        return self._measure(inputs, labels, holdout, [])

    def predict(self, inputs: Inputs, label_shape: torch.Size) -> np.ndarray:
        """Predict the class of every sample in eval mode; −1 where logits are NaN.

        Args:
            inputs: the samples.
            label_shape: the shape of the labels of S̃: the size of a batch, then what a label has.

        Returns:
            One class per label.

        Raises:
            InputError: if the output carries no logits of these classes.
            ProbeMemoryError: if there is not enough memory; everything is restored.
        """
        with self.explain_memory_errors(label_shape[0]), self._open_session() as session:
            classes, undefined = session.predict(inputs, label_shape)
        return np.where(undefined, -1, classes.astype(np.int64))

    def check(self, inputs: Inputs, labels: Tensor, *, predicts: bool = False) -> Trial:
        """Probe once as a trial, to find problems before training starts.

        Checksums always prove that the trial left nothing changed, whatever the policy says.

        Args:
            inputs: the samples of S̃.
            labels: their random labels.
            predicts: whether to predict the classes of ``inputs`` as well.

        Returns:
            The measurement, and warnings for the user.

        Raises:
            InputError: if model, inputs, labels, loss and optimizer are not compatible.
            InterferenceError: naming what a probe changes and cannot restore.
            ProbeMemoryError: if there is not enough memory; the message says what to lower.
        """
        check_loss_fn(self.loss_fn)
        try:
            holdout = inputs if predicts else None
            seen = len(self.written)
            found = self._try(inputs, labels, holdout)
            if len(self.written) > seen and count_ranks() == 1:
                # Passes write to tensors that were only watched: their states differed.
                found = self._try(inputs, labels, holdout)
            with (
                self._fail_together(),
                self.explain_memory_errors(len(labels)),
                self._open_session(is_trial=True) as session,
            ):
                # With several ranks the loss is a mean, which no single rank can reproduce.
                known = found.measurement.loss_before if count_ranks() == 1 else None
                classes = self.num_classes
                more = examine_objective(session, self.loss_fn, inputs, labels, classes, known)
            return replace(found, warnings=(*found.warnings, *more))
        except RoteError:
            raise
        except Exception as error:
            raise TrialError(
                "A trial of the probe failed: `model`, `optimizer`, `inputs`, labels and `loss_fn` "
                f"do not go together. {type(error).__name__}: {error}{_suggest_fix(error, inputs)}"
            ) from error

    def _measure(
        self,
        inputs: Inputs,
        labels: Tensor,
        holdout: Inputs | None,
        seen: list[Measurement],
        *,
        is_trial: bool = False,
    ) -> Measurement:
        """Measure, and append the result to ``seen`` even if the state could not be restored."""
        with (
            self._fail_together(),
            self.explain_memory_errors(len(labels)),
            self._open_session(is_trial=is_trial) as session,
        ):
            seen.append(session.measure(inputs, labels, holdout))
        return _average_measurement(seen[-1])

    def _try(self, inputs: Inputs, labels: Tensor, holdout: Inputs | None) -> Trial:
        proving = replace(self, policy=replace(self.policy, verify=True))
        seen: list[Measurement] = []
        try:
            return Trial(proving._measure(inputs, labels, holdout, seen, is_trial=True), ())
        except ConcurrentProbeError:
            raise
        except InterferenceError as error:
            if self.policy.verify or communicates(unwrap(self.model)) or not seen:
                raise
            # A cache that is filled once is harmless; a second change or another loss is not.
            found = proving._measure(inputs, labels, holdout, seen, is_trial=True)
            first, second = seen[0].loss_before, seen[1].loss_before
            if first != second and math.isfinite(first):
                raise InterferenceError(
                    f"{error} The second trial started from another loss: {second:.6g} instead of "
                    f"{first:.6g}. Run one forward pass before you track the model."
                ) from error
            warning = UncopiedStateWarning(f"{error} The second trial left it as it was.")
            return Trial(found, (warning,))

    def _fail_together(self) -> AbstractContextManager[object]:
        # If ranks wait for each other within a pass, a failing rank cannot inform the others.
        return nullcontext() if communicates(unwrap(self.model)) else fail_together()

    @contextmanager
    def explain_memory_errors(self, batch: int) -> Iterator[None]:
        """Replace an out-of-memory error by one that says what to lower.

        Args:
            batch: the number of measured samples.

        Raises:
            ProbeMemoryError: instead of the error of torch.
        """
        try:
            yield
        except Exception as error:
            if isinstance(error, RoteError) or not _is_out_of_memory(error):
                raise
            traceback.clear_frames(error.__traceback__)  # they hold the activations
            _empty_cache()
            size, micro = batch, self.policy.micro_batch
            passed = f"{size} samples at once" if micro is None else f"{micro} of {size} samples"
            raise ProbeMemoryError(
                f"Out of memory in a probe that passes {passed} through the model. Lower "
                f"micro_batch (now {micro}) or batch (now {self.policy.batch}) in "
                f"rote.ProbePolicy(micro_batch=..., batch=...), or set snapshot_device='cpu'."
            ) from None

    @contextmanager
    def _open_session(self, *, is_trial: bool = False) -> Iterator[Session]:
        model = unwrap(self.model)
        # A probe is short, so process signals can wait until it ends.
        with (
            hold_signals(),
            restore_everything(
                model,
                self.optimizer,
                self.loss_fn,
                verify=self.policy.verify,
                written=self.written,
                keeps_writes=is_trial,
                device=self.policy.snapshot_device,
            ) as snapshot,
        ):
            yield Session(
                model,
                self.optimizer,
                snapshot,
                self.loss_fn,
                self.num_classes,
                self.policy,
                self.backward,
            )


def _is_out_of_memory(error: Exception) -> bool:
    is_cpu = isinstance(error, RuntimeError) and "allocate memory" in str(error)
    return is_cpu or isinstance(error, torch.OutOfMemoryError | MemoryError)


def _empty_cache() -> None:
    """Return the memory that torch has cached to the device."""
    device = torch.accelerator.current_accelerator()
    module: Any = None if device is None else torch.get_device_module(device)
    if hasattr(module, "empty_cache"):
        module.empty_cache()


def _suggest_fix(error: Exception, inputs: Inputs) -> str:
    """Suggest what to do about an error of torch, if its text is known."""
    text = str(error)
    if isinstance(inputs, tuple | list) and "positional argument" in text:
        return (
            f". A {type(inputs).__name__} means several arguments of the model "
            f"({len(inputs)} here): without labels, pass the samples alone"
        )
    if isinstance(inputs, Mapping) and "unexpected keyword argument" in text:
        return (
            ". A mapping means keyword arguments of the model: pass only what it takes, as with "
            "`take=lambda batch: batch[...]` for a loader (`inputs_of=` of a callback)"
        )
    if "must match the size of tensor" in text:
        return (
            ". If `loss_fn` takes rows of shares, pass `loss_fn=lambda o, y: loss(o, "
            "torch.nn.functional.one_hot(y, num_classes).float())`"
        )
    if "closure" in text:
        return (
            ". If the optimizer takes its step with a closure, as SAM, pass "
            "`policy=rote.ProbePolicy(closure=True)` to rote.track"
        )
    if "to match target batch_size" in text:
        return (
            ". If there is one label per token, pass `labels=rote.labels.PerToken(given, "
            "num_classes)`, with `given` of the labels' shape"
        )
    if "fabric.backward" in text:
        return ". Pass `backward=fabric.backward` to rote.track"
    if "create_graph" in text or "does not require grad and does not have a grad_fn" in text:
        return (
            ". If the optimizer differentiates gradients, as AdaHessian, pass "
            "`backward=lambda loss: loss.backward(create_graph=True)` to rote.track"
        )
    return ""


def _average_measurement(measurement: Measurement) -> Measurement:
    """Return the mean of the losses over all ranks, with the first rank's predictions."""
    if count_ranks() == 1:
        return measurement
    rules = list(measurement.losses_after)
    losses = [measurement.losses_after[rule] for rule in rules]
    before, *after = average_over_ranks([measurement.loss_before, *losses])
    predictions = measurement.predictions
    if predictions is not None:
        predictions = broadcast_from_first(predictions)
    after_by_rule = dict(zip(rules, after, strict=True))
    return replace(
        measurement, loss_before=before, losses_after=after_by_rule, predictions=predictions
    )


def examine_objective(
    session: Session,
    loss_fn: LossFunction,
    inputs: Inputs,
    labels: Tensor,
    num_classes: int,
    known: float | None = None,
) -> list[RoteWarning]:
    """Check model and objective without a step.

    Args:
        session: the session of the model.
        loss_fn: the objective.
        inputs: the samples of S̃.
        labels: their random labels.
        num_classes: the number of classes the labels have.
        known: the loss of an earlier pass from the same state; it saves a repeated pass.

    Returns:
        Warnings for the user.

    Raises:
        InputError: if the objective does not depend on the labels, or misreads them.
    """
    first_output, repeats, other = _compare_labels(
        session, loss_fn, inputs, labels, num_classes, known
    )
    first, noise = repeats[0], max(repeats) - min(repeats)
    samples, targets = session.take_first_piece(inputs, labels)
    is_whole = len(targets) == len(labels)
    logits = None
    if not takes_model(loss_fn):
        logits = find_logits(find_part_with_logits(loss_fn, first_output))
    tolerance = _REPEATABLE if logits is None else _compute_tolerance(logits)
    is_repeatable = noise <= tolerance * max(abs(first), 1e-3)
    if (
        math.isfinite(first)
        and is_repeatable
        and abs(other - first) <= _NOISE_FACTOR * max(noise, _ULP * abs(first))
        and not _do_labels_change_gradients(session, inputs, labels, num_classes)
    ):
        raise InputError(
            "The loss does not depend on the random labels: other labels change loss and "
            "gradients by no more than a repeated pass does. `loss_fn` or the model uses labels "
            "of its own. Pass `loss_fn=` as a function of the model's logits and labels, or of "
            "three arguments (model, inputs, labels). rote.LogitsAt takes the logits out of a "
            "tuple or an object."
        )
    found: list[RoteWarning] = [*_warn_of_whole_batch(session)]
    if math.isfinite(first) and not is_repeatable:
        found.append(_warn_of_noise(min(repeats), max(repeats)))
    if logits is not None:
        found += _warn_of_probabilities(loss_fn, logits, targets, first if is_whole else math.nan)
        found += _warn_of_sigmoid(session, loss_fn, logits, targets, samples)
        if isinstance(find_part_with_logits(loss_fn, first_output), Tensor):
            _check_rows(loss_fn, logits, targets.to(logits.device))
    return found


def _compare_labels(
    session: Session,
    loss_fn: LossFunction,
    inputs: Inputs,
    labels: Tensor,
    num_classes: int,
    known: float | None,
) -> tuple[Any, list[float], float]:
    """Evaluate the objective with the same labels repeatedly, and once with others.

    Returns:
        The model's output on the first micro-batch (None for a loss of three arguments), the losses
        of repeated passes from one state, and the loss with other labels.
    """
    others = _change_labels(labels, num_classes)
    output: Any = None
    with torch.no_grad():
        if _is_pure(loss_fn):  # one pass serves all labels
            output, loss, other = session.compare_labels(inputs, labels, others)
        elif takes_model(loss_fn):
            loss, other = session.evaluate(inputs, labels), session.evaluate(inputs, others)
        else:
            samples, targets = session.take_first_piece(inputs, others)
            output, is_whole = session.compute_output(samples), len(targets) == len(others)
            # The output of a pass does not depend on labels.
            other = (
                evaluate_loss(loss_fn, output, targets, num_classes)
                if is_whole
                else session.evaluate(inputs, others)
            )
            loss = session.evaluate(inputs, labels)
        losses = [loss.item()]
        # A pass with a graph may use other kernels; with the same loss it counts as a repeat.
        is_repeat = known is not None and known == losses[0]
        losses.append(losses[0] if is_repeat else session.evaluate(inputs, labels).item())
        if losses[0] != losses[1] and count_ranks() == 1:  # other ranks may not repeat
            # Two losses may be close by chance.
            losses += [session.evaluate(inputs, labels).item() for _ in range(3)]
    return output, losses, other.item()


def _is_pure(loss_fn: LossFunction) -> bool:
    """Return whether a loss is known to keep no state and to draw no random numbers."""
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    home = loss if isinstance(loss, FunctionType) else type(loss)
    is_of_torch = home.__module__ in ("torch.nn.functional", "torch.nn.modules.loss")
    return loss is cross_entropy or is_of_torch


def _compute_tolerance(logits: Tensor) -> float:
    """Return how far repeated losses may differ by rounding, relative to the loss."""
    if not logits.is_floating_point():
        return _REPEATABLE
    return max(_REPEATABLE, 2 * torch.finfo(logits.dtype).eps)


def _warn_of_whole_batch(session: Session) -> Iterator[RoteWarning]:
    if reason := session.whole_batch_reason:
        yield MicroBatchWarning(
            f"The probe passes S̃ through the model as a whole and ignores micro_batch: {reason}, "
            "which must be those of the whole batch. Lower ProbePolicy(batch=...) to save memory, "
            "or measure with mode='eval'."
        )


def _change_labels(labels: Tensor, num_classes: int) -> Tensor:
    """Return other labels, all different from the first; ignored ones stay ignored."""
    if labels.is_floating_point():
        return 1 - labels
    return torch.where(labels >= 0, (labels + 1) % num_classes, labels)


def _do_labels_change_gradients(
    session: Session, inputs: Inputs, labels: Tensor, num_classes: int
) -> bool:
    """Return whether labels change the gradients: with a layer of zeros the loss is the same."""
    if count_ranks() > 1:
        return True  # not measured, as other ranks may not reach this line
    some, *repeats = (session.compute_gradients(inputs, labels) for _ in range(3))
    others = session.compute_gradients(inputs, _change_labels(labels, num_classes))
    noise = max(_measure_distance(some, again) for again in repeats)
    # Repeats may be equal by chance.
    rounding = _ULP * _measure_distance(some, [None] * len(some))
    return _measure_distance(some, others) > _NOISE_FACTOR * max(noise, rounding)


def _measure_distance(some: list[Tensor | None], others: list[Tensor | None]) -> float:
    """Return the largest difference between two lists of gradients, where None is 0."""
    largest = 0.0
    for one, other in zip(some, others, strict=True):
        found = [g.detach().to_dense() for g in (one, other) if g is not None and g.numel()]
        if found:
            gap = found[0] - found[1] if len(found) == 2 else found[0]
            largest = max(largest, float(gap.abs().max()))
    return largest


def _warn_of_noise(lowest: float, highest: float) -> RoteWarning:
    return UnrepeatablePassWarning(
        f"Repeated passes from the same state give losses from {lowest:.6g} to {highest:.6g}: the "
        "forward pass draws random numbers that cannot be rewound (torch.seed(), the operating "
        "system, a clock). Drops contain that noise. Draw from torch's, NumPy's or Python's "
        "generators."
    )


def _warn_of_probabilities(
    loss_fn: LossFunction, logits: Tensor, labels: Tensor, value: float
) -> Iterator[RoteWarning]:
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    if logits.dim() != labels.dim() + 1 or labels.is_floating_point():
        return
    axis = find_class_axis(logits, labels.shape)
    sums = logits.float().sum(axis)
    if logits.shape[axis] < 2 or not are_shares(logits) or bool((sums - 1).abs().max() > 1e-3):
        return
    # A user's function with the same value is treated as cross entropy.
    is_for_logits = loss in (cross_entropy, functional.cross_entropy)
    is_equal = abs(cross_entropy(logits, labels).item() - value) < 1e-6
    if is_for_logits or is_equal or isinstance(loss, nn.CrossEntropyLoss):
        yield ProbabilitiesWarning(
            "The model returns probabilities (rows that sum to 1) where cross entropy expects "
            "logits, so this is not the loss of training. Pass the loss that training uses "
            "(`loss_fn=lambda p, y: torch.nn.functional.nll_loss(p.log(), y)`), or return logits."
        )


def _warn_of_sigmoid(
    session: Session, loss_fn: LossFunction, logits: Tensor, labels: Tensor, inputs: Inputs
) -> Iterator[RoteWarning]:
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    is_for_logits = loss in (cross_entropy, functional.binary_cross_entropy_with_logits)
    if not (is_for_logits or isinstance(loss, nn.BCEWithLogitsLoss)) or not are_shares(logits):
        return
    is_binary = labels.is_floating_point() or find_single_logits(logits, labels.shape) is not None
    if is_binary and session.ends_in_sigmoid(inputs, session.mode):
        yield ProbabilitiesWarning(
            "The model returns probabilities of a sigmoid where a binary cross entropy expects "
            "logits, so this is not the loss of training. Pass `loss_fn=torch.nn.BCELoss()`, or "
            "return logits."
        )


def _check_rows(loss_fn: LossFunction, logits: Tensor, labels: Tensor) -> None:
    """Refuse a loss for rows of shares, which takes classes if there are as many samples.

    Raises:
        InputError: if the loss fails on twice the samples.
    """
    if labels.is_floating_point() or labels.dim() != 1 or tuple(logits.shape) != 2 * (len(labels),):
        return
    loss = loss_fn.loss_fn if isinstance(loss_fn, LogitsAt) else loss_fn
    if loss is cross_entropy:
        return
    try:
        evaluate_loss(loss, logits.repeat(2, 1), labels.repeat(2))
    except (RuntimeError, ValueError, IndexError, TypeError) as error:
        raise InputError(
            "`loss_fn` works only because there are as many samples as classes "
            f"({len(labels)}); with twice the samples it fails: {error}. For a loss of rows of "
            "shares, pass `loss_fn=lambda o, y: loss(o, "
            "torch.nn.functional.one_hot(y, num_classes).float())`."
        ) from error
