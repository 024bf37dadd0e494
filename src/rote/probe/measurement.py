"""One probe: two losses on S̃, around one step that is thrown away."""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import (
    ConcurrentProbeError,
    InterferenceError,
    RoteError,
    RoteWarning,
    TrialError,
    UncopiedStateWarning,
)
from rote.probe.compatibility import communicates, unwrapped
from rote.probe.inputs import Inputs
from rote.probe.objective import check_loss_fn
from rote.probe.outputs import LossFunction, cross_entropy
from rote.probe.policy import ProbePolicy, StepRule
from rote.probe.ranks import agreed, from_first_rank, mean_over_ranks, world_size
from rote.probe.session import Session, undisturbed
from rote.probe.steps import Backward
from rote.probe.trial import examine_objective
from rote.snapshot import delayed_interrupts


@dataclass(frozen=True)
class Measurement:
    """What one probe found.

    Attributes:
        loss_before: Φ̃(W), the loss on S̃.
        losses_after: Φ̃(W̃), the loss on S̃ after each rule's step from W.
        predictions: the predicted class of each sample of the holdout, if there was one.
    """

    loss_before: float
    losses_after: dict[StepRule, float]
    predictions: np.ndarray | None = None


@dataclass(frozen=True)
class Trial:
    """What a probe for trial found.

    Attributes:
        measurement: of the network as it is.
        warnings: what the user should know.
    """

    measurement: Measurement
    warnings: tuple[RoteWarning, ...]


@dataclass(frozen=True)
class Probe:
    """A model and its optimizer, ready to be probed without a trace.

    Attributes:
        model: the network in training; wrappers of torch.compile, DataParallel and DDP are looked
            through.
        optimizer: its optimizer.
        num_classes: how many classes the labels have.
        loss_fn: the training objective ``(output, labels) -> scalar``, or one of three arguments
            ``(model, inputs, labels) -> scalar``.
        policy: which steps to measure, and how; the paper's Algorithm 1 by default.
        backward: how the loop differentiates a loss, if not by ``loss.backward()``.
    """

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    loss_fn: LossFunction = cross_entropy
    policy: ProbePolicy = field(default_factory=ProbePolicy)
    backward: Backward | None = None

    def measure(self, inputs: Inputs, labels: Tensor, holdout: Inputs | None = None) -> Measurement:
        """One forward and backward pass on S̃; per step rule one step and one forward.

        With several ranks all must call this; losses are means over ranks, predictions the first
        rank's.

        Returns:
            The losses, and the predictions on the holdout.

        Raises:
            InputError: if logits or loss have the wrong shape, or no gradient can flow.
            InterferenceError: with ``policy.verify``, if something could not be put back.
            RankError: if another rank failed.
        """
        with self._together(), self._session() as session:
            loss_before = session.differentiate(inputs, labels).item()
            losses_after = session.losses_after(inputs, labels)
            predictions = None if holdout is None else session.predict(holdout, labels.shape)
        return _over_ranks(Measurement(loss_before, losses_after, predictions))

    def predict(self, inputs: Inputs, label_shape: torch.Size) -> np.ndarray:
        """The class of every sample, predicted in eval mode.

        Args:
            inputs: the samples.
            label_shape: the shape of the labels of S̃: the size of a batch, then what a label has.
        """
        with self._session() as session:
            return session.predict(inputs, label_shape)

    def check(self, inputs: Inputs, labels: Tensor, *, predicts: bool = False) -> Trial:
        """Probe once for trial, so that what does not fit is known before training starts.

        Where the tracker ``predicts`` the classes of a holdout, so does the trial. Whatever the
        policy says, checksums prove that the trial left nothing changed.

        Returns:
            What was measured, and what the user should be warned of.

        Raises:
            InputError: if model, inputs, labels, loss and optimizer do not go together.
            InterferenceError: naming what a probe changes and cannot put back.
        """
        check_loss_fn(self.loss_fn)
        try:
            found = self._try(inputs, labels, inputs if predicts else None)
            with self._together(), self._session() as session:
                classes = self.num_classes
                more = examine_objective(session, self.loss_fn, inputs, labels, classes)
            return replace(found, warnings=(*found.warnings, *more))
        except RoteError:
            raise
        except Exception as error:
            raise TrialError(
                "Expected `model`, `optimizer`, `inputs`, labels and `loss_fn` to go together, got "
                f"{type(error).__name__} in a trial: {error}{_hint(error, inputs)}"
            ) from error

    def _try(self, inputs: Inputs, labels: Tensor, holdout: Inputs | None) -> Trial:
        proving = replace(self, policy=replace(self.policy, verify=True))
        try:
            return Trial(proving.measure(inputs, labels, holdout), ())
        except ConcurrentProbeError:
            raise
        except InterferenceError as error:
            if self.policy.verify or communicates(unwrapped(self.model)):
                raise
            # What is made once, at the first use, is no harm as a rule; what changes again is.
            found = proving.measure(inputs, labels, holdout)
            warning = UncopiedStateWarning(f"{error} The second trial left it as it was.")
            return Trial(found, (warning,))

    def _together(self) -> AbstractContextManager[object]:
        # Where ranks wait for each other within a pass, one that fails cannot tell the others.
        return nullcontext() if communicates(unwrapped(self.model)) else agreed()

    @contextmanager
    def _session(self) -> Iterator[Session]:
        model = unwrapped(self.model)
        parts = (model, self.optimizer, self.loss_fn)
        # A probe is short: Ctrl-C can wait for its end.
        with delayed_interrupts(), undisturbed(*parts, verify=self.policy.verify) as snapshot:
            yield Session(
                model,
                self.optimizer,
                snapshot,
                self.loss_fn,
                self.num_classes,
                self.policy,
                self.backward,
            )


def _hint(error: Exception, inputs: Inputs) -> str:
    """What to do about an error of torch's, where that can be told from its words."""
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


def _over_ranks(measurement: Measurement) -> Measurement:
    """The mean of the losses over all ranks, with the first rank's predictions."""
    if world_size() == 1:
        return measurement
    rules = list(measurement.losses_after)
    losses = [measurement.losses_after[rule] for rule in rules]
    before, *after = mean_over_ranks([measurement.loss_before, *losses])
    predictions = measurement.predictions
    if predictions is not None:
        predictions = from_first_rank(predictions)
    return Measurement(before, dict(zip(rules, after, strict=True)), predictions)
