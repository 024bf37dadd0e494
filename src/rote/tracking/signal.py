"""What is observed beside ζ: one protocol for every number that a reading can have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

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


class SignalContext(Protocol):
    """What a signal may look at while a run is tracked."""

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    policy: ProbePolicy
    pool: Inputs | None
    """The samples of ``inputs=``, kept out of training."""
    given_labels: np.ndarray | None
    """The given labels of the pool."""
    inputs: Inputs
    """S̃ of this probe."""
    labels: Tensor
    """Its random labels."""
    predictions: np.ndarray | None
    """The classes that were just predicted for the pool."""


class Signal(Protocol):
    """Something that is measured at every reading. Subclass it and write what you need.

    ``observe`` is called for every training batch that the loop hands over, ``read`` at every
    probe. Neither may change the training: random numbers are put back after both, and a signal
    that runs the network does so inside ``rote.preserved``, or without gradients in eval mode.

    Attributes:
        name: how a spec and ``rote.track(signals=[...])`` call it.
        columns: what ``read`` returns, described: whoever selects needs to know no more.
        sample_rows: names of the row files that ``rows`` fills.
    """

    name: ClassVar[str]
    columns: tuple[Column, ...] = ()
    sample_rows: tuple[str, ...] = ()

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
