"""ζ in a Hugging Face Trainer: one callback that logs it, and can stop by it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.extras import require
from rote.integrations.adapter import Adapter, logged_of
from rote.integrations.messages import warn
from rote.integrations.training_batch import LabelledBatch, indices_in
from rote.probe import unwrapped
from rote.records import Reading
from rote.store import targets_of

try:
    from tqdm.auto import tqdm  # type: ignore[import-untyped]
    from transformers import Trainer, TrainerCallback

    from rote.integrations.huggingface_trainer import (
        check_caller,
        check_schedule,
        join_checkpoints,
        label_names_of,
        logged_since_probe,
        objective_of,
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
    ``report_to`` says. ``num_classes`` is the model's ``config.num_labels`` by default. ``inputs``
    are as the collator makes them; if they still have labels, these are taken out and are the
    ``given_labels``. Of the metric ``train_accuracy`` the newest value since the last probe counts;
    with a name that starts with ``eval_``, the probe waits for the evaluation that brings the
    metric. ``name`` also tells several callbacks of one Trainer apart. Signals see the labels that
    the model is called with, and its logits. What all callbacks take is described in ``Adapter``.

    Args:
        trainer: the Trainer, which a callback is not told; can be set later (``callback.trainer =
            trainer``). Needed for ``report_to``, for several ranks, and for the Trainer's
            ``compute_loss_func`` to be the default of ``loss_fn``. Label smoothing is known
            without it.

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

    @property
    def keep_path(self) -> str | None:
        """The checkpoint to keep, if the Trainer has saved it."""
        return self._checkpoint_at(self.keep)

    def on_train_begin(self, args: Any, state: Any, *_: Any, **parts: Any) -> None:
        self._close()
        self._forget()
        check_caller(self.trainer, state, args, parts)
        self._args, self._model, self._loader = args, parts["model"], parts["train_dataloader"]
        check_schedule(args, self._loader, self.every, self.train_accuracy)
        saved = join_checkpoints(state, self.name, self._state)
        self._is_waiting = saved is not None and saved["is_waiting"]
        self._is_objective_known = bool(self.loss_fn or self.trainer or args.label_smoothing_factor)
        self._begin(
            self._model if self.trainer is None else self.trainer.model_wrapped,
            parts["optimizer"],
            saved,
            loss_fn=self.loss_fn or objective_of(self.trainer, args),
            name=self.name if targets_of(self.save_to) else None,
        )
        if self.stop is not None and args.save_total_limit and args.metric_for_best_model:
            warn(
                "`metric_for_best_model` says which checkpoint `save_total_limit` spares: the one "
                "that `stop` would keep may be deleted. Leave one of them out."
            )

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self._watching or not self._is_objective_known:
            self._watching.listen(self._model)

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self._show()
        self.on_step_begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._show()
        # Not at `on_epoch_end`: a checkpoint saved at the last step of an epoch comes before it,
        # and a run that is resumed from there would miss the reading.
        rest = state.epoch % 1 if self.every == "epoch" else state.global_step % self.every
        if rest:
            return
        if (self.train_accuracy or "").startswith("eval_"):
            self._is_waiting = True
        elif self.tracker is not None:
            earlier = self.tracker.readings[-1].global_step if self.tracker.readings else 0
            logged = logged_since_probe(state, earlier, self.train_accuracy)
            self._probe(state, control, logged)

    def on_evaluate(self, args: Any, state: Any, control: Any, **found: Any) -> None:
        metrics = found["metrics"]
        if self._is_waiting and self.train_accuracy in metrics:
            self._is_waiting = False
            self._probe(state, control, metrics[self.train_accuracy])
        # Only where it is asked for: a search's objective may be the sum of all metrics.
        name = (args.metric_for_best_model or "").removeprefix("eval_")
        readings = self.tracker.readings if self._model is not None and self.tracker else []
        newest = logged_of(readings[-1] if readings else None)
        if name in newest:
            metrics[f"eval_{name}"] = newest[name]  # in place, as the Trainer reads it afterwards

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        # That is the one which `save_total_limit` spares.
        if self.keep_path is not None and args.metric_for_best_model is None:
            state.best_model_checkpoint = self.keep_path

    def on_train_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        self._close()
        self._model, self._loader = None, None
        if self.tracker is not None and not self.tracker.readings:
            warn_of_no_probe(state, self.every, self.train_accuracy if self._is_waiting else None)
        self._conclude()

    def _probe(self, state: Any, control: Any, logged: float | None) -> None:
        seen = [metric for entry in state.log_history for metric in entry]
        reading = self._read(logged, seen, epoch=state.epoch, global_step=state.global_step)
        if reading is None:
            return
        accuracy = {k: v for k, v in reading.metrics.items() if k == "train_accuracy"}
        self._log({**logged_of(reading), **accuracy}, state, control)
        if self._should_stop(reading, seen):
            control.should_training_stop = True
        if self.keep == reading.step:
            control.should_save = True

    def _log(self, values: dict[str, float], state: Any, control: Any) -> None:
        if self.trainer is None:  # as Trainer.log does it, apart from telling other callbacks
            state.log_history.append({**values, "epoch": state.epoch, "step": state.global_step})
            return
        should_log = control.should_log
        self.trainer.log(values)
        control.should_log = should_log  # the Trainer's own log of this step is still to come

    def _tell(self, message: str) -> None:
        super()._tell(message)
        if not self._args.disable_tqdm and self._args.process_index == 0:
            tqdm.write(message)

    def _checkpoint_of(self, reading: Reading) -> str | None:
        path = Path(self._args.output_dir or "") / f"checkpoint-{reading.global_step:.0f}"
        return str(path) if path.is_dir() else None

    def _show(self) -> None:
        for call in self._watching.take()[:1]:
            taken = {k: v for k, v in call.keywords.items() if k != "num_items_in_batch"}
            batch = self._labelled(taken)
            if not self._is_objective_known and batch.given is None:
                warn_of_unknown_objective()
            self._is_objective_known = True
            # Over several batches a model may divide its loss by the count of all of them.
            loss = call.loss if self._args.gradient_accumulation_steps == 1 else None
            rest = {"inputs": batch.inputs, "indices": indices_in(taken), "loss": loss}
            self._watching.observe(batch.given, call.logits, **rest)

    def _training_set(self) -> tuple[Any, Callable[[list[Any]], Any]]:
        return self._loader.dataset, self._loader.collate_fn

    def _labelled(self, batch: object) -> LabelledBatch:
        return LabelledBatch.split(batch, label_names_of(self.trainer, self._model, self._args))

    def _split(self, batch: Any) -> LabelledBatch:
        found = self._labelled(batch)
        return (
            found if self.inputs_of is None else LabelledBatch(self.inputs_of(batch), found.given)
        )

    def _sampled(self) -> dict[str, Any]:
        """S̃ and its labels, in the kind of the given ones."""
        classes = self.num_classes or getattr(self._model.config, "num_labels", None)
        given, labels = self.given_labels, self.labels
        if self.inputs is None:
            self._known = self._draw(max(self.samples, self.measure_accuracy))
            batch = self._known.first(self.samples)
        else:
            batch = self._labelled(self.inputs)
            given = batch.given if given is None else given
        if labels is None and classes:
            labels = batch.random_labels(unwrapped(self._model), classes)
        found = {"labels": labels, "given_labels": given, "num_classes": classes}
        return {"inputs": batch.inputs, **found}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "is_waiting": self._is_waiting}
