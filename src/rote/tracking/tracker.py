"""The tracker, which probes when a probe is due, keeps ζ, writes readings and saves its state."""

import math
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.optim import Optimizer

from rote.arguments import check_number
from rote.errors import (
    CorruptRunError,
    InputError,
    NonFiniteReadingWarning,
    ProbeMemoryError,
    RoteWarning,
    SkippedReadingWarning,
    StateError,
)
from rote.interpretation import Watch, explain_susceptibility, find_notes
from rote.probe import (
    Inputs,
    OptimizerWatch,
    Probe,
    ProbePolicy,
    broadcast_from_first,
    check_model_and_optimizer,
    count_ranks,
    count_samples,
    fail_together,
    hash_content,
    is_first_rank,
    list_members,
    unwrap_optimizer,
)
from rote.records import SHARES, Reading
from rote.snapshot import hold_signals, restore_after
from rote.store import Sinks, Writing, check_metric_name, read_whole_readings
from rote.tracking.random_batch import RandomBatch
from rote.tracking.signals import Batch, Signals, as_given_labels, compute_validation_accuracy
from rote.tracking.susceptibility import Susceptibility

_STATE_VERSION = 1
_STATE_KEYS = {
    *("version", "step", "num_classes", "policy", "holdout", "batch", "means", "signals"),
    *("count", "run", "readings", "predictions"),
}
_ROUNDING = 1e-6  # a mean of ones in single precision


class Tracker:
    """Tracks the susceptibility of one training run. Made by ``rote.track``.

    With a run directory in ``save_to``, what is recorded per sample is kept on disk only, and
    ``state_dict`` has the same size however long the run is: the readings stay in the journal.
    Without one, the readings and their predictions are kept in memory and saved with the state.

    A copy (``copy.deepcopy``, ``pickle``) of a tracker with a ``save_to`` does not write, and
    refuses to probe.

    Attributes:
        readings: all readings so far.
        batch: S̃, its random labels, and the holdout it is taken from.
        signals: the signals that are recorded besides ζ.
        policy: the policy of its probes.
        predicts: whether the classes of the holdout are predicted and recorded at every probe.
        start: ζ by column for the network as it was given to ``rote.track``, usually an untrained
            one.

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> tracker = rote.track(model, optimizer, inputs=torch.randn(16, 4), num_classes=3)
        >>> for epoch in range(2):
        ...     reading = tracker.probe()
        >>> len(tracker.readings), tracker.susceptibility == reading.susceptibility
        (2, True)
    """

    def __init__(
        self, probe: Probe, batch: RandomBatch, signals: Signals, *, predicts: bool
    ) -> None:
        self.readings: list[Reading] = []
        self.batch = batch
        self.signals = signals
        self.policy: ProbePolicy = signals.context.policy
        self.predicts = predicts
        self.start: Mapping[str, float] = {}
        self._noise_rate: float | None = None
        self._probe = probe
        self._trainer = OptimizerWatch(probe.model, probe.optimizer)
        self._means = Susceptibility(probe.num_classes)
        self._watch = Watch()
        self._step = 0
        self._run = Sinks()
        self._warned: set[str] = set()
        self._ranks = count_ranks()

    @property
    def susceptibility(self) -> float:
        """ζ so far; 0 before the first reading, as in Algorithm 1."""
        return self.readings[-1].susceptibility if self.readings else 0.0

    @property
    def perspective(self) -> str:
        """The current ζ compared with the run's lowest value and with the network at the start."""
        return explain_susceptibility(self.readings, self.start)

    @property
    def notes(self) -> dict[int, str]:
        """The notes so far, by step; ``reading.note`` has the note of a reading."""
        return find_notes(self.readings, self._noise_rate)

    @property
    def noise_rate(self) -> float | None:
        """The share of wrong labels; set it where it is known, for a note when they are learned."""
        return self._noise_rate

    @noise_rate.setter
    def noise_rate(self, rate: float | None) -> None:
        self._noise_rate = (
            None if rate is None else check_number("noise_rate", rate, least=0, most=1)
        )
        self._watch = Watch().observe_all(self.readings, self._noise_rate)

    def observe(
        self,
        *,
        labels: Tensor,
        logits: Tensor,
        inputs: Inputs | None = None,
        indices: Tensor | None = None,
        loss: Tensor | None = None,
    ) -> None:
        """Pass a training batch to the signals; without signals this does nothing.

        Args:
            labels: the given labels.
            logits: the logits from the training's own forward pass.
            inputs: the samples.
            indices: the indices of the samples in the training set, from 0.
            loss: the loss of the batch, or one per sample.

        Raises:
            InputError: if a signal lacks something that it needs.
        """
        if len(self.signals):
            indices, loss = (None if t is None else t.detach() for t in (indices, loss))
            self.signals.observe(Batch(labels.detach(), logits.detach(), inputs, indices, loss))

    def probe(self, **metrics: float | Tensor) -> Reading | None:
        """Probe after one more unit of training (an epoch, or a step), if it is due.

        With several ranks all must call this. Losses and all that follows from them are means over
        the ranks and the same on each; predictions are the first rank's; metrics are this rank's,
        and the first rank's are written.

        Args:
            metrics: whatever else is known at this point, such as ``train_accuracy=0.9``, which
                ``StopRule`` and most rules of ``rote.select`` need; numbers or tensors of one
                element. Accuracies are shares from 0 to 1.

        Returns:
            The reading, or ``None`` when the policy's ``every`` says that it is not due, or when
            there was not enough memory (``SkippedReadingWarning``).

        Raises:
            InputError: if a metric is no number or has a name in use, the model's output does not
                fit, or the tracker was closed and had a ``save_to``.
            OSError: if the reading cannot be written. Whatever is raised, the training is as
                before, and the tracker as if it had not been called; an interrupt that comes when
                the reading is taken already leaves it taken, on disk as in memory.
            ConcurrentProbeError: if another thread is probing this model.
            RankError: if another rank failed.
        """
        self._check_ranks()
        step = self._step + 1
        if not self._is_due(step):
            if count_ranks() == 1:  # of many ranks, one alone must not fail here
                as_numbers(metrics)
            self._step = step
            return None
        self._follow_training()
        means = deepcopy(self._means)
        with self._skip_without_memory(step), ExitStack() as undoing:
            with fail_together() as facts:
                self._run.check_open()
                numbers = self._as_finite(as_numbers(metrics), step)
                self.signals.check_metrics(numbers)
                drawn = self.batch.draw_or_undo(anew=bool(self.readings))
                inputs, labels = undoing.enter_context(drawn)
                facts |= self._list_facts(step, inputs, labels)
            reading = self._measure(inputs, labels, means, step)
            undoing.enter_context(self.signals.roll_back_on_error())
            with fail_together():
                context = self.signals.context
                context.inputs, context.labels = inputs, labels
                context.predictions = reading.predictions
                with self._probe.explain_memory_errors(len(labels)):  # signals may run passes
                    reading = self.signals.read(replace(reading, metrics=numbers))
                watch, note = self._watch.observe(reading, self._noise_rate)
                reading = replace(reading, note=note)
                means.warn(reading, self._warned)
                self._warn_of_percentages(reading.metrics)
            self._keep(reading, means, watch, undoing)
            return reading
        return None  # skipped

    def follow_optimizer(self, optimizer: Optimizer | Sequence[Optimizer]) -> None:
        """Probe with another optimizer from now on: the loop has built a new one.

        A rebuilt optimizer is mostly found by itself at the next probe, with an
        ``OptimizerWarning``; this says so beforehand. ζ continues from the readings so far.

        Args:
            optimizer: the new optimizer, or a list of optimizers that are stepped together.

        Raises:
            InputError: if it does not fit the model.
            InterferenceError: naming what a probe changes and cannot restore.
        """
        check_model_and_optimizer(self._probe.model, optimizer)
        probe = replace(self._probe, optimizer=unwrap_optimizer(optimizer))
        trial = probe.check(self.batch.inputs, self.batch.labels, predicts=self.predicts)
        for warning in trial.warnings:
            warnings.warn(warning, stacklevel=2)
        self._probe = probe
        self.signals.context.optimizer = probe.optimizer
        self._trainer = OptimizerWatch(probe.model, probe.optimizer)

    def accuracy(self, inputs: Inputs, labels: Tensor) -> float:
        """Measure the share of samples whose label the model predicts, in eval mode.

        With some of the training set and its given labels this is the ``train_accuracy`` that
        selection uses.

        Raises:
            InputError: if the labels do not fit the samples.
        """
        own = self.batch.labels.shape
        if isinstance(labels, Tensor) and labels.dim() == len(own):
            own = torch.Size([own[0], *labels.shape[1:]])  # texts may be padded to another length
        given = as_given_labels(
            labels,
            shape=(count_samples(inputs), *own[1:]),
            num_classes=self._probe.num_classes,
            name="labels",
        )
        return compute_validation_accuracy(self._probe.predict(inputs, own), given)

    def state_dict(self) -> dict[str, Any]:
        """Return everything that the next readings depend on: numbers, strings and tensors only.

        When this returns, everything written so far is on the disk.
        """
        self._run.sync()
        run = self._run.directory
        return {
            "version": _STATE_VERSION,
            "step": self._step,
            "num_classes": self._probe.num_classes,
            "policy": self.policy.describe(),
            "holdout": self.batch.holdout_hash,
            "batch": self.batch.state_dict(),
            "means": self._means.state_dict(),
            "signals": self.signals.state_dict(),
            "count": len(self.readings),
            "run": None if run is None else str(run),
            "readings": None if run else [reading.to_dict() for reading in self.readings],
            "predictions": None if run else [_as_tensor(r.predictions) for r in self.readings],
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state, as if the run had never been interrupted.

        With ``save_to`` and ``resume=True``, readings in the journal that came after this state are
        declared void: they will be taken again.

        Args:
            state: what ``state_dict`` returned. The state of a tracker with a run directory needs
                that directory: it holds the readings.

        Raises:
            StateError: if the state is incomplete, belongs to other inputs or signals, or the
                readings that it was saved with are gone.
        """
        _check_state(
            state,
            num_classes=self._probe.num_classes,
            policy=self.policy,
            holdout_hash=self.batch.holdout_hash,
        )
        means = Susceptibility(self._probe.num_classes)
        means.load_state_dict(state["means"])
        readings = self._get_readings(state)
        self.signals.load_state_dict(state["signals"])
        self.batch.load_state_dict(state["batch"])
        if not self._run.found:
            self.start = {}  # the network that was given may have been trained before
        self._run.resume_from(readings)
        self.readings = [self._as_kept(reading) for reading in readings]
        self._watch = Watch().observe_all(readings, self._noise_rate)
        self._means, self._step = means, state["step"]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: everything except open files and loggers."""
        return self.__dict__ | {"_run": self._run.detach()}

    def _get_readings(self, state: Mapping[str, Any]) -> list[Reading]:
        """Return the readings that a state was saved with, from the state or the run's journal."""
        if state["readings"] is not None:
            return [
                replace(Reading.from_dict(values), predictions=None if p is None else p.numpy())
                for values, p in zip(state["readings"], state["predictions"], strict=True)
            ]
        if self._is_saved_after(state, self.readings):
            return self.readings[: state["count"]]
        try:
            recorded = read_whole_readings(Path(state["run"]))
        except (CorruptRunError, OSError):
            recorded = ()
        if self._is_saved_after(state, recorded):
            return list(recorded[: state["count"]])
        raise StateError(
            f"The state was saved after {state['count']} readings of {state['run']}, which the "
            "journal no longer holds. Restore the run directory, or pass it as `save_to` with "
            "resume=True."
        )

    def _is_saved_after(self, state: Mapping[str, Any], readings: Sequence[Reading]) -> bool:
        """Tell whether the first of some readings are those that a state was saved with."""
        if len(readings) < state["count"]:
            return False
        means = Susceptibility(self._probe.num_classes)
        for reading in readings[: state["count"]]:
            means.update(reading.step, reading.loss_before, reading.drop, reading.drop_plain)
        return bool(means.state_dict() == state["means"])

    def _as_kept(self, reading: Reading) -> Reading:
        """Return a reading as it is kept in memory, without what the run directory holds."""
        is_on_disk = self._run.directory is not None and reading.predictions is not None
        if not is_on_disk and not reading.sample_rows:
            return reading
        predictions = None if is_on_disk else reading.predictions
        return replace(reading, predictions=predictions, sample_rows={})

    def write_to(self, run: Sinks, *, resumed: bool) -> None:
        """Write every reading from now on.

        Args:
            run: the open run directory, loggers and functions; the tracker continues after the
                readings that it already holds.
            resumed: whether it was written before.
        """
        self._run = run
        self.follow(run.earlier)
        if resumed:
            # Also where no reading survived: it closes off a line that a kill cut in two.
            run.resume_from(self.readings)

    def follow(self, earlier: Sequence[Reading]) -> None:
        """Continue after ``earlier`` readings, which start with the first; known ones are kept."""
        for reading in earlier[len(self.readings) :]:
            self._means.update(reading.step, reading.loss_before, reading.drop, reading.drop_plain)
            if self.readings:
                self.batch.draw()
            self.readings.append(self._as_kept(reading))
            self._watch = self._watch.observe_all([reading], self._noise_rate)
            self._step = reading.step

    def name_checkpoints(self, files: Mapping[int, Path | str]) -> None:
        """Record where the weights of readings are saved, so that a verdict names the file.

        Without this, files named ``step-7.pt`` (or ``.safetensors``, ``.pth``, ``.ckpt``) in the
        run directory are found. Where there is no ``save_to``, nothing is recorded.

        Args:
            files: from the ``step`` of a reading to the file, or a trainer's folder. All that are
                known so far: it replaces what was recorded before.
        """
        self._run.name_checkpoints({step: Path(file) for step, file in files.items()})

    def close(self) -> None:
        """Stop writing, so that another process may resume the run.

        Where there was a ``save_to``, there can be no probe after this. Closing twice is fine.
        """
        self._run.close()

    def _follow_training(self) -> None:
        """Warn if another optimizer has taken over the training."""
        found = self._trainer.look()
        if isinstance(found, tuple):
            optimizer, found = found
            self.follow_optimizer(list_members(optimizer))
        if found is not None:
            warnings.warn(found, stacklevel=3)

    @contextmanager
    def _skip_without_memory(self, step: int) -> Iterator[None]:
        """Let training continue without a reading when a probe runs out of memory."""
        try:
            yield
        except ProbeMemoryError as error:
            message = f"{error} The reading at step {step} is skipped; training continues."
            warnings.warn(SkippedReadingWarning(message), stacklevel=4)
            self._step = step

    def _measure(self, inputs: Inputs, labels: Tensor, means: Susceptibility, step: int) -> Reading:
        started = time.perf_counter()
        measurement = self._probe.measure(
            inputs, labels, self.batch.holdout if self.predicts else None
        )
        reading = means.read(measurement, step, self.policy)
        return replace(reading, seconds=time.perf_counter() - started)

    def _keep(
        self, reading: Reading, means: Susceptibility, watch: Watch, undoing: ExitStack
    ) -> None:
        """Write and remember a reading, both or neither, and leave nothing to be undone."""
        writing = Writing(self._run, self.readings)
        with restore_after(writing):
            with fail_together():
                writing.append(reading)
            # Slow loggers can be interrupted; from here on there is only memory.
            with hold_signals() as interrupts:
                interrupts.run_handlers()
                self._means, self._step, self._watch = means, reading.step, watch
                self.readings.append(self._as_kept(reading))
                undoing.close()
                writing.is_settled = True

    def _as_finite(self, metrics: Mapping[str, float], step: int) -> dict[str, float]:
        """Replace infinite metrics, which no file holds, by NaN, and warn once for each name."""
        for name, value in metrics.items():
            if math.isinf(value) and f"infinite {name}" not in self._warned and is_first_rank():
                self._warned.add(f"infinite {name}")
                warnings.warn(
                    f"Metric `{name}` is infinite at step {step}; it is recorded as missing (NaN).",
                    NonFiniteReadingWarning,
                    stacklevel=3,
                )
        return {name: math.nan if math.isinf(v) else v for name, v in metrics.items()}

    def _warn_of_percentages(self, metrics: Mapping[str, float]) -> None:
        """Warn once, on the first rank, about an accuracy above 1."""
        odd = [name for name in SHARES if metrics.get(name, 0.0) > 1 + _ROUNDING]
        if odd and "percentage" not in self._warned and is_first_rank():
            self._warned.add("percentage")
            warnings.warn(
                f"Expected accuracies to be shares from 0 to 1, got {odd[0]}={metrics[odd[0]]:g}. "
                "Divide percentages by 100: selection rules compare shares.",
                RoteWarning,
                stacklevel=3,
            )

    def _check_ranks(self) -> None:
        if count_ranks() != self._ranks:
            raise InputError(
                f"The tracker was made by {self._ranks} ranks, and there are {count_ranks()} now. "
                "Call init_process_group before rote.track."
            )

    def _is_due(self, step: int) -> bool:
        every = self.policy.every
        # The ranks' clocks differ; one of them decides.
        return broadcast_from_first(every(step)) if callable(every) else step % every == 0

    def _list_facts(self, step: int, inputs: Inputs, labels: Tensor) -> dict[str, str]:
        """Return what must be the same on all ranks for a mean over them to be meaningful."""
        if count_ranks() == 1:
            return {}
        facts = {"the tracker's step": str(step), "ζ so far": repr(self.susceptibility)}
        if self.policy.resample:
            facts["S̃"] = hash_content({"inputs": inputs, "labels": labels})
        return facts


def as_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """Convert a caller's metrics to numbers.

    Raises:
        InputError: if a value is not a number, or a name is in use or cannot be written.
    """
    numbers = {}
    for name, value in metrics.items():
        check_metric_name(name)
        try:
            # A string is not a number, even if it reads like one.
            numbers[name] = float(None if isinstance(value, str) else value)  # type: ignore[arg-type]
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(f"Expected metric `{name}` to be a number, got {value!r}.") from error
    return numbers


def _as_tensor(predictions: np.ndarray | None) -> Tensor | None:
    return None if predictions is None else torch.from_numpy(predictions)


def _check_state(
    state: Mapping[str, Any], *, num_classes: int, policy: ProbePolicy, holdout_hash: str | None
) -> None:
    if not isinstance(state, Mapping) or set(state) != _STATE_KEYS:
        keys = set(state) if isinstance(state, Mapping) else set()
        raise StateError(
            f"Expected the state of a tracker, got {type(state).__name__} with missing keys "
            f"{sorted(_STATE_KEYS - keys)} and unknown keys {sorted(keys - _STATE_KEYS)}."
        )
    if state["version"] != _STATE_VERSION:
        raise StateError(
            f"Expected a tracker state of version {_STATE_VERSION}, got {state['version']!r}."
        )
    if state["num_classes"] != num_classes:
        raise StateError(
            f"Expected a state for num_classes = {num_classes}, got {state['num_classes']!r}."
        )
    if not policy.measures_as(state["policy"]):
        raise StateError(
            f"Expected a state of the same policy, {policy.describe()!r}, got "
            f"{state['policy']!r}. Drops of two policies have no common mean."
        )
    if state["holdout"] != holdout_hash:
        raise StateError(
            "`inputs` are not the samples that the state was saved with (their hashes differ). "
            "Pass the same samples, or start a new tracker."
        )
