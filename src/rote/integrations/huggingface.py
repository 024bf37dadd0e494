"""ζ in a Hugging Face Trainer: one callback that logs it, and can stop by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import Adapter, logged_of
from rote.integrations.forward_calls import ForwardCalls
from rote.integrations.training_batch import LabelledBatch, draw_batch, indices_in
from rote.probe import unwrapped
from rote.store import targets_of

try:
    from transformers import (
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

    from rote.integrations.huggingface_trainer import (
        check_schedule,
        check_trainer,
        join_checkpoints,
        label_names_of,
        logged_since_probe,
        objective_of,
        offer_as_best_metric,
        warn_of_deletion,
        warn_of_no_probe,
        warn_of_unknown_objective,
    )
except ImportError:
    require("transformers", extra="huggingface")
    raise
require("accelerate", extra="huggingface")  # without it a Trainer can be imported, but not built


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(Adapter, TrainerCallback):
    """Probes the network after every epoch, or every n optimizer steps, and logs what it finds.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain``, ``probe/drop`` and the measured
    ``train_accuracy``: they are in ``state.log_history`` and, if ``trainer`` is known, wherever
    ``report_to`` says. ``inputs`` are as the collator makes them; if they still have labels, these
    are taken out and are the ``given_labels``. Of the metric ``train_accuracy`` the newest value
    since the last probe counts; with a name that starts with ``eval_``, the probe waits for the
    evaluation that brings the metric. ``name`` also tells several callbacks of one Trainer apart.
    Signals see the labels that the model is called with, and its logits.

    Args:
        trainer: the Trainer, which a callback is not told; can be set later (``callback.trainer =
            trainer``). Needed for ``report_to``, for several ranks, and for the Trainer's
            ``compute_loss_func`` to be the default of ``loss_fn``. Label smoothing is known
            without it.
        others: ``num_classes`` and what else all callbacks take, described in ``Adapter``.

    Raises:
        InputError: if ``every``, ``samples`` or ``stop`` does not fit; training checks the rest.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    trainer: Trainer | None = None

    _resumed_by = "resume_from_checkpoint="

    def __post_init__(self) -> None:
        super().__post_init__()
        self._args: Any = None
        self._model: Any = None
        self._loader: Any = None
        self._is_waiting, self._is_objective_known = False, False
        self._calls = ForwardCalls()

    @property
    def keep_path(self) -> str | None:
        """The checkpoint to keep, if the Trainer has saved it."""
        readings = [] if self.tracker is None else self.tracker.readings
        kept = next((reading for reading in readings if reading.step == self.keep), None)
        if kept is None or self._args is None:
            return None
        path = Path(self._args.output_dir or "") / f"checkpoint-{kept.global_step:.0f}"
        return str(path) if path.is_dir() else None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        *_: object,
        **parts: Any,  # noqa: ANN401
    ) -> None:
        """Build the tracker, now that model, optimizer and checkpoint are in place."""
        if any(parts.get(name) is None for name in ("model", "optimizer", "train_dataloader")):
            raise InputError(
                "Expected the callback to be called by a transformers.Trainer in training, got "
                "another caller. In a loop of your own, use rote.track."
            )
        self._close()
        self._forget()
        self._args, self._model, self._loader = args, parts["model"], parts["train_dataloader"]
        self._is_waiting = False
        check_trainer(self.trainer, state, args)
        check_schedule(args, self._loader, self.every, self.train_accuracy)
        saved = join_checkpoints(state, self.name, self._state)
        if saved is not None:
            self._is_waiting = saved["is_waiting"]
        self._is_objective_known = bool(self.loss_fn or self.trainer or args.label_smoothing_factor)
        self._begin(
            self._model if self.trainer is None else self.trainer.model_wrapped,
            parts["optimizer"],
            saved,
            loss_fn=self.loss_fn or objective_of(self.trainer, args),
            name=self.name if targets_of(self.save_to) else None,
            **self._samples_and_labels(),
        )
        if self.stop is not None:
            warn_of_deletion(args)

    def on_step_begin(self, *_: object, **__: object) -> None:
        """Write down what the network takes and says, if somebody looks at it."""
        if self._observers or not self._is_objective_known:
            self._calls.listen(self._model)

    def on_substep_end(self, *_: object, **__: object) -> None:
        """Show one of several batches of a step to the signals."""
        self._show()
        self.on_step_begin()

    def on_step_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        control: TrainerControl,
        **_: object,
    ) -> None:
        """Probe if an epoch, or n steps, are over; the gradients are zero by now."""
        self._show()
        # Not at `on_epoch_end`: a checkpoint saved at the last step of an epoch comes before it,
        # and a run that is resumed from there would miss the reading.
        if self.every == "epoch":
            is_due = float(state.epoch).is_integer()
        else:
            is_due = state.global_step % self.every == 0
        if is_due and (self.train_accuracy or "").startswith("eval_"):
            self._is_waiting = True
        elif is_due and self.tracker is not None:
            earlier = self.tracker.readings[-1].global_step if self.tracker.readings else 0
            logged = logged_since_probe(state, earlier, self.train_accuracy)
            self._probe(state, control, self._accuracy(logged, _metrics(state)))

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **found: Any,  # noqa: ANN401
    ) -> None:
        """Probe if it brings the accuracy that a probe waits for; ζ may be the best metric."""
        accuracy = found["metrics"].get(self.train_accuracy)
        if self._is_waiting and accuracy is not None:
            self._is_waiting = False
            self._probe(state, control, {"train_accuracy": accuracy})
        if self._model is not None and self.tracker is not None:
            offer_as_best_metric(found["metrics"], args, self.tracker.readings)

    def on_save(
        self, args: TrainingArguments, state: TrainerState, *_: object, **__: object
    ) -> None:
        """Tell the Trainer which checkpoint its ``save_total_limit`` must spare."""
        if self.keep_path is not None and args.metric_for_best_model is None:
            state.best_model_checkpoint = self.keep_path

    def on_train_end(
        self,
        args: TrainingArguments,  # noqa: ARG002
        state: TrainerState,
        *_: object,
        **__: object,
    ) -> None:
        """Let the run's directory go."""
        self._close()
        self._calls.take()
        self._model, self._loader = None, None
        if self.tracker is not None and not self.tracker.readings and state.is_world_process_zero:
            awaited = self.train_accuracy if self._is_waiting else None
            warn_of_no_probe(state, self.every, awaited)
        self._warn_of_uncounted()

    def _probe(
        self, state: TrainerState, control: TrainerControl, accuracy: Mapping[str, float]
    ) -> None:
        if self.tracker is None:
            return
        now = {"epoch": state.epoch, "global_step": state.global_step}
        reading = self.tracker.probe(**now, **accuracy)
        if reading is None:
            return
        self._log({**logged_of(reading), **accuracy}, state, control)
        if self._should_stop(reading, _metrics(state)):
            control.should_training_stop = True
        if self.keep == reading.step:
            control.should_save = True

    def _log(self, values: dict[str, float], state: TrainerState, control: TrainerControl) -> None:
        if self.trainer is None:  # as Trainer.log does it, apart from telling other callbacks
            state.log_history.append({**values, "epoch": state.epoch, "step": state.global_step})
            return
        should_log = control.should_log
        self.trainer.log(values)
        control.should_log = should_log  # the Trainer's own log of this step is still to come

    def _show(self) -> None:
        for call in self._calls.take()[:1]:
            taken = {k: v for k, v in call.keywords.items() if k != "num_items_in_batch"}
            batch, indices = self._split(taken), indices_in(taken)
            if not self._is_objective_known and batch.given is None:
                warn_of_unknown_objective()
            self._is_objective_known = True
            # Over several batches a model may divide its loss by the count of all of them.
            loss = call.loss if self._args.gradient_accumulation_steps == 1 else None
            if self._observers:
                rest: Any = {"inputs": batch.inputs, "indices": indices, "loss": loss}
                self._observe(batch.given, call.logits, **rest)

    def _draw(self, samples: int) -> LabelledBatch:
        batch = draw_batch(self._loader.dataset, self._loader.collate_fn, samples, seed=self.seed)
        return self._split(batch)

    def _split(self, batch: object) -> LabelledBatch:
        return LabelledBatch.split(batch, label_names_of(self.trainer, self._model, self._args))

    def _samples_and_labels(self) -> dict[str, Any]:
        """S̃ and its labels, in the kind of the given ones."""
        given, labels = self.given_labels, self.labels
        if self.inputs is None:
            self._known = self._draw(max(self.samples, self.measure_accuracy))
            batch = self._known.first(self.samples)
        else:
            batch = self._split(self.inputs)
            given = batch.given if given is None else given
        if labels is None:
            labels = batch.random_labels(unwrapped(self._model), self.num_classes)
        return {"inputs": batch.inputs, "labels": labels, "given_labels": given}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "is_waiting": self._is_waiting}


def _metrics(state: TrainerState) -> list[str]:
    return [metric for entry in state.log_history for metric in entry]
