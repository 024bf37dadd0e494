"""What is observed beside ζ: one protocol for every other number that a reading can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, did_you_mean
from rote.extras import import_named
from rote.records import Column

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from rote.probe import Inputs, ProbePolicy

_RIVALS = "rote.rivals"


@dataclass(frozen=True)
class Batch:
    """What a loop knows of one batch that it trained on; tensors are detached.

    Attributes:
        labels: the given labels.
        logits: what the network said, in train mode, before the step.
        inputs: the samples.
        indices: which samples of the training set they are.
        loss: of the batch, or one per sample.
    """

    labels: Tensor
    logits: Tensor
    inputs: Inputs | None = None
    indices: Tensor | None = None
    loss: Tensor | None = None


@dataclass
class SignalContext:
    """What a signal may look at while a run is tracked; the last three are those of the probe.

    Attributes:
        model: the network in training.
        optimizer: its optimizer.
        num_classes: how many classes.
        policy: how the network is probed.
        pool: the samples of ``inputs=``, unless they are drawn anew for every probe.
        inputs: S̃.
        labels: its random labels.
        predictions: the classes that were just predicted for the pool, if they are recorded.
    """

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    policy: ProbePolicy
    pool: Inputs | None
    inputs: Inputs
    labels: Tensor
    predictions: np.ndarray | None = None


class Signal:
    """Something that is measured at every reading. Subclass it and write what you need.

    ``observe`` is called for every training batch that the loop hands over, ``read`` at every
    probe. Neither may change the training: random numbers are put back after both, and a signal
    that runs the network does so inside ``rote.preserved``, or without gradients in eval mode.
    Any object with ``name``, ``columns``, ``observe``, ``read``, ``state_dict`` and
    ``load_state_dict`` is a signal, too.

    Attributes:
        name: how messages call it.
        columns: what ``read`` returns, described: whoever selects needs to know no more. A name
            alone is a column of which nothing more is known.
        row_files: what ``rows`` returns: dtype and shape by name, known once it has started.

    Example:
        >>> class LargestLogit(Signal):
        ...     name = "largest_logit"
        ...     columns = (Column("largest_logit", "largest logit", "signal", better="lower"),)
        ...     largest = 0.0
        ...     def observe(self, batch):
        ...         self.largest = max(self.largest, float(batch.logits.max()))
        ...     def read(self, epoch):
        ...         return {"largest_logit": self.largest}
    """

    name: str
    columns: tuple[Column | str, ...] = ()
    row_files: Mapping[str, tuple[str, tuple[int, ...]]] = MappingProxyType({})

    def start(self, context: SignalContext) -> None:
        """Get to know the run, once, before the first batch.

        Raises:
            InputError: if the run lacks what the signal needs.
        """

    def observe(self, batch: Batch) -> None:
        """See one training batch."""

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """The numbers of this reading, by column; one that is not known yet is left out.

        Args:
            epoch: how many units of training are over.
        """
        return {}

    def rows(self) -> Mapping[str, np.ndarray]:
        """Numbers per sample, by the name of their row file; called after ``read``."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next readings depend on: numbers, strings and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state."""


def signal_names() -> list[str]:
    """The signals that can be switched on by name."""
    found = find_spec(_RIVALS)
    places = found.submodule_search_locations if found is not None else None
    return sorted(module.name for module in iter_modules(places or []))


def find_signal(signal: str | Signal) -> Signal:
    """A signal by its name.

    Args:
        signal: the name of a file in ``rote/rivals`` (its ``SIGNAL`` is made without arguments),
            ``package.module:Name`` of one's own, or a signal as it is.

    Raises:
        InputError: if there is none.
    """
    if not isinstance(signal, str):
        return signal
    if ":" in signal:
        own: Signal = import_named(signal, "signals")()
        return own
    if signal not in signal_names():
        known = signal_names()
        raise InputError(
            f"Expected `signals` to be of {', '.join(known) or 'none'}, or 'package.module:Name', "
            f"got {signal!r}.{did_you_mean(signal, known)}"
        )
    rival: Signal = import_module(f"{_RIVALS}.{signal}").SIGNAL()
    return rival
