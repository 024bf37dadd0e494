"""The tracker: probes when it is time, remembers the means, writes the journal."""

import time
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from rote.arguments import check_number
from rote.errors import InputError
from rote.interpretation import Watch, explain_susceptibility, find_notes
from rote.probe import (
    Inputs,
    OptimizerWatch,
    Probe,
    ProbePolicy,
    agreed,
    bare_optimizer,
    check_model_and_optimizer,
    content_hash,
    from_first_rank,
    members_of,
    num_samples,
    world_size,
)
from rote.records import Reading
from rote.snapshot import delayed_interrupts, restored
from rote.store import Sinks, Writing
from rote.tracking.metrics import as_numbers, warn_of_per_cent
from rote.tracking.noisy_validation import as_given_labels, validation_accuracy
from rote.tracking.random_batch import RandomBatch
from rote.tracking.signal_batch import Batch
from rote.tracking.signals import Signals
from rote.tracking.susceptibility import Susceptibility
from rote.tracking.tracker_state import STATE_VERSION, check_state, readings_of, state_of


class Tracker:
    """Tracks the susceptibility of one training run. Made by ``rote.track``.

    Attributes:
        readings: all readings so far.
        batch: S̃, its random labels, and the holdout it is taken from.
        signals: what is observed beside ζ.
        policy: how it probes.
        predicts: whether the classes of the holdout are predicted and recorded at every probe.
        start: what the four ζ would be by the network alone that was given to ``rote.track``, by
            column: what a fresh network shows.
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
        self._ranks = world_size()

    @property
    def susceptibility(self) -> float:
        """ζ so far; 0 before the first reading, as in Algorithm 1."""
        return self.readings[-1].susceptibility if self.readings else 0.0

    @property
    def perspective(self) -> str:
        """How high ζ is now: beside the run's own lowest, and beside the network at the start."""
        return explain_susceptibility(self.readings, self.start)

    @property
    def notes(self) -> dict[int, str]:
        """What happened so far, in sentences, by step; ``reading.note`` has that of a reading."""
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
        self._watch = Watch().after_all(self.readings, self._noise_rate)

    def observe(
        self,
        *,
        labels: Tensor,
        logits: Tensor,
        inputs: Inputs | None = None,
        indices: Tensor | None = None,
        loss: Tensor | None = None,
    ) -> None:
        """Show the signals a batch that is trained on; without signals this does nothing.

        Args:
            labels: the given labels.
            logits: what the network said in the training's own forward pass.
            inputs: the samples.
            indices: which samples of the training set they are, from 0.
            loss: of the batch, or one per sample.

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
            The reading, or ``None`` when the policy's ``every`` says that it is not due.

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
            if world_size() == 1:  # of many ranks, one alone must not fail here
                as_numbers(metrics)
            self._step = step
            return None
        self._follow_training()
        means = deepcopy(self._means)
        with ExitStack() as undoing:
            with agreed() as facts:
                self._run.check_open()
                numbers = as_numbers(metrics)
                self.signals.check_metrics(numbers)
                drawn = self.batch.drawn(anew=bool(self.readings))
                inputs, labels = undoing.enter_context(drawn)
                facts |= self._facts(step, inputs, labels)
            reading = self._measure(inputs, labels, means, step)
            undoing.enter_context(self.signals.tentative())
            with agreed():
                context = self.signals.context
                context.inputs, context.labels = inputs, labels
                context.predictions = reading.predictions
                reading = self.signals.read(replace(reading, metrics=numbers))
                watch, note = self._watch.after(reading, self._noise_rate)
                reading = replace(reading, note=note)
                means.warn(reading, self._warned)
                warn_of_per_cent(reading.metrics, self._warned)
            self._keep(reading, means, watch, undoing)
        return reading

    def follow_optimizer(self, optimizer: Optimizer | Sequence[Optimizer]) -> None:
        """Probe with another optimizer from now on: the loop has built a new one.

        A rebuilt optimizer is mostly found by itself at the next probe, with an
        ``OptimizerWarning``; this says so beforehand. ζ goes on with the readings so far.

        Args:
            optimizer: the one that trains now, or a list of those that are stepped together.

        Raises:
            InputError: if it does not fit the model.
            InterferenceError: naming what a probe changes and cannot put back.
        """
        check_model_and_optimizer(self._probe.model, optimizer)
        probe = replace(self._probe, optimizer=bare_optimizer(optimizer))
        trial = probe.check(self.batch.inputs, self.batch.labels, predicts=self.predicts)
        for warning in trial.warnings:
            warnings.warn(warning, stacklevel=2)
        self._probe = probe
        self.signals.context.optimizer = probe.optimizer
        self._trainer = OptimizerWatch(probe.model, probe.optimizer)

    def accuracy(self, inputs: Inputs, labels: Tensor) -> float:
        """The share of samples whose label the model predicts, in eval mode, leaving no trace.

        With some of the training set and its given labels this is the ``train_accuracy`` that
        selection goes by.

        Raises:
            InputError: if the labels do not fit the samples.
        """
        own = self.batch.labels.shape
        if isinstance(labels, Tensor) and labels.dim() == len(own):
            own = torch.Size([own[0], *labels.shape[1:]])  # texts may be padded to another length
        given = as_given_labels(
            labels,
            shape=(num_samples(inputs), *own[1:]),
            num_classes=self._probe.num_classes,
            name="labels",
        )
        return validation_accuracy(self._probe.predict(inputs, own), given)

    def state_dict(self) -> dict[str, Any]:
        """Everything that the next readings depend on: numbers, strings and tensors only."""
        return {
            "version": STATE_VERSION,
            "step": self._step,
            "num_classes": self._probe.num_classes,
            "policy": self.policy.describe(),
            "holdout": self.batch.holdout_hash,
            "batch": self.batch.state_dict(),
            "means": self._means.state_dict(),
            "signals": self.signals.state_dict(),
            **state_of(self.readings),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state, as if the run had never been interrupted.

        With ``save_to`` and ``resume=True``, readings in the journal that came after this state are
        declared void: they will be taken again.

        Raises:
            StateError: if the state is incomplete, or belongs to other inputs or signals.
        """
        check_state(
            state,
            num_classes=self._probe.num_classes,
            policy=self.policy,
            holdout_hash=self.batch.holdout_hash,
        )
        means = Susceptibility(self._probe.num_classes)
        means.load_state_dict(state["means"])
        readings = readings_of(state["readings"], state["predictions"])
        self.signals.load_state_dict(state.get("signals", {}))
        self.batch.load_state_dict(state["batch"])
        self.readings, self._watch = readings, Watch().after_all(readings, self._noise_rate)
        self._means, self._step = means, state["step"]
        if not self._run.found:
            self.start = {}  # the network that was given may have been trained before
        self._run.go_on_from(readings)

    def write_to(self, run: Sinks, *, resumed: bool) -> None:
        """Write every reading from now on.

        Args:
            run: the open run directory, loggers and functions; the tracker goes on after the
                readings that it already holds.
            resumed: whether it was written before.
        """
        self._run = run
        self.follow(run.earlier)
        if resumed:
            # Also where no reading survived: it closes off a line that a kill cut in two.
            run.go_on_from(self.readings)

    def follow(self, earlier: Sequence[Reading]) -> None:
        """Go on after ``earlier`` readings, all from the first on; those already here are kept."""
        for reading in earlier[len(self.readings) :]:
            self._means.update(reading.step, reading.loss_before, reading.drop, reading.drop_plain)
            if self.readings:
                self.batch.draw()
            self.readings.append(reading)
            self._watch = self._watch.after_all([reading], self._noise_rate)
            self._step = reading.step

    def close(self) -> None:
        """Stop writing, so that another process may go on with the run.

        Where there was a ``save_to``, there can be no probe after this. Closing twice is fine.
        """
        self._run.close()

    def _follow_training(self) -> None:
        """Never measure in silence with an optimizer that trains no more."""
        found = self._trainer.look()
        if isinstance(found, tuple):
            optimizer, found = found
            self.follow_optimizer(members_of(optimizer))
        if found is not None:
            warnings.warn(found, stacklevel=3)

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
        with restored(writing):
            with agreed():
                writing.append(reading)
            # Slow loggers can be interrupted; from here on there is only memory.
            with delayed_interrupts() as interrupts:
                interrupts.act()
                self._means, self._step, self._watch = means, reading.step, watch
                # What there is per sample of the training set is on disk, and too much to hold.
                self.readings.append(
                    replace(reading, sample_rows={}) if reading.sample_rows else reading
                )
                undoing.close()
                writing.is_settled = True

    def _check_ranks(self) -> None:
        if world_size() != self._ranks:
            raise InputError(
                f"Expected the tracker to be made by {world_size()} ranks together, got one that "
                f"was made when there were {self._ranks}. Call init_process_group before "
                "rote.track."
            )

    def _is_due(self, step: int) -> bool:
        every = self.policy.every
        # The ranks' clocks differ; one of them decides.
        return from_first_rank(every(step)) if callable(every) else step % every == 0

    def _facts(self, step: int, inputs: Inputs, labels: Tensor) -> dict[str, str]:
        """What must be the same on all ranks for a mean over them to have a meaning."""
        if world_size() == 1:
            return {}
        facts = {"the tracker's step": str(step), "ζ so far": repr(self.susceptibility)}
        if self.policy.resample:
            facts["S̃"] = content_hash({"inputs": inputs, "labels": labels})
        return facts
