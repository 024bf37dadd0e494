"""What is observed beside ζ: one protocol for every other number that a reading can have."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, did_you_mean
from rote.extras import files_in, import_named
from rote.records import Column
from rote.tracking.signal_batch import Batch

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from rote.probe import Inputs, LossFunction, ProbePolicy

_RIVALS = "rote.rivals"


@dataclass(frozen=True)
class TrainingSet:
    """What a run of a spec knows of the samples that it trains on.

    Attributes:
        labels: the given ones.
        wrong: which of them are wrong, where that is known.
        noise: the model of the noise, where there is one.
    """

    labels: Tensor
    wrong: Tensor | None = None
    noise: str | None = None


@dataclass
class SignalContext:
    """What a signal may look at while a run is tracked; S̃ and predictions are those of the probe.

    Attributes:
        model: the network in training.
        optimizer: its optimizer.
        num_classes: how many classes.
        policy: how the network is probed.
        holdout: the samples of ``inputs=``, unless they are drawn anew for every probe.
        inputs: S̃.
        labels: its random labels.
        predictions: the classes that were just predicted for the holdout, if they are recorded.
        loss_fn: the training objective.
        given_labels: of the holdout.
        training_set: in runs of a spec.
        train_predictions: the classes that were just predicted for it, in eval mode.
    """

    model: nn.Module
    optimizer: Optimizer
    num_classes: int
    policy: ProbePolicy
    holdout: Inputs | None
    inputs: Inputs
    labels: Tensor
    predictions: np.ndarray | None = None
    loss_fn: LossFunction | None = None
    given_labels: np.ndarray | None = None
    training_set: TrainingSet | None = None
    train_predictions: Tensor | None = None


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
        draws: whether ``observe`` may draw random numbers: they are then put back after every
            batch, which costs more than most signals do.

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
    draws: bool = True

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
    return files_in(_RIVALS)


def name_and_options(signal: str) -> tuple[str, dict[str, Any]]:
    """What ``name`` or ``name(option=value, ...)`` says; values are numbers, texts and lists.

    Example:
        >>> name_and_options("label_wave(k=3, patience=10)")
        ('label_wave', {'k': 3, 'patience': 10})
    """
    try:
        said = ast.parse(signal, mode="eval").body
        if isinstance(said, ast.Call) and isinstance(said.func, ast.Name) and not said.args:
            found = {entry.arg: ast.literal_eval(entry.value) for entry in said.keywords}
            return said.func.id, {name: value for name, value in found.items() if name is not None}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # whoever knows the names says what is wrong
    return signal, {}


def find_signal(signal: str | Signal) -> Signal:
    """A signal by its name.

    Args:
        signal: the name of a file in ``rote/rivals``, whose ``SIGNAL`` is made with the options
            that may follow it (``label_wave(patience=10)``), ``package.module:Name`` of one's own,
            or a signal as it is.

    Raises:
        InputError: if there is none, or it has no such option.
    """
    if not isinstance(signal, str):
        return signal
    name, options = name_and_options(signal)
    if name in (known := signal_names()):
        return _made(name, options)
    if ":" in signal:
        own: Signal = import_named(signal, "signals")()
        return own
    raise InputError(
        f"Expected `signals` to be of {', '.join(known) or 'none'}, or 'package.module:Name', "
        f"got {signal!r}.{did_you_mean(name, known)}"
    )


def _made(name: str, options: Mapping[str, Any]) -> Signal:
    make = import_module(f"{_RIVALS}.{name}").SIGNAL
    known = list(signature(make).parameters)
    for option in options:
        if option not in known:
            raise InputError(
                f"Expected the options of signal `{name}` to be of {', '.join(known) or 'none'}, "
                f"got {option!r}.{did_you_mean(option, known)}"
            )
    try:
        rival: Signal = make(**options)
    except TypeError as error:  # one value in place of several
        raise InputError(
            f"Expected options that signal `{name}` takes, got {dict(options)}: {error}."
        ) from error
    return rival
