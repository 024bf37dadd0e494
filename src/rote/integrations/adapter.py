"""What the callbacks of all trainers share: arguments, tracker, training accuracy, stop, state."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal

from torch import Tensor, nn
from torch.optim import Optimizer

from rote.arguments import check_instance, check_integer
from rote.errors import InputError, RunExistsError
from rote.integrations.adapter_warnings import (
    DEFAULT_METRIC,
    listed,
    warn_of_accuracy,
    warn_of_uncounted,
    warn_of_unseen,
)
from rote.integrations.training_batch import LabelledBatch
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy, mean_over_ranks, take
from rote.records import Reading
from rote.store import SaveTo, targets_of
from rote.tracking import Signal, StopRule, Tracker, track

logger = logging.getLogger(__name__)

_OPTIONS = ("num_classes", "loss_fn", "labels", "given_labels", "policy", "seed", "name", "signals")


@dataclass(kw_only=True, eq=False, repr=False)
class Adapter(ABC):
    """A callback without its trainer: subclasses translate hooks into calls of what is here.

    Training is bit-identical with and without it. What it remembers is part of the trainer's
    checkpoints.

    Args:
        num_classes: how many classes the network tells apart.
        inputs: unlabelled samples, as the network takes them (``rote.track``). By default
            ``samples`` of the training set, as its loader makes batches, drawn without the loader.
        every: ``"epoch"``, or n: after every n-th step of the optimizer.
        train_accuracy: the name of a metric that is logged in training; it is recorded as the
            training accuracy. ``None``: none is looked for.
        measure_accuracy: where no such metric was logged, the training accuracy is measured on so
            many samples of the training set, in eval mode, leaving no trace; 0: never. A warning
            says so if a metric was named, or there is no accuracy.
        stop: when to stop. Needs the training accuracy.
        loss_fn: the training objective, called with the network's output and labels.
        labels: other random labels than uniform ones, per sample or token (``rote.labels``).
        given_labels: the given labels of ``inputs``, for ``validation_accuracy``.
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the random labels, and of the choice of samples.
        name: the name of the run.
        save_to: where the run is recorded (``rote.track``); only the first rank writes. A run that
            the trainer resumes goes on with its directory, or with the logger's run of its name.
        samples: how many samples of the training set make S̃ when there are no ``inputs``.
        signals: what else to observe (``rote.track``). They see the batches of training with
            labels and logits where the trainer gives both (a warning says where it does not), and
            with indices if a batch is a mapping with ``index``, ``indices`` or ``idx``.

    Attributes:
        tracker: the tracker of the current or last training; its ``readings`` also know ``epoch``
            and ``global_step``.
        stop: the stop rule.

    Raises:
        InputError: if ``every``, ``samples`` or ``stop`` does not fit; training checks the rest.
    """

    num_classes: int
    inputs: Inputs | Callable[[], Inputs] | None = None
    every: Literal["epoch"] | int = "epoch"
    train_accuracy: str | None = DEFAULT_METRIC
    measure_accuracy: int = 512
    stop: StopRule | None = None
    loss_fn: LossFunction | None = None
    labels: Tensor | LabelSampler | None = None
    given_labels: Tensor | None = None
    policy: ProbePolicy | None = None
    seed: int = 0
    name: str | None = None
    save_to: SaveTo = None
    samples: int = 128
    signals: Sequence[str | Signal] = ()
    tracker: Tracker | None = field(default=None, init=False)

    _decides_once: ClassVar[bool] = False
    """Whether the first probe decides for the whole run if the accuracy is logged or measured."""
    _resumed_by: ClassVar[str]
    """The option by which the trainer resumes."""

    def __post_init__(self) -> None:
        is_count = type(self.every) is int and self.every >= 1
        if self.every != "epoch" and not is_count:
            raise InputError(
                f"Expected `every` to be 'epoch' or a positive integer, got {self.every!r}."
            )
        check_integer("samples", self.samples, least=1)
        if self.stop is not None:
            check_instance("stop", self.stop, StopRule)
        # A second training begins with the rule and the signals as they were given.
        self._new_stop = {} if self.stop is None else self.stop.state_dict()
        self._new_signals: dict[str, dict[str, Any]] | None = None
        self._forget()

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint is the one to keep, as ``stop`` says."""
        return None if self.stop is None else self.stop.keep

    @abstractmethod
    def _draw(self, samples: int) -> LabelledBatch:
        """Some samples of the training set, as the network gets them; the loader is not touched."""

    def _as_in_training(self) -> AbstractContextManager[None]:
        """The precision and whatever else the trainer sets up around a training step."""
        return nullcontext()

    def _tell(self, message: str) -> None:
        """Say something to whoever watches the training."""
        logger.info(message)

    def _forget(self) -> None:
        self._known: LabelledBatch | None = None
        self._is_measured: bool | None = None
        self._is_accuracy_checked, self._is_lack_told = False, False
        self._observers: list[str] = []

    def _begin(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        saved: Mapping[str, Any] | None,
        **options: Any,  # noqa: ANN401
    ) -> Tracker:
        """Build the tracker of a new training, or go on with the one of a checkpoint."""
        options = {name: getattr(self, name) for name in _OPTIONS} | options
        resume = saved is not None and _holds_a_run(self.save_to)
        try:
            with self._as_in_training():
                tracker = track(model, optimizer, save_to=self.save_to, resume=resume, **options)
        except RunExistsError as error:
            way = f"resume from a checkpoint (`{self._resumed_by}`)"
            raise RunExistsError(str(error).replace("pass resume=True", way)) from error
        self.tracker = tracker
        self._observers = [s.name for s in tracker.signals if type(s).observe is not Signal.observe]
        if self._new_signals is None:
            self._new_signals = deepcopy(tracker.signals.state_dict())
        tracker.signals.load_state_dict(deepcopy(self._new_signals))
        if self.stop is not None:
            self.stop.load_state_dict((saved or {}).get("stop") or self._new_stop)
        if saved is not None:
            tracker.load_state_dict(saved["tracker"])
            self._is_measured = saved.get("is_measured")
            self._is_accuracy_checked = self._is_measured is not None
        return tracker

    def _state(self) -> dict[str, Any]:
        """What the next readings and the stop depend on: numbers, strings and tensors only."""
        return {
            "tracker": None if self.tracker is None else self.tracker.state_dict(),
            "stop": None if self.stop is None else self.stop.state_dict(),
            "is_measured": self._is_measured,
        }

    def _close(self) -> None:
        """Let the run's directory go."""
        if self.tracker is not None:
            self.tracker.close()

    def _warn_of_uncounted(self) -> None:
        warn_of_uncounted(self.stop, [] if self.tracker is None else self.tracker.readings)

    def _accuracy(
        self, logged: float | None, seen: Iterable[str], *, late: bool = False
    ) -> dict[str, float]:
        """The training accuracy, the mean over ranks, by its name; nothing if there is none.

        Args:
            logged: the value of the metric since the last probe.
            seen: the names of all metrics that were logged.
            late: whether the epoch has ended long since, so that what it logged is lost.
        """
        found = None if self._is_measured else _mean(logged)
        is_logged = found is not None
        may_measure = self._is_measured or (self._is_measured is None and not late)
        if found is None and self.measure_accuracy and may_measure:
            found = _mean(self._measured())
        is_measured = found is not None and not is_logged
        if not late:
            if not is_logged and not self._is_accuracy_checked:
                self._is_accuracy_checked = True
                name, samples = self.train_accuracy, self.measure_accuracy
                warn_of_accuracy(name, seen, samples=samples, is_measured=is_measured)
            if self._decides_once and self._is_measured is None:
                self._is_measured = is_measured
        return {} if found is None else {"train_accuracy": found}

    def _measured(self) -> float | None:
        try:
            if self._known is None:
                self._known = self._draw(self.measure_accuracy)
            inputs, given = self._known.inputs, self._known.given
            if given is None or self.tracker is None:
                return None
            if len(given) > self.measure_accuracy:  # some of S̃, which is larger
                given = given[: self.measure_accuracy]
                inputs = take(inputs, slice(self.measure_accuracy))
            with self._as_in_training():
                return self.tracker.accuracy(inputs, given)
        except InputError:  # nothing to draw from, or no labels of one class per sample
            return None

    def _should_stop(self, reading: Reading, seen: Iterable[str]) -> bool:
        """Whether the rule says so; a reading without an accuracy, as after a resume, is left out.

        Raises:
            InputError: if no reading has a training accuracy.
        """
        if self.stop is None or self.tracker is None:
            return False
        if "train_accuracy" in reading.metrics:
            was_stopped = self.stop.stopped
            if self.stop.update(reading) and not was_stopped:
                self._tell(f"Training stops: {self.stop.reason}")
        elif not any("train_accuracy" in earlier.metrics for earlier in self.tracker.readings):
            raise InputError(
                f"Expected a training accuracy at the probe, which `stop` needs, got none: "
                f"`{self.train_accuracy}` is not among what was logged before it ({listed(seen)}),"
                " and none was measured. Log it in every epoch, name another metric with "
                "`train_accuracy=`, or pass `measure_accuracy=512`, for which batches must show "
                "which entry is the labels."
            )
        return self.stop.stopped

    def _observe(
        self,
        labels: Tensor | None,
        logits: Tensor | None,
        *,
        inputs: Inputs | None,
        indices: Tensor | None,
        loss: Tensor | None,
    ) -> None:
        """Hand a batch of training to the signals; say once what it lacks.

        Raises:
            InputError: if a signal cannot do with the batch.
        """
        if self.tracker is None:
            return
        if labels is None or logits is None:
            if not self._is_lack_told:
                self._is_lack_told = True
                warn_of_unseen(self._observers, "labels" if labels is None else "logits")
            return
        batch: Any = {"labels": labels, "logits": logits, "inputs": inputs, "loss": loss}
        try:
            self.tracker.observe(**batch, indices=indices)
        except InputError as error:
            where = " Indices are looked for in batches that are mappings, under `index`, "
            where += "`indices` or `idx`."
            raise InputError(f"{error}{where if indices is None else ''}") from error


def logged_of(reading: Reading | None) -> dict[str, float]:
    """What a callback hands to the logger of its trainer, if there is a reading."""
    if reading is None:
        return {}
    found = {
        "susceptibility": reading.susceptibility,
        "susceptibility_plain": reading.susceptibility_plain,
        "probe/drop": reading.drop,
    }
    return {name: value for name, value in found.items() if value is not None}


def _holds_a_run(save_to: SaveTo) -> bool:
    """Whether there is something to go on with; a logger finds the run by its name."""
    targets = targets_of(save_to)
    paths = [target for target in targets if isinstance(target, Path)]
    return bool(targets) and all((path / "run.json").is_file() for path in paths)


def _mean(value: float | None) -> float | None:
    """The mean over the ranks that know one; all ranks call this."""
    total, count = mean_over_ranks([0.0, 0.0] if value is None else [value, 1.0])
    return total / count if count else None
