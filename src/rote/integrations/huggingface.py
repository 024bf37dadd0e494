"""ζ in a Hugging Face Trainer: one callback that logs it, and can stop by it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rote.extras import require
from rote.integrations.adapter import Adapter
from rote.integrations.messages import logged_of
from rote.integrations.training_batch import indices_in
from rote.probe import unwrapped
from rote.store import targets_of

try:
    from tqdm.auto import tqdm  # type: ignore[import-untyped]
    from transformers import Trainer, TrainerCallback

    from rote.integrations.huggingface_trainer import Training
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

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    trainer: Trainer | None = None

    _resumed_by = "resume_from_checkpoint="

    def __post_init__(self) -> None:
        super().__post_init__()
        self._training: Any = None
        self._is_waiting, self._is_objective_known = False, False

    @property
    def keep_path(self) -> str | None:
        """The checkpoint to keep, if the Trainer has saved it."""
        return None if self.keep is None else self._checkpoints().get(self.keep)

    def on_train_begin(self, args: Any, state: Any, *_: Any, **parts: Any) -> None:
        self._forget()
        training = self._training = Training(self.trainer, args, state, parts)
        training.check_caller()
        training.check_plan(self.every, self.train_accuracy, stops=self.stop is not None)
        self._loader = parts["train_dataloader"]
        saved = training.join_checkpoints(self.name, self._state)
        self._is_waiting = saved is not None and saved["is_waiting"]
        self._is_objective_known = bool(self.loss_fn or self.trainer or args.label_smoothing_factor)
        self._begin(
            training.model if self.trainer is None else self.trainer.model_wrapped,
            parts["optimizer"],
            saved,
            loss_fn=self.loss_fn or training.objective(),
            name=self.name if targets_of(self.save_to) else None,
        )

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self._watching or not self._is_objective_known:
            self._watching.listen(self._training.model)

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self._show()
        self.on_step_begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._show()
        # Not at `on_epoch_end`: a checkpoint saved at the last step of an epoch comes before it,
        # and a run that is resumed from there would miss the reading.
        is_due = not (state.epoch % 1 if self.every == "epoch" else state.global_step % self.every)
        if is_due and (self.train_accuracy or "").startswith("eval_"):
            self._is_waiting = True
        elif is_due:
            self._probe(state, control, {})

    def on_evaluate(self, args: Any, state: Any, control: Any, **found: Any) -> None:
        metrics = found["metrics"]
        if self._is_waiting and self.train_accuracy in metrics:
            self._is_waiting = False
            self._probe(state, control, metrics)
        # Only where it is asked for: a search's objective may be the sum of all metrics.
        name = (args.metric_for_best_model or "").removeprefix("eval_")
        is_training = self._loader is not None and self._readings()
        newest = logged_of(self._readings()[-1]) if is_training else {}
        if name in newest:
            metrics[f"eval_{name}"] = newest[name]  # in place, as the Trainer reads it afterwards

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        # That is the one which `save_total_limit` spares.
        if self.keep_path is not None and args.metric_for_best_model is None:
            state.best_model_checkpoint = self.keep_path

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self._close()
        if self.tracker is not None and not self.tracker.readings:
            awaited = self.train_accuracy if self._is_waiting else None
            self._training.warn_of_no_probe(self.every, awaited)
        self._training = replace(self._training, parts={})
        self._conclude()

    def _probe(self, state: Any, control: Any, found: Mapping[str, Any]) -> None:
        step = self._readings()[-1].global_step if self._readings() else 0
        logged = self._training.logged_since(step) | found
        reading = self._read(logged, epoch=state.epoch, global_step=state.global_step)
        if reading is not None:
            self._training.log(reading, control)
        if self._should_stop(reading):
            control.should_training_stop = True
        if self._is_kept(reading):
            control.should_save = True

    def _tell(self, message: str) -> None:
        super()._tell(message)
        if not self._training.args.disable_tqdm and self._training.args.process_index == 0:
            tqdm.write(message)

    def _checkpoints(self) -> dict[int, str]:
        folder = Path(self._training.args.output_dir or "")
        paths = {r.step: folder / f"checkpoint-{r.global_step:.0f}" for r in self._readings()}
        return {step: str(path) for step, path in paths.items() if path.is_dir()}

    def _show(self) -> None:
        for call in self._watching.take()[:1]:
            taken = {k: v for k, v in call.keywords.items() if k != "num_items_in_batch"}
            batch = self._labeled(taken)
            if not self._is_objective_known and batch.given is None:
                self._training.warn_of_unknown_objective()
            self._is_objective_known = True
            # Over several batches a model may divide its loss by the count of all of them.
            loss = call.loss if self._training.args.gradient_accumulation_steps == 1 else None
            rest = {"inputs": batch.inputs, "indices": indices_in(taken), "loss": loss}
            self._watching.observe(batch.given, call.logits, **rest)

    def _labeled(self, batch: Any) -> Any:
        return self._training.split(batch)

    def _sampled(self) -> dict[str, Any]:
        """S̃ and its labels, in the kind of the given ones."""
        model = self._training.model
        classes = self.num_classes or getattr(model.config, "num_labels", None)
        given, labels = self.given_labels, self.labels
        if self.inputs is None:
            drawn = self._accuracy.known = self._draw(max(self.samples, self.measure_accuracy))
            batch = drawn.first(self.samples)
        else:
            batch = self._labeled(self.inputs)
            given = batch.given if given is None else given
        if labels is None and classes:
            labels = batch.random_labels(unwrapped(model), classes)
        found = {"labels": labels, "given_labels": given, "num_classes": classes}
        return {"inputs": batch.inputs, **found}

    def _state(self) -> dict[str, Any]:
        return {**super()._state(), "is_waiting": self._is_waiting}
