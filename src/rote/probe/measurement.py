"""One probe: two losses on S̃, around one step that is thrown away."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import RoteError, TrialError
from rote.probe.compatibility import communicates, unwrapped
from rote.probe.inputs import Inputs
from rote.probe.outputs import LossFunction, cross_entropy
from rote.probe.policy import ProbePolicy, StepRule
from rote.probe.ranks import agreed, from_first_rank, mean_over_ranks, world_size
from rote.probe.session import Session, undisturbed
from rote.snapshot import delayed_interrupts


@dataclass(frozen=True)
class Measurement:
    """What one probe found.

    Attributes:
        loss_before: Φ̃(W), the loss on S̃.
        losses_after: Φ̃(W̃), the loss on S̃ after each rule's step from W.
        predictions: the predicted class of each sample of the pool, if there was one.
    """

    loss_before: float
    losses_after: dict[StepRule, float]
    predictions: np.ndarray | None = None


@dataclass(frozen=True)
class Probe:
    """A model and its optimizer, ready to be probed without a trace.

    Attributes:
        model: the network in training; wrappers of torch.compile, DataParallel and DDP are looked
            through.
        optimizer: its optimizer.
        num_classes: how many classes the labels have.
        loss_fn: the training objective ``(output, labels) -> scalar``.
        policy: which steps to measure, and how; the paper's Algorithm 1 by default.
    """

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    loss_fn: LossFunction = cross_entropy
    policy: ProbePolicy = field(default_factory=ProbePolicy)

    def measure(self, inputs: Inputs, labels: Tensor, pool: Inputs | None = None) -> Measurement:
        """One forward and backward pass on S̃; per step rule one step and one forward.

        With several ranks all must call this; losses are means over ranks, predictions the first
        rank's.

        Returns:
            The losses, and the predictions on the pool.

        Raises:
            InputError: if logits or loss have the wrong shape, or no gradient can flow.
            InterferenceError: with ``policy.verify``, if something could not be put back.
            RankError: if another rank failed.
        """
        # Where ranks wait for each other within a pass, one that fails cannot tell the others.
        together = nullcontext() if communicates(unwrapped(self.model)) else agreed()
        with together, self._session() as session:
            loss_before = session.differentiate(inputs, labels).item()
            losses_after = session.losses_after(inputs, labels)
            predictions = None if pool is None else session.predict(pool, labels.shape)
        return _over_ranks(Measurement(loss_before, losses_after, predictions))

    def predict(self, inputs: Inputs, label_shape: torch.Size) -> np.ndarray:
        """The class of every sample, predicted in eval mode.

        Args:
            inputs: the samples.
            label_shape: the shape of the labels of S̃: the size of a batch, then what a label has.
        """
        with self._session() as session:
            return session.predict(inputs, label_shape)

    def check(self, inputs: Inputs, labels: Tensor, *, predicts: bool = False) -> None:
        """Probe once for trial, so that what does not fit is known before training starts.

        Where the tracker ``predicts`` the classes of a pool, so does the trial.

        Raises:
            InputError: if model, inputs, labels, loss and optimizer do not go together.
        """
        try:
            self.measure(inputs, labels, pool=inputs if predicts else None)
        except RoteError:
            raise
        except Exception as error:
            hint = ""
            if isinstance(inputs, tuple | list) and "positional argument" in str(error):
                hint = (
                    f". A {type(inputs).__name__} means several arguments of the model "
                    f"({len(inputs)} here): without labels, pass the samples alone"
                )
            raise TrialError(
                "Expected `model`, `optimizer`, `inputs`, labels and `loss_fn` to go together, got "
                f"{type(error).__name__} in a trial: {error}{hint}"
            ) from error

    @contextmanager
    def _session(self) -> Iterator[Session]:
        model = unwrapped(self.model)
        parts = (model, self.optimizer, self.loss_fn)
        # A probe is short: Ctrl-C can wait for its end.
        with delayed_interrupts(), undisturbed(*parts, verify=self.policy.verify) as snapshot:
            yield Session(
                model, self.optimizer, snapshot, self.loss_fn, self.num_classes, self.policy
            )


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
