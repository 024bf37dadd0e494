"""Signals: everything that is recorded beside ζ, the batches they see, and noisy validation."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import import_module
from inspect import signature
from operator import itemgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from rote.errors import InputError, StateError, did_you_mean
from rote.extras import RIVALS, import_named, list_modules, list_signals, parse_signal
from rote.labels import IGNORE_INDEX
from rote.plugins import find_lacking, load_plugin
from rote.probe import Inputs
from rote.records import COLUMNS, Column, Reading, find_column
from rote.snapshot import RandomState, hold_signals, restore_after, verify_unchanged
from rote.store import check_metric_name

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.optim import Optimizer

    from rote.probe import Inputs, LossFunction, ProbePolicy


AT_ONCE = 2**16
"""The number of logits to collect: few large steps cost less than one for every batch."""


@dataclass(frozen=True)
class Batch:
    """One batch that a loop trained on; tensors are detached.

    Attributes:
        labels: the given labels.
        logits: the network's logits, in train mode, before the step.
        inputs: the samples.
        indices: the indices of the samples in the training set.
        loss: the loss of the batch, or one per sample.

    Example:
        >>> import torch
        >>> batch = Batch(labels=torch.tensor([0, 1]), logits=torch.eye(2))
        >>> (batch.logits.argmax(1) == batch.labels).float().mean().item()
        1.0
    """

    labels: Tensor
    logits: Tensor
    inputs: Inputs | None = None
    indices: Tensor | None = None
    loss: Tensor | None = None

    def check_rows(self, signal: str) -> None:
        """Refuse labels that are not one class per row of logits.

        Raises:
            InputError: naming the signal.
        """
        labels, logits = self.labels, self.logits
        if labels.is_floating_point() or logits.shape[:-1] != labels.shape:
            raise InputError(
                f"Expected one class per row of logits for signal `{signal}`, got labels of shape "
                f"{tuple(labels.shape)} and {labels.dtype}, logits of shape {tuple(logits.shape)}."
            )

    def rows(self, signal: str) -> tuple[Tensor, Tensor]:
        """Return the logits and their labels, one row per label; ignored labels are left out.

        Raises:
            InputError: if a label is not one class.
        """
        self.check_rows(signal)
        found = self.counted
        return found.logits.flatten(0, -2), found.labels.flatten()

    def places(self, signal: str) -> Tensor:
        """Return the indices of the samples in the training set.

        Raises:
            InputError: if the loop does not pass them, or a sample has more than one label.
        """
        if self.indices is None:
            raise InputError(
                f"Signal `{signal}` follows every sample over the epochs. Pass "
                "`indices` to tracker.observe."
            )
        if self.logits.dim() != 2:
            raise InputError(
                f"Expected one row of logits per sample for signal `{signal}`, got shape "
                f"{tuple(self.logits.shape)}."
            )
        return self.indices.to(self.logits.device)

    @property
    def counted(self) -> Batch:
        """The rows whose label is not ignored; the batch itself where none is."""
        return self._counted or self

    @cached_property
    def _counted(self) -> Batch | None:
        if not self.labels.numel() or int(self.labels.min()) >= 0:
            return None  # not itself: a reference cycle would live until garbage collection
        chosen, at = self.labels >= 0, self.indices
        if at is not None:
            at = at[chosen] if at.shape == chosen.shape else None
        return Batch(self.labels[chosen], self.logits[chosen], indices=at)

    @cached_property
    def predicted(self) -> Tensor:
        """The class of the largest logit of every row."""
        return self.logits.argmax(-1)

    @cached_property
    def shares(self) -> Tensor:
        """The probabilities of the classes, for every row."""
        return self.logits.float().softmax(-1)

    @cached_property
    def kept(self) -> Batch:
        """A copy of labels, logits and indices, a row per label, as loops reuse their tensors.

        Batches that are large enough to be processed at once are not copied.
        """
        labels, logits = self.labels.flatten(0, self.logits.dim() - 2), self.logits.flatten(0, -2)
        at = None if self.indices is None else self.indices.to(logits.device)
        if logits.numel() >= AT_ONCE:
            return Batch(labels, logits, indices=at)
        return Batch(labels.clone(), logits.clone(), indices=None if at is None else at.clone())

    @cached_property
    def _joined(self) -> dict[tuple[int, ...], Batch]:
        """Concatenated batches, cached by the batches that they consist of."""
        return {}


class WaitingBatches:
    """Batches that are collected and then processed as one.

    Signals that wait for the same batches get the same object and share its computed values.
    """

    def __init__(self) -> None:
        self._batches: list[Batch] = []
        self._logits = 0

    def add(self, batch: Batch) -> bool:
        """Add a batch.

        Returns:
            Whether there are enough batches, which must then be taken.
        """
        self._batches.append(batch.kept)
        self._logits += batch.logits.numel()
        return self._logits >= AT_ONCE

    def take(self) -> Batch | None:
        """Return all collected batches as one; None if there are none."""
        batches = self._batches
        self.clear()
        return _join_batches(batches) if batches else None

    def clear(self) -> None:
        """Forget them."""
        self._batches, self._logits = [], 0


def _join_batches(batches: Sequence[Batch]) -> Batch:
    if len(batches) == 1:
        return batches[0]
    found = batches[-1]._joined
    key = tuple(map(id, batches))
    if key not in found:
        at = [batch.indices for batch in batches if batch.indices is not None]
        found[key] = Batch(
            torch.cat([batch.labels for batch in batches]),
            torch.cat([batch.logits for batch in batches]),
            indices=torch.cat(at) if len(at) == len(batches) else None,
        )
    return found[key]


@dataclass(frozen=True)
class TrainingSet:
    """The training samples of a run of a spec.

    Attributes:
        labels: the given labels.
        wrong: which of them are wrong, if that is known.
        noise: the model of the label noise, if there is one.
        samples: returns the samples at some indices, not augmented.
    """

    labels: Tensor
    wrong: Tensor | None = None
    noise: str | None = None
    samples: Callable[[Tensor], Tensor] | None = None


@dataclass
class SignalContext:
    """The data that a signal can read during a run; S̃ and predictions are those of the probe.

    Attributes:
        model: the network in training.
        optimizer: its optimizer.
        num_classes: the number of classes.
        policy: how the network is probed.
        holdout: the samples of ``inputs=``, unless new ones are drawn for every probe.
        inputs: S̃.
        labels: its random labels.
        predictions: the classes that were just predicted for the holdout, if they are recorded.
        loss_fn: the training objective.
        given_labels: the given labels of the holdout.
        training_set: the training set, in runs of a spec.
        train_predictions: the classes that were just predicted for it, in eval mode.

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(4, 3)
        >>> context = SignalContext(model=model, optimizer=torch.optim.SGD(model.parameters(),
        ...     lr=0.1),
        ...     num_classes=3, policy=rote.ProbePolicy(), holdout=None, inputs=torch.randn(8, 4),
        ...     labels=torch.randint(3, (8,)))
        >>> context.num_classes
        3
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
    """A measurement at every reading. Subclass it and override the methods that you need.

    ``observe`` is called for every training batch that the loop passes, ``read`` at every
    probe. Neither may change the training: random numbers are restored after both, and a signal
    that runs the network does so inside ``rote.preserved``, or without gradients in eval mode.
    Any object with ``name``, ``columns``, ``observe``, ``read``, ``state_dict`` and
    ``load_state_dict`` is also a signal.

    Attributes:
        name: the name used in messages.
        columns: descriptions of what ``read`` returns, which is all that a rule needs. A name alone
            is a column without a description.
        row_files: what ``rows`` returns: dtype and shape by name, known once it has started.
        draws: whether ``observe`` may draw random numbers: they are then restored after every
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
        """Prepare for a run, once, before the first batch.

        Raises:
            InputError: if the run lacks what the signal needs.
        """

    def observe(self, batch: Batch) -> None:
        """Observe one training batch."""

    def observe_losses(self, losses: Tensor, indices: Tensor) -> None:
        """Observe the losses of one training batch whose network returns no logits.

        Fused heads of language models return none. Override this if losses are enough.

        Args:
            losses: one loss per sample; for a language model, the mean over its tokens.
            indices: which samples of the training set they are.
        """

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the numbers of this reading, by column; one that is not known yet is left out.

        Args:
            epoch: the number of finished epochs or other units of training.
        """
        return {}

    def rows(self) -> Mapping[str, np.ndarray]:
        """Return numbers per sample, by the name of their row file; called after ``read``."""
        return {}

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next readings depend on: numbers, strings and tensors."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state."""


def find_signal(signal: str | Signal) -> Signal:
    """Return a signal by its name.

    Args:
        signal: the name of a file in ``rote/rivals``, whose ``SIGNAL`` is made with the options
            that may follow it (``label_wave(patience=10)``), that of an entry point in
            ``rote.signals``, likewise with options, your own ``package.module:Name``, or a
            signal object.

    Raises:
        InputError: if there is none, or it has no such option.
    """
    if not isinstance(signal, str):
        return signal
    name, options = parse_signal(signal)
    if name in list_modules(RIVALS):
        return _make_named(import_module(f"{RIVALS}.{name}").SIGNAL, name, options)
    if ":" in signal:
        own: Signal = import_named(signal, "signals")()
        return own
    if name in (known := list_signals()):
        return _make_named(load_plugin("signals", name, _find_fault), name, options)
    raise InputError(
        f"Expected `signals` to be of {', '.join(known) or 'none'}, or 'package.module:Name', "
        f"got {signal!r}.{did_you_mean(name, known)}"
    )


def _find_fault(make: object, name: str) -> str | None:
    """Return why an entry point is not a signal; a class or a factory is fine."""
    return find_lacking(make, name, ()) if callable(make) else "it cannot be called"


def _make_named(make: Callable[..., Signal], name: str, options: Mapping[str, Any]) -> Signal:
    known = list(signature(make).parameters)
    for option in options:
        if option not in known:
            raise InputError(
                f"Expected the options of signal `{name}` to be of {', '.join(known) or 'none'}, "
                f"got {option!r}.{did_you_mean(option, known)}"
            )
    try:
        rival: Signal = make(**options)
    except TypeError as error:  # such as one value instead of several
        what = f"does not take the options {dict(options)}" if options else "cannot be made"
        raise InputError(f"Signal `{name}` {what}: {error}.") from error
    return rival


class NoisyValidationSignal(Signal):
    """Noisy validation: the share of the holdout whose given label is predicted.

    Args:
        given_labels: of the holdout.
    """

    name = "validation"
    columns = (COLUMNS["validation_accuracy"],)

    def __init__(self, given_labels: np.ndarray) -> None:
        self._given_labels = given_labels

    def start(self, context: SignalContext) -> None:
        """Keep the context, which will hold the predictions."""
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the accuracy of the probe's predictions."""
        assert self._context.predictions is not None
        accuracy = compute_validation_accuracy(self._context.predictions, self._given_labels)
        return {"validation_accuracy": accuracy}


def as_given_labels(
    given: Tensor, *, shape: tuple[int, ...], num_classes: int, name: str = "given_labels"
) -> np.ndarray:
    """Check the given labels of samples.

    Args:
        given: one label per sample (or per token; or a row of zeros and ones).
        shape: that the labels must have.
        num_classes: the number of classes.
        name: the caller's argument, for messages.

    Returns:
        Integer labels.

    Raises:
        InputError: if they do not fit.
    """
    if not isinstance(given, Tensor) or tuple(given.shape) != shape:
        got = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
        raise InputError(
            f"Expected `{name}` to be a tensor with one label per sample of `inputs`, shape "
            f"{shape}, got {got}."
        )
    if given.is_floating_point() and given.dim() < 2:
        raise InputError(
            f"Expected `{name}` to be integers, one class per sample, got {given.dtype}. Convert "
            "classes with .long()."
        )
    values = given.detach().cpu().numpy()
    labels = values.astype(np.int64)
    inside = ((labels >= 0) & (labels < num_classes)) | (labels == IGNORE_INDEX)
    if not (inside & (labels == values)).all():
        odd = values[~(inside & (labels == values))][0]
        raise InputError(f"Expected `{name}` to be classes from 0 to {num_classes - 1}, got {odd}.")
    return labels


def compute_validation_accuracy(predictions: np.ndarray, given: np.ndarray) -> float:
    """Return the share of given labels that are predicted, ignored ones left out."""
    counted = given != IGNORE_INDEX
    return float((predictions[counted] == given[counted]).mean())


_NEEDED = ("name", "columns", "observe", "read", "state_dict", "load_state_dict")


class Signals:
    """Several signals.

    Args:
        signals: signals, or their names.
        context: the data that they can read; the tracker keeps it up to date.

    Raises:
        InputError: if there is no such signal, two share a name or a column, or one cannot do
            with this run.
    """

    def __init__(self, signals: Iterable[str | Signal], context: SignalContext) -> None:
        self.context = context
        self._signals = tuple(_check_signal(find_signal(signal)) for signal in signals)
        names = Counter(signal.name for signal in self._signals)
        name, count = max(names.items(), key=itemgetter(1), default=("", 0))
        if count > 1:
            raise InputError(f"`signals` names `{name}` twice. Name it once.")
        with restore_after(RandomState()):
            for signal in self._signals:
                if hasattr(signal, "start"):
                    signal.start(context)
        # One that does not watch cannot draw there either.
        self._draws = any(
            getattr(signal, "draws", True) and type(signal).observe is not Signal.observe
            for signal in self._signals
        )
        self._homes: dict[str, str] = {}
        self._columns: dict[str, Column] = {}
        for signal in self._signals:
            for column in signal.columns:
                self._add(find_column(column) if isinstance(column, str) else column, signal.name)

    def __iter__(self) -> Iterator[Signal]:
        return iter(self._signals)

    def __len__(self) -> int:
        return len(self._signals)

    def describe(self) -> dict[str, Any]:
        """Return the description of their columns and row files for ``run.json``."""
        columns = {name: column.describe() for name, column in self._columns.items()}
        files = {
            name: {"dtype": dtype, "shape": list(shape)}
            for signal in self._signals
            for name, (dtype, shape) in getattr(signal, "row_files", {}).items()
        }
        return ({"columns": columns} if columns else {}) | ({"rows": files} if files else {})

    def check_metrics(self, metrics: Mapping[str, float]) -> None:
        """Refuse a caller's metric with the name of a signal's column.

        Raises:
            InputError: naming the signal.
        """
        for name in metrics:
            if name in self._homes:
                raise InputError(
                    f"The metric name `{name}` is taken: signal `{self._homes[name]}` measures "
                    "it. Rename the metric."
                )

    def observe(self, batch: Batch) -> None:
        """Pass a batch to the signals and restore the random state of the training."""
        with restore_after(RandomState()) if self._draws else nullcontext():
            for signal in self._signals:
                signal.observe(batch)

    def read(self, reading: Reading) -> Reading:
        """Return a reading with the values of the signals.

        Raises:
            InputError: if one returns a column that it has not described.
            InterferenceError: with a policy that verifies, if one has changed the training.
        """
        found: dict[str, float] = {}
        for signal in self._signals:
            with self._check(), restore_after(RandomState()):
                values = signal.read(reading.step)
            undescribed = [name for name in values if self._homes.get(name) != signal.name]
            if undescribed:
                raise InputError(
                    f"Signal `{signal.name}` reads `{undescribed[0]}`, which it does not "
                    "describe. Add it to its `columns`."
                )
            found |= {name: float(value) for name, value in values.items()}
        accuracy = found.pop("validation_accuracy", reading.validation_accuracy)
        if accuracy is not None and "undefined_predictions" in reading.flags:
            accuracy = math.nan
        rows = [signal.rows() for signal in self._signals if hasattr(signal, "rows")]
        return replace(
            reading,
            validation_accuracy=accuracy,
            metrics={**found, **reading.metrics},
            sample_rows={name: row for named in rows for name, row in named.items()},
        )

    @contextmanager
    def roll_back_on_error(self) -> Iterator[None]:
        """Restore the signals if the block fails, as if ``read`` had not been called."""
        state = deepcopy(self.state_dict())
        try:
            yield
        except BaseException:
            with hold_signals():
                self.load_state_dict(state)
            raise

    def state_dict(self) -> dict[str, dict[str, Any]]:
        """Return the states of those that have one, by name."""
        states = {signal.name: signal.state_dict() for signal in self._signals}
        return {name: state for name, state in states.items() if state}

    def load_state_dict(self, state: Mapping[str, Mapping[str, Any]]) -> None:
        """Continue from a state.

        Raises:
            StateError: if it belongs to other signals.
        """
        known = {signal.name: signal for signal in self._signals}
        for name in state.keys() - known.keys():
            raise StateError(
                f"Expected a state of the signals {', '.join(known) or '(none)'}, got one of "
                f"`{name}`. Pass the same `signals`."
            )
        for name, values in state.items():
            known[name].load_state_dict(values)

    def _add(self, column: Column, signal: str) -> None:
        if column.name != "validation_accuracy":
            try:
                check_metric_name(column.name)
            except InputError as error:
                raise InputError(f"Signal `{signal}` cannot be recorded. {error}") from error
        if column.name in self._homes:
            raise InputError(
                f"Column `{column.name}` comes from two signals, `{self._homes[column.name]}` and "
                f"`{signal}`. Leave one out."
            )
        self._columns[column.name] = column
        self._homes[column.name] = signal

    def _check(self) -> Any:  # noqa: ANN401
        context = self.context
        is_checked = context.policy.verify
        return verify_unchanged(context.model, context.optimizer) if is_checked else nullcontext()


def _check_signal(signal: Signal) -> Signal:
    missing = [name for name in _NEEDED if not hasattr(signal, name)]
    if missing or isinstance(signal, type):
        what = f"without {', '.join(missing)}" if missing else "a class: pass an instance"
        raise InputError(
            f"Expected `signals` to hold signals (rote.Signal) or their names, got {signal!r}, "
            f"{what}."
        )
    return signal
