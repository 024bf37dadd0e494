"""What the callbacks of all trainers share: arguments, tracker, training accuracy, stop, state."""

from __future__ import annotations

import logging
import weakref
from abc import ABC
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.arguments import check_instance, check_integer
from rote.errors import InputError, RoteError, RunExistsError
from rote.integrations.messages import listed, verdict_text, warn_of_uncounted
from rote.integrations.training_accuracy import DEFAULT_METRIC, TrainingAccuracy
from rote.integrations.training_batch import LabeledBatch, labels_in
from rote.integrations.training_signals import TrainingSignals
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy, draw_batch, inputs_in, is_first_rank
from rote.records import Reading
from rote.selection import DEFAULT_RULE, Selection, select
from rote.store import RUN_FILE, SaveTo, name_checkpoints, targets_of
from rote.tracking import Signal, StopRule, Tracker, track

logger = logging.getLogger(__name__)

_OPTIONS = (
    *("num_classes", "loss_fn", "labels", "given_labels", "neighbor_votes"),
    *("policy", "seed", "name", "signals"),
)


@dataclass(kw_only=True, eq=False, repr=False)
class Adapter(ABC):
    """A callback without its trainer: subclasses translate hooks into calls of what is here.

    Training is bit-identical with and without it. What it remembers is part of the trainer's
    checkpoints. At the end of training it says which checkpoint the default rule of
    ``rote.select`` keeps, if there is a run directory.

    Args:
        num_classes: how many classes there are; needed unless the trainer knows.
        inputs: unlabeled samples, as the network takes them (``rote.track``). By default
            ``samples`` of the training set, as its loader makes batches, drawn without the loader.
        inputs_of: takes a batch of the loader and returns what the network takes. By default the
            first entry of a tuple, or a mapping without its labels.
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
        neighbor_votes: of the nearest training samples, on ``inputs`` (``rote.track``).
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the random labels, and of the choice of samples.
        name: the name of the run.
        save_to: where the run is recorded (``rote.track``); only the first rank writes. A run that
            the trainer resumes continues its directory, or the logger's run of its name.
        samples: how many samples of the training set make S̃ when there are no ``inputs``.
        signals: what else to observe (``rote.track``). They see the batches of training with
            labels and logits where the trainer gives both (a warning says where it does not), and
            with indices if a batch is a mapping with ``index``, ``indices`` or ``idx``.

    Attributes:
        tracker: the tracker of the current or last training; its ``readings`` also know ``epoch``
            and ``global_step``.
        stop: the stop rule.
        verdict: what the default rule says, once training has ended.

    Raises:
        InputError: if ``every``, ``samples`` or ``stop`` does not fit; training checks the rest.
    """

    num_classes: int | None = None
    inputs: Inputs | Callable[[], Inputs] | None = None
    inputs_of: Callable[[Any], Inputs] | None = None
    every: Literal["epoch"] | int = "epoch"
    train_accuracy: str | None = DEFAULT_METRIC
    measure_accuracy: int = 512
    stop: StopRule | None = None
    loss_fn: LossFunction | None = None
    labels: Tensor | LabelSampler | None = None
    given_labels: Tensor | None = None
    neighbor_votes: np.ndarray | None = None
    policy: ProbePolicy | None = None
    seed: int = 0
    name: str | None = None
    save_to: SaveTo = None
    samples: int = 128
    signals: Sequence[str | Signal] = ()
    tracker: Tracker | None = field(default=None, init=False)
    verdict: Selection | None = field(default=None, init=False)

    _decides_once: ClassVar[bool] = False
    """Whether the first probe decides for the whole run if the accuracy is logged or measured."""
    _resumed_by: ClassVar[str]
    """The option by which the trainer resumes."""

    def __post_init__(self) -> None:
        if self.every != "epoch" and (type(self.every) is not int or self.every < 1):
            raise InputError(
                f"Expected `every` to be 'epoch' or a positive integer, got {self.every!r}."
            )
        check_integer("samples", self.samples, least=1)
        if self.stop is not None:
            check_instance("stop", self.stop, StopRule)
        # A second training begins with the rule and the signals as they were given.
        self._new_stop = {} if self.stop is None else self.stop.state_dict()
        self._new_signals: dict[str, dict[str, Any]] | None = None
        self._watching = TrainingSignals()
        self._network: Callable[[], nn.Module | None] = lambda: None
        self._forget()

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint is the one to keep, as ``stop`` says."""
        return None if self.stop is None else self.stop.keep

    # What trainers differ in.

    def _training_set(self) -> tuple[Any, Callable[[list[Any]], Any]]:
        """Return the dataset, and what makes a batch of a list of its samples."""
        if self._loader is None:
            raise InputError(
                "Expected `inputs` to be a batch of unlabeled samples, got None: this trainer "
                "does not show its callbacks the training set."
            )
        return self._loader.dataset, self._loader.collate_fn

    def _as_in_training(self) -> AbstractContextManager[None]:
        """Set up the precision and whatever else the trainer sets up around a training step."""
        return nullcontext()

    def _tell(self, message: str) -> None:
        """Say something to whoever watches the training."""
        logger.info(message)

    def _checkpoints(self) -> dict[int, str]:
        """Where the trainer saved the weights of readings, by step, if it did."""
        return {}

    def _labeled(self, batch: Any) -> LabeledBatch:
        """Return inputs, which count unless there is an ``inputs_of``, and labels of a batch."""
        return LabeledBatch(inputs_in(batch) if self.inputs_of is None else None, labels_in(batch))

    def _sampled(self) -> dict[str, Any]:
        """S̃ or the holdout, and whatever else of ``rote.track`` follows from the training set."""
        return {"inputs": self._draw(self.samples).inputs if self.inputs is None else self.inputs}

    # What they do alike.

    def _forget(self) -> None:
        self._close()
        kind = self.train_accuracy, self.measure_accuracy, self._decides_once
        self._accuracy, self.verdict = TrainingAccuracy(*kind), None

    def _begin(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        saved: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Tracker:
        """Build the tracker of a new training, or resume the one of a checkpoint."""
        options = {name: getattr(self, name) for name in _OPTIONS} | self._sampled() | options
        resume = saved is not None and _holds_a_run(self.save_to)
        try:
            with self._as_in_training():
                tracker = track(model, optimizer, save_to=self.save_to, resume=resume, **options)
        except RunExistsError as error:
            raise RunExistsError(
                f"{error.place} is in use. Choose another `save_to`, or resume from a checkpoint "
                f"(`{self._resumed_by}`).",
                error.place,
            ) from error
        self.tracker, self._watching = tracker, TrainingSignals(tracker)
        self._network = weakref.ref(model)
        if self._new_signals is None:
            self._new_signals = deepcopy(tracker.signals.state_dict())
        tracker.signals.load_state_dict(deepcopy(self._new_signals))
        if self.stop is not None:
            self.stop.load_state_dict((saved or {}).get("stop") or self._new_stop)
        if saved is not None:
            tracker.load_state_dict(saved["tracker"])
            self._accuracy.go_on(saved.get("is_measured"))
        return tracker

    def _state(self) -> dict[str, Any]:
        """Return what the next readings and the stop depend on: numbers, strings, tensors."""
        return {
            "tracker": None if self.tracker is None else self.tracker.state_dict(),
            "stop": None if self.stop is None else self.stop.state_dict(),
            "is_measured": self._accuracy.is_measured,
        }

    def _state_for(self, model: nn.Module) -> dict[str, Any] | None:
        """Return the state so far if this network was tracked before, and forget it otherwise."""
        self._forget()
        return self._state() if self.tracker and self._network() is model else None

    def _close(self) -> None:
        """Let the run's directory, the network and its data go."""
        self._watching.take()
        self._loader: Any = None
        if self.tracker is not None:
            self.tracker.close()

    def _conclude(self) -> None:
        """Say which checkpoint to keep, or why there is none."""
        if not self._readings():
            return
        warn_of_uncounted(self.stop, self._readings())
        folder = next((t for t in targets_of(self.save_to) if isinstance(t, Path)), None)
        if folder is None or not is_first_rank():
            return
        rate = None if self.stop is None else self.stop.noise_rate
        saved = self._checkpoints()
        try:
            if saved:
                name_checkpoints(folder, {step: Path(path) for step, path in saved.items()})
            self.verdict = select(folder, DEFAULT_RULE, noise_rate=rate)
        # A training that has gone well does not fail for its verdict.
        except (RoteError, OSError) as error:
            self._tell(f"No verdict on {folder}: {error}")
            return
        self._tell(verdict_text(self.verdict, saved.get(self.verdict.pick.step), self.stop))

    def _readings(self) -> list[Reading]:
        return [] if self.tracker is None else self.tracker.readings

    def _read(
        self, logged: Mapping[str, Any], *, late: bool = False, **now: float
    ) -> Reading | None:
        """Probe, if there is a tracker; ``logged`` and ``late`` are as of ``TrainingAccuracy``."""
        if self.tracker is None:
            return None
        accuracy = self._accuracy.find(logged, self._draw, self._measure, late=late)
        if self.stop is not None and self.stop.noise_rate is not None:
            self.tracker.noise_rate = self.stop.noise_rate
        with self._as_in_training():
            reading = self.tracker.probe(**now, **accuracy)
        if reading is not None and reading.note:
            self._tell(f"step {reading.step}: {reading.note}")
        return reading

    def _measure(self, inputs: Inputs, given: Tensor) -> float:
        assert self.tracker is not None
        with self._as_in_training():
            return self.tracker.accuracy(inputs, given)

    def _draw(self, samples: int) -> LabeledBatch:
        """Return some samples of the training set as the network gets them, without the loader."""
        dataset, collate = self._training_set()
        return draw_batch(dataset, collate, samples, seed=self.seed, part_of=self._split)

    def _split(self, batch: Any) -> LabeledBatch:
        found = self._labeled(batch)
        return found if self.inputs_of is None else replace(found, inputs=self.inputs_of(batch))

    def _listen(self) -> None:
        """Note what the network takes and says in this step, if a signal looks at batches."""
        network = self._network()
        if self._watching and network is not None:
            self._watching.listen(network)

    def _is_kept(self, reading: Reading | None) -> bool:
        return reading is not None and reading.step == self.keep

    def _should_stop(self, reading: Reading | None) -> bool:
        """Whether the rule says so; a reading without an accuracy, as of a resume, says nothing."""
        if self.stop is None or reading is None:
            return False
        if "train_accuracy" in reading.metrics:
            was_stopped = self.stop.stopped
            if self.stop.update(reading) and not was_stopped:
                self._tell(f"Training stops: {self.stop.reason}")
        elif not any("train_accuracy" in earlier.metrics for earlier in self._readings()):
            raise InputError(
                f"Expected a training accuracy at the probe, which `stop` needs, got none: "
                f"`{self.train_accuracy}` is not among what was logged before it "
                f"({listed(self._accuracy.seen)}), and none was measured. Log it in every "
                "epoch, name another metric with `train_accuracy=`, or pass "
                "`measure_accuracy=512`, for which batches must show which entry is the labels."
            )
        return self.stop.stopped


def _holds_a_run(save_to: SaveTo) -> bool:
    """Whether there is something to resume; a logger finds the run by its name."""
    targets = targets_of(save_to)
    return bool(targets) and all((t / RUN_FILE).is_file() for t in targets if isinstance(t, Path))
