"""``TrainerAdapter``: the shared part of all callbacks, and the interface for a new trainer."""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import Optimizer

from rote.arguments import check_choice, check_instance, check_integer
from rote.errors import InputError, RoteError, RunExistsError
from rote.integrations.holdout import SampleSet, find_usable_labels, vote, vote_budget
from rote.integrations.messages import list_names, warn_of_uncounted, write_verdict
from rote.integrations.training_accuracy import DEFAULT_METRIC, TrainingAccuracy
from rote.integrations.training_batch import LabeledBatch, find_labels
from rote.integrations.training_signals import TrainingSignals
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy, draw_batch, find_inputs, is_first_rank
from rote.records import Reading
from rote.selection import DEFAULT_RULE, Selection, select
from rote.store import RUN_FILE, SaveTo, name_checkpoints, parse_targets
from rote.tracking import Signal, StopRule, Tracker, track

logger = logging.getLogger(__name__)

_OPTIONS = ("num_classes", "loss_fn", "labels", "given_labels", "policy", "seed", "name", "signals")


@dataclass(kw_only=True, eq=False, repr=False)
class TrainerAdapter:
    """The part of a callback that does not depend on its trainer.

    A subclass translates the hooks of one trainer into calls of the methods below; the page
    "Support another trainer" of the documentation shows a complete one. Training is bit-identical
    with and without the callback. Its state is part of the trainer's checkpoints. With a run
    directory in ``save_to``, it says at the end of training which checkpoint to keep.

    A subclass sets ``loader`` when training starts, and calls, in this order: ``reset`` (or
    ``get_earlier_state``), ``begin_tracking``, ``listen`` and ``show_batch`` around every step,
    ``take_reading`` and ``should_stop`` when a probe is due, ``close`` and ``conclude`` at the end.
    It overrides the methods under "What trainers differ in" where the defaults do not fit.

    Args:
        num_classes: The number of classes; needed unless the trainer knows it.
        inputs: Unlabeled samples, as the network takes them (``rote.track``). By default a holdout
            of the validation data, or ``samples`` of the training set if there is none.
        inputs_of: Takes a batch of the loader and returns what the network takes. By default the
            first entry of a tuple, or a mapping without its labels.
        holdout: Where the holdout comes from if there are no ``inputs``: ``"validation"``, the
            trainer's validation data with their given (noisy) labels; ``"split"``, a part of the
            training set that is set aside by ``seed`` and not trained on; ``None``, nowhere.
        holdout_size: How many samples of the validation data, or of the training set, to take.
        every: ``"epoch"``, or n for a probe after every n-th step of the optimizer.
        train_accuracy: The name of a metric logged in training, recorded as the training accuracy.
            ``None`` to look for none.
        measure_accuracy: If no such metric was logged, the training accuracy is measured on this
            many samples of the training set, in eval mode; 0 for never. A warning says so if you
            named a metric, or if there is no accuracy at all.
        stop: When to stop. Needs the training accuracy.
        loss_fn: The training objective, called with the network's output and labels.
        labels: Random labels other than uniform ones, per sample or token (``rote.labels``).
        given_labels: The given labels of ``inputs``, for ``validation_accuracy``.
        neighbor_votes: Votes of the nearest training samples on the holdout
            (``rote.neighbor_votes``). ``"auto"`` computes them where that is cheap: one class per
            sample, and inputs that are one tensor or token ids. ``None`` for no votes.
        policy: How to probe; by default the paper's Algorithm 1, in micro-batches of the trainer's
            batch size per device.
        seed: Seeds the random labels and the choice of samples.
        name: The name of the run.
        save_to: Where the run is recorded (``rote.track``); only the first rank writes. A run that
            the trainer resumes continues in its directory, or in the logger's run of its name.
        checkpoints: Where the trainer saves weights, so that the verdict names the file: a pattern
            with ``{step}`` (that of the reading), ``{epoch}`` or ``{global_step}``, such as
            ``"models/net_{epoch}.pt"``. Lightning, Hugging Face and fastai say it themselves.
        samples: How many samples of the training set make S̃ when there is no holdout.
        signals: What else to observe (``rote.track``). Signals see the batches of training with
            labels and logits where the trainer gives both (a warning says where it does not), and
            with indices if a batch is a mapping with ``index``, ``indices`` or ``idx``.

    Attributes:
        tracker: The tracker of the current or last training; its ``readings`` also know ``epoch``
            and ``global_step``.
        stop: The stop rule.
        verdict: The selection of the default rule, once training has ended.
        loader: The loader of the training set, during training.

    Raises:
        InputError: If an option has a wrong type or value; training checks the rest.

    Example:
        >>> TrainerAdapter(num_classes=10, every=100).keep is None
        True
    """

    num_classes: int | None = None
    inputs: Inputs | Callable[[], Inputs] | None = None
    inputs_of: Callable[[Any], Inputs] | None = None
    holdout: Literal["validation", "split"] | None = "validation"
    holdout_size: int = 512
    every: Literal["epoch"] | int = "epoch"
    train_accuracy: str | None = DEFAULT_METRIC
    measure_accuracy: int = 512
    stop: StopRule | None = None
    loss_fn: LossFunction | None = None
    labels: Tensor | LabelSampler | None = None
    given_labels: Tensor | None = None
    neighbor_votes: np.ndarray | Literal["auto"] | None = "auto"
    policy: ProbePolicy | None = None
    seed: int = 0
    name: str | None = None
    save_to: SaveTo = None
    checkpoints: str | None = None
    samples: int = 128
    signals: Sequence[str | Signal] = ()
    tracker: Tracker | None = field(default=None, init=False)
    verdict: Selection | None = field(default=None, init=False)
    loader: Any = field(default=None, init=False)

    decides_accuracy_once: ClassVar[bool] = False
    """Whether the first probe decides for the whole run if the accuracy is logged or measured."""
    resume_option: ClassVar[str] = "its own option"
    """The option by which the trainer resumes, for messages."""
    holdout_hint: ClassVar[str] = "pass inputs= and given_labels= to SusceptibilityCallback"
    """A clause of the verdict that says how to get better evidence."""
    can_split: ClassVar[bool] = False
    """Whether the adapter can take samples out of the training set (``holdout="split"``)."""

    def __post_init__(self) -> None:
        if self.every != "epoch" and (type(self.every) is not int or self.every < 1):
            raise InputError(
                f"Expected `every` to be 'epoch' or a positive integer, got {self.every!r}."
            )
        if self.checkpoints is not None:
            self._locate(self.checkpoints, 1, {"epoch": 1.0, "global_step": 1.0})
        check_integer("samples", self.samples, least=1)
        check_integer("holdout_size", self.holdout_size, least=1)
        if self.stop is not None:
            check_instance("stop", self.stop, StopRule)
        if self.holdout is not None:
            check_choice("holdout", self.holdout, ("validation", "split"))
        if self.holdout == "split" and not self.can_split:
            raise InputError(
                "holdout='split' is not supported for this trainer. Keep a few hundred samples out "
                "of training yourself, and pass them as `inputs=` and `given_labels=`."
            )
        # A second training begins with the rule and the signals as they were given.
        self._new_stop = {} if self.stop is None else self.stop.state_dict()
        self._new_signals: dict[str, dict[str, Any]] | None = None
        self.watching = TrainingSignals()
        self._network: Callable[[], nn.Module | None] = lambda: None
        self.set_aside: SampleSet | None = None
        self.reset()

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint to keep, according to ``stop``."""
        return None if self.stop is None else self.stop.keep

    @property
    def readings(self) -> list[Reading]:
        """The readings of the current or last training."""
        return [] if self.tracker is None else self.tracker.readings

    # Methods in which trainers differ.

    def training_set(self) -> SampleSet:
        """Return the training set and the function that makes a batch of its samples.

        Raises:
            InputError: If there is nothing to draw samples from.
        """
        if self.loader is None:
            raise InputError(
                "This trainer does not show its callbacks the training set. Pass `inputs=`, a "
                "batch of unlabeled samples."
            )
        return SampleSet(self.loader.dataset, self.loader.collate_fn)

    def validation_set(self) -> SampleSet | None:
        """Return the validation data and their batch function; ``None`` without such data."""
        return None

    def training_context(self) -> AbstractContextManager[None]:
        """Return a context with the precision and other settings of a training step."""
        return nullcontext()

    def tell(self, message: str) -> None:
        """Show a message to the user during training."""
        logger.info(message)

    def find_checkpoints(self) -> dict[int, str]:
        """Return the paths at which the trainer saved the weights of readings, by step."""
        if self.checkpoints is None:
            return {}
        places = {r.step: self._locate(self.checkpoints, r.step, r.metrics) for r in self.readings}
        return {step: place for step, place in places.items() if Path(place).exists()}

    def _locate(self, pattern: str, step: int, metrics: Mapping[str, float]) -> str:
        """Return the path of the weights of a reading, according to the pattern.

        Raises:
            InputError: If it is no such pattern.
        """
        counts = {name: int(metrics.get(name, -1)) for name in ("epoch", "global_step")}
        try:
            return pattern.format(step=step, **counts)
        except (LookupError, ValueError, AttributeError, TypeError) as error:
            raise InputError(
                "Expected `checkpoints` to be a path with {step}, {epoch} or {global_step}, got "
                f"{pattern!r} ({error})."
            ) from error

    def split_batch(self, batch: Any) -> LabeledBatch:
        """Split a batch of the loader into inputs and labels.

        The inputs count only if there is no ``inputs_of``.
        """
        return LabeledBatch(
            find_inputs(batch) if self.inputs_of is None else None, find_labels(batch)
        )

    def convert_inputs(self, inputs: Any) -> LabeledBatch:
        """Convert the user's ``inputs`` to the form that the network gets in training."""
        return LabeledBatch(inputs)

    def label_options(self, batch: LabeledBatch) -> dict[str, Any]:
        """Return ``num_classes`` and ``labels`` of ``rote.track``, as inferred from a batch."""
        return {}

    def limit_holdout(self, size: int) -> int:
        """Return the maximum size of a holdout from the trainer's own data."""
        return size

    def batch_size(self) -> int | None:
        """Return the number of samples of one training forward pass on a device, if known."""
        return getattr(self.loader, "batch_size", None)

    # Methods that all trainers share.

    def reset(self) -> None:
        """Forget the last training."""
        self.close()
        kind = self.train_accuracy, self.measure_accuracy, self.decides_accuracy_once
        self.accuracy, self.verdict = TrainingAccuracy(*kind), None

    def get_earlier_state(self, model: nn.Module) -> dict[str, Any] | None:
        """Reset, and return the state to resume from if this network has been tracked before."""
        self.reset()
        return self.adapter_state() if self.tracker and self._network() is model else None

    def begin_tracking(
        self,
        model: nn.Module,
        optimizer: Optimizer | Sequence[Optimizer],
        saved: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Tracker:
        """Build the tracker of a new training, or resume the one of a checkpoint.

        Args:
            model: The network that trains.
            optimizer: The optimizer, or a list of those that are stepped together.
            saved: The ``adapter_state`` of the checkpoint that training resumes from.
            options: Arguments of ``rote.track`` that the trainer sets itself.

        Returns:
            The tracker.

        Raises:
            InputError: If anything does not fit.
            RunExistsError: If ``save_to`` is in use and the trainer does not resume.
        """
        own = {name: getattr(self, name) for name in _OPTIONS}
        own["policy"] = self._choose_policy(model)
        options = own | self.choose_samples(options.get("num_classes")) | options
        resume = saved is not None and _holds_a_run(self.save_to)
        try:
            with self.training_context():
                tracker = track(model, optimizer, save_to=self.save_to, resume=resume, **options)
        except RunExistsError as error:
            raise RunExistsError(
                f"{error.place} is in use. Choose another `save_to`, or resume from a checkpoint "
                f"(`{self.resume_option}`).",
                error.place,
            ) from error
        self.tracker, self.watching = tracker, TrainingSignals(tracker)
        self._network = weakref.ref(model)
        if self._new_signals is None:
            self._new_signals = deepcopy(tracker.signals.state_dict())
        tracker.signals.load_state_dict(deepcopy(self._new_signals))
        if self.stop is not None:
            self.stop.load_state_dict((saved or {}).get("stop") or self._new_stop)
        if saved is not None:
            tracker.load_state_dict(saved["tracker"])
            self.accuracy.resume(saved.get("is_measured"))
        self._record_split()
        return tracker

    def adapter_state(self) -> dict[str, Any]:
        """Return the state of readings and stop rule: numbers, strings and tensors."""
        return {
            "tracker": None if self.tracker is None else self.tracker.state_dict(),
            "stop": None if self.stop is None else self.stop.state_dict(),
            "is_measured": self.accuracy.is_measured,
            # Tells the checkpoints of this run from others': no two probes take equally long.
            "newest_seconds": self.readings[-1].seconds if self.readings else None,
        }

    def listen(self) -> None:
        """Record the network's inputs and outputs in this step, if a signal observes batches."""
        network = self._network()
        if self.watching and network is not None:
            self.watching.listen(network)

    def show_batch(
        self, batch: Any, logits: Tensor | None = None, loss: Tensor | None = None
    ) -> None:
        """Pass a training batch to the signals; logits are those of the network's own call."""
        self.watching.show(batch, logits, loss)

    def take_reading(
        self, logged: Mapping[str, Any], *, late: bool = False, **now: float
    ) -> Reading | None:
        """Probe, if there is a tracker.

        Args:
            logged: The metrics that the trainer has logged, by name.
            late: Whether the epoch has ended long since, so that its metrics are lost.
            now: ``epoch`` and ``global_step``.

        Returns:
            The reading, or ``None`` if none is due.
        """
        if self.tracker is None:
            return None
        accuracy = self.accuracy.find(logged, self.draw, self._measure, late=late)
        if self.stop is not None and self.stop.noise_rate is not None:
            self.tracker.noise_rate = self.stop.noise_rate
        with self.training_context():
            reading = self.tracker.probe(**now, **accuracy)
        if reading is not None and reading.note:
            self.tell(f"step {reading.step}: {reading.note}")
        return reading

    def is_kept(self, reading: Reading | None) -> bool:
        """Return whether the stop rule keeps the checkpoint of a reading."""
        return reading is not None and reading.step == self.keep

    def should_stop(self, reading: Reading | None) -> bool:
        """Return whether the stop rule ends training; a reading without an accuracy is ignored.

        Raises:
            InputError: If no reading so far has a training accuracy.
        """
        if self.stop is None or reading is None:
            return False
        if "train_accuracy" in reading.metrics:
            was_stopped = self.stop.stopped
            if self.stop.update(reading) and not was_stopped:
                self.tell(f"Training stops: {self.stop.reason}")
        elif not self.accuracy.lacked_memory and not any(
            "train_accuracy" in earlier.metrics for earlier in self.readings
        ):
            raise InputError(
                "`stop` needs a training accuracy, and the probe has none. The metric "
                f"`{self.train_accuracy}` is not among those logged "
                f"({list_names(self.accuracy.seen)}). Log it in every epoch, name another with "
                "`train_accuracy=`, or pass `measure_accuracy=512`. For the last, batches must "
                "show which entry is the labels."
            )
        return self.stop.stopped

    def close(self) -> None:
        """Release the run's directory, the network and its data."""
        self.watching.take()
        self._name_saved()
        self.loader = None
        if self.tracker is not None:
            self.tracker.close()

    def _name_saved(self) -> None:
        """Record the paths of the weights in all places that keep the readings."""
        if self.tracker is None or not self.readings or not is_first_rank():
            return
        with suppress(OSError):  # the verdict then names the run, and no file
            if saved := self.find_checkpoints():
                self.tracker.name_checkpoints(saved)

    def conclude(self) -> None:
        """Show which checkpoint to keep, or why there is no verdict."""
        if not self.readings:
            return
        warn_of_uncounted(self.stop, self.readings)
        folder = self._find_folder()
        if folder is None or not is_first_rank():
            return
        rate = None if self.stop is None else self.stop.noise_rate
        saved = self.find_checkpoints()
        try:
            if saved:
                name_checkpoints(folder, {step: Path(path) for step, path in saved.items()})
            self.verdict = select(folder, DEFAULT_RULE, noise_rate=rate)
        # A verdict that fails must not make a finished training fail.
        except (RoteError, OSError) as error:
            self.tell(f"No verdict on {folder}: {error}")
            return
        self.tell(write_verdict(self.verdict, self.holdout_hint, self.stop))

    def draw(self, samples: int) -> LabeledBatch:
        """Draw samples of the training set as the network gets them, without using its loader."""
        return self._draw_from(self.training_set(), samples)

    def choose_samples(self, num_classes: int | None = None) -> dict[str, Any]:
        """Choose S̃ or the holdout, with labels and votes, as arguments of ``rote.track``.

        Args:
            num_classes: The number of classes if the trainer knows it and the user did not say.
        """
        batch = self._find_holdout()
        is_holdout = batch is not None
        if batch is None:
            batch = self._draw_first_samples()
        found = {"inputs": batch.inputs} | self.label_options(batch)
        classes = found.get("num_classes") or self.num_classes or num_classes
        predicts = self.policy is None or self.policy.record_predictions
        if self.given_labels is None and is_holdout and predicts:
            # The user's own labels are checked by `rote.track`; those of validation data may be
            # of another kind than the task's, and must not stop a training.
            is_own = self.inputs is not None
            found["given_labels"] = (
                batch.given if is_own else find_usable_labels(batch, found, classes)
            )
        votes = self.neighbor_votes
        given = self.given_labels if self.given_labels is not None else found.get("given_labels")
        if isinstance(votes, str):
            votes = self._vote(replace(batch, given=given), classes) if is_holdout else None
        return {**found, "neighbor_votes": votes}

    def _choose_policy(self, model: nn.Module) -> ProbePolicy:
        """Limit the samples per pass to those of training, unless the user's policy sets them."""
        if self.policy is not None:
            return self.policy
        # BatchNorm needs the whole batch, and a warning about that would be the user's first.
        needs_all = any(isinstance(module, _BatchNorm) for module in model.modules())
        return ProbePolicy(micro_batch=None if needs_all else self.batch_size())

    def _draw_first_samples(self) -> LabeledBatch:
        """S̃ of the training set; its labels serve the training accuracy as well."""
        drawn = self.accuracy.known = self.draw(max(self.samples, self.measure_accuracy))
        return drawn.first(self.samples)

    def _find_holdout(self) -> LabeledBatch | None:
        if self.inputs is not None:
            return self.convert_inputs(self.inputs)
        if self.holdout is None:
            return None
        source = self.set_aside if self.holdout == "split" else self.validation_set()
        problem = "this trainer shows its callbacks no validation data"
        if source is not None:
            try:
                return self._draw_from(source, self.limit_holdout(self.holdout_size))
            except InputError as error:
                problem = f"the validation data cannot be used ({error})"
        if self._find_folder() is not None:
            split = " holdout='split' (sets aside a part of the training set)," * self.can_split
            self.tell(
                f"No holdout: {problem}, so the verdict will be weak. Pass a validation set,{split}"
                " or `inputs=` and `given_labels=`, a few hundred samples kept out of training."
            )
        return None

    def _vote(self, holdout: LabeledBatch, num_classes: int | None) -> np.ndarray | None:
        budget = vote_budget(holdout) if num_classes and self._find_folder() is not None else 0
        try:
            return vote(self.draw(budget), holdout, num_classes) if budget else None
        except InputError:
            return None  # no training set to draw from, or no labels of one class per sample

    def _find_folder(self) -> Path | None:
        return next((t for t in parse_targets(self.save_to) if isinstance(t, Path)), None)

    def _record_split(self) -> None:
        """Record which training samples were set aside."""
        folder = self._find_folder()
        if self.set_aside is not None and folder is not None and is_first_rank():
            self.set_aside.save_indices(folder)

    def _measure(self, inputs: Inputs, given: Tensor) -> float:
        assert self.tracker is not None
        with self.training_context():
            return self.tracker.accuracy(inputs, given)

    def _draw_from(self, source: SampleSet, samples: int) -> LabeledBatch:
        return draw_batch(
            source.dataset, source.collate, samples, seed=self.seed, part_of=self._split
        )

    def _split(self, batch: Any) -> LabeledBatch:
        found = self.split_batch(batch)
        return found if self.inputs_of is None else replace(found, inputs=self.inputs_of(batch))


def _holds_a_run(save_to: SaveTo) -> bool:
    """Return whether there is something to resume; a logger finds the run by its name."""
    targets = parse_targets(save_to)
    return bool(targets) and all((t / RUN_FILE).is_file() for t in targets if isinstance(t, Path))
