"""ζ in a Hugging Face Trainer: one callback that logs it, and can stop by it."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor
from torch.utils.data import IterableDataset

from rote.extras import require
from rote.integrations.accuracy_warning import warn_of_accuracy
from rote.integrations.arguments import check_arguments
from rote.integrations.earlier_run import holds_a_run, resumed_by
from rote.integrations.labelled_batch import LabelledBatch
from rote.integrations.logged import logged_of
from rote.integrations.uncounted import warn_of_uncounted
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy, unwrapped
from rote.records import Reading
from rote.store import SaveTo, targets_of
from rote.tracking import StopRule, Tracker, track

try:
    from transformers import (
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

    from rote.integrations.huggingface_training import (
        calling_trainer,
        check_schedule,
        logged_since_probe,
        objective_of,
        offer_as_best_metric,
        refuse_no_accuracy,
        taken_up,
        training_samples,
        warn_of_deletion,
        warn_of_no_probe,
        without_labels,
    )
except ImportError:
    require("transformers", extra="huggingface")
    raise
require("accelerate", extra="huggingface")  # without it a Trainer can be imported, but not built

logger = logging.getLogger(__name__)


class SusceptibilityCallback(TrainerCallback):
    """Probes the network after every epoch, or every n optimizer steps, and logs what it finds.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain``, ``probe/drop`` and the measured
    ``train_accuracy``, through the Trainer's own ``log``: they are in ``state.log_history`` and
    wherever ``report_to`` says. Training is bit-identical with and without the callback. Its state
    is part of the Trainer's checkpoints.

    Args:
        num_classes: how many classes the network tells apart.
        inputs: unlabelled samples, as the collator makes them (``rote.track``). If they still have
            labels, these are taken out and are the ``given_labels``. By default ``samples`` of the
            training set, drawn without its loader.
        every: ``"epoch"``, or n: after every n-th optimizer step.
        train_accuracy: the name of a metric that is logged; its newest value since the last probe
            is recorded as the training accuracy. With a name that starts with ``eval_``, the probe
            waits for the evaluation that brings the metric. ``None``: none is looked for.
        measure_accuracy: where no such metric was logged, the training accuracy is measured on so
            many samples of the training set, in eval mode, leaving no trace; 0: never.
        stop: when to stop. Needs a training accuracy.
        loss_fn: the training objective, called with the network's output and labels. By default the
            Trainer's: its ``compute_loss_func``, its label smoothing, or cross entropy.
        labels: other random labels than uniform ones, per sample or token (``rote.labels``).
        given_labels: the given labels of ``inputs``, for ``validation_accuracy``.
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the random labels, and of the choice of samples.
        name: the name of the run; tells several callbacks of one Trainer apart.
        save_to: where the run is recorded; a resumed run goes on with its directory.
        samples: how many samples of the training set make S̃ when there are no ``inputs``.

    Attributes:
        tracker: the tracker of the current or last training; its ``readings`` also know ``epoch``
            and ``global_step``.
        stop: the stop rule.

    Raises:
        InputError: if ``every``, ``samples`` or ``stop`` does not fit; training checks the rest.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    def __init__(
        self,
        *,
        num_classes: int,
        inputs: Inputs | Callable[[], Inputs] | None = None,
        every: Literal["epoch"] | int = "epoch",
        train_accuracy: str | None = "train_accuracy",
        measure_accuracy: int = 512,
        stop: StopRule | None = None,
        loss_fn: LossFunction | None = None,
        labels: Tensor | LabelSampler | None = None,
        given_labels: Tensor | None = None,
        policy: ProbePolicy | None = None,
        seed: int = 0,
        name: str | None = None,
        save_to: SaveTo = None,
        samples: int = 128,
    ) -> None:
        check_arguments(every=every, samples=samples, stop=stop)
        self.tracker: Tracker | None = None
        self.stop = stop
        self._new_stop = {} if stop is None else stop.state_dict()
        self._every = every
        self._train_accuracy, self._measure_accuracy = train_accuracy, measure_accuracy
        self._inputs, self._samples, self._name, self._save_to = inputs, samples, name, save_to
        self._loss_fn, self._labels, self._given_labels = loss_fn, labels, given_labels
        self._options: Any = {"num_classes": num_classes, "policy": policy, "seed": seed}
        self._trainer: Trainer | None = None
        self._known: LabelledBatch | None = None
        self._output_dir, self._is_waiting, self._is_checked = Path(), False, False

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint is the one to keep, as ``stop`` says."""
        return None if self.stop is None else self.stop.keep

    @property
    def keep_path(self) -> str | None:
        """The checkpoint to keep, if the Trainer has saved it."""
        readings = [] if self.tracker is None else self.tracker.readings
        kept = next((reading for reading in readings if reading.step == self.keep), None)
        path = self._output_dir / f"checkpoint-{kept.global_step:.0f}" if kept else None
        return str(path) if path is not None and path.is_dir() else None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: object,
    ) -> None:
        """Build the tracker, now that model, optimizer and checkpoint are in place."""
        if self.tracker is not None:
            self.tracker.close()
        self._trainer, self._output_dir = calling_trainer(state), Path(args.output_dir or "")
        self._is_waiting, self._is_checked = False, False
        check_schedule(self._trainer, self._every, self._train_accuracy)
        self._start(self._trainer, taken_up(state, self._name, self._state))
        if self.stop is not None:
            warn_of_deletion(args)

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """Probe if an epoch, or n steps, are over; the gradients are zero by now."""
        # Not at `on_epoch_end`: a checkpoint saved at the last step of an epoch comes before it,
        # and a run that is resumed from there would miss the reading.
        if self._every == "epoch":
            is_due = float(state.epoch).is_integer()
        else:
            is_due = state.global_step % self._every == 0
        if is_due and (self._train_accuracy or "").startswith("eval_"):
            self._is_waiting = True
        elif is_due and self.tracker is not None:
            self._probe(state, control, self._accuracy(self.tracker, state))

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **found: Any,  # noqa: ANN401
    ) -> None:
        """Probe if it brings the accuracy that a probe waits for; ζ may be the best metric."""
        accuracy = found["metrics"].get(self._train_accuracy)
        if self._is_waiting and accuracy is not None:
            self._is_waiting = False
            self._probe(state, control, {"train_accuracy": accuracy})
        if self._trainer is not None and self.tracker is not None:
            offer_as_best_metric(found["metrics"], args, self.tracker.readings)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: object,
    ) -> None:
        """Tell the Trainer which checkpoint its ``save_total_limit`` must spare."""
        if self.keep_path is not None and args.metric_for_best_model is None:
            state.best_model_checkpoint = self.keep_path

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,  # noqa: ARG002
        **_: object,
    ) -> None:
        """Let the run's directory go."""
        self._trainer = None
        if self.tracker is None:
            return
        self.tracker.close()
        if state.is_world_process_zero and self.tracker.readings:
            warn_of_uncounted(self.stop, self.tracker)
        elif state.is_world_process_zero:
            awaited = self._train_accuracy if self._is_waiting else None
            warn_of_no_probe(state, self._every, awaited)

    def _start(self, trainer: Trainer, saved: Mapping[str, Any] | None) -> None:
        optimizer: Any = trainer.optimizer  # built by now
        with resumed_by("resume_from_checkpoint="):
            self.tracker = track(
                trainer.model_wrapped,
                optimizer,
                loss_fn=self._loss_fn or objective_of(trainer),
                name=self._name if targets_of(self._save_to) else None,
                save_to=self._save_to,
                resume=saved is not None and holds_a_run(self._save_to),
                **self._samples_and_labels(trainer),
                **self._options,
            )
        if self.stop is not None:
            self.stop.load_state_dict((saved or {}).get("stop") or self._new_stop)
        if saved is not None:
            self._is_waiting = saved["is_waiting"]
            self.tracker.load_state_dict(saved["tracker"])

    def _samples_and_labels(self, trainer: Trainer) -> dict[str, Any]:
        """S̃ and its labels; keeps the samples on which training accuracy is measured."""
        labels, given = self._labels, self._given_labels
        is_stream = isinstance(trainer.train_dataset, IterableDataset)
        if self._inputs is None or (self._measure_accuracy and not is_stream):
            count = max(self._samples, self._measure_accuracy)
            self._known = training_samples(trainer, count, seed=self._options["seed"])
        if self._inputs is None and self._known is not None:
            batch = self._known.first(self._samples)
        else:
            batch = without_labels(self._inputs, trainer)
            given = batch.given if given is None else given
        if labels is None:
            model = unwrapped(trainer.model_wrapped)
            labels = batch.random_labels(model, self._options["num_classes"])
        return {"inputs": batch.inputs, "labels": labels, "given_labels": given}

    def _accuracy(self, tracker: Tracker, state: TrainerState) -> dict[str, float]:
        """The training accuracy: as logged since the last probe, or else measured."""
        earlier = tracker.readings[-1].global_step if tracker.readings else 0
        found = logged_since_probe(state, earlier, self._train_accuracy)
        if found is not None:
            return {"train_accuracy": found}
        samples, known = self._measure_accuracy, self._known
        if samples and known is not None and known.given is not None:
            found = tracker.accuracy(known.first(samples).inputs, known.given[:samples])
        if not self._is_checked and state.is_world_process_zero:
            self._is_checked, name = True, self._train_accuracy
            logged = [metric for entry in state.log_history for metric in entry]
            warn_of_accuracy(name, logged, samples=samples, is_measured=found is not None)
        return {} if found is None else {"train_accuracy": found}

    def _probe(
        self, state: TrainerState, control: TrainerControl, accuracy: Mapping[str, float]
    ) -> None:
        if self.tracker is None or self._trainer is None:
            return
        now = {"epoch": state.epoch, "global_step": state.global_step}
        reading = self.tracker.probe(**now, **accuracy)
        if reading is None:
            return
        should_log = control.should_log
        self._trainer.log({**logged_of(reading), **accuracy})
        control.should_log = should_log  # the Trainer's own log of this step is still to come
        if self.stop is not None:
            self._decide(self.stop, reading, control)

    def _decide(self, stop: StopRule, reading: Reading, control: TrainerControl) -> None:
        refuse_no_accuracy(reading, self._train_accuracy)
        if stop.update(reading):
            control.should_training_stop = True
            logger.info("Training stops: %s", stop.reason)
        if stop.keep == reading.step:
            control.should_save = True

    def _state(self) -> dict[str, Any]:
        """What the next readings and the stop depend on."""
        tracker = None if self.tracker is None else self.tracker.state_dict()
        stop = None if self.stop is None else self.stop.state_dict()
        return {"tracker": tracker, "stop": stop, "is_waiting": self._is_waiting}
