"""The callback for the Hugging Face Trainer: ζ in its logs, and stopping by it."""

from __future__ import annotations

import base64
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from rote.errors import InputError, ProbeMemoryError
from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.holdout import SampleSet, split_indices, take_subset
from rote.integrations.messages import select_logged, warn
from rote.integrations.training_batch import LabeledBatch, find_indices
from rote.records import Reading
from rote.store import parse_targets

try:
    from tqdm.auto import tqdm  # type: ignore[import-untyped]
    from transformers import (
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )
    from transformers.trainer_utils import has_length

    from rote.integrations.huggingface_tasks import Task, find_task
except ImportError:
    require("transformers", extra="huggingface")
    raise
require("accelerate", extra="huggingface")  # without it a Trainer can be imported, but not built

_TENSOR = "tensor_base64"


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(TrainerAdapter, TrainerCallback):
    """Probe the network after every epoch, or every n optimizer steps, and log what it finds.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain``, ``probe/drop`` and the measured
    ``train_accuracy``, through the Trainer's own ``log``. The task follows from the Trainer:
    classes of samples or tokens (``num_classes`` is the model's ``config.num_labels``), the next
    token of a causal LM (its vocabulary), or which of two responses wins (``RewardTrainer`` and
    ``DPOTrainer`` of TRL). The holdout is of the ``eval_dataset``. ``inputs`` are as the collator
    makes them; their labels become the ``given_labels``. Of the metric ``train_accuracy`` the
    newest value since the last probe counts; with a name that starts with ``eval_``, the
    probe waits for the evaluation that brings the metric. ``name`` also tells several callbacks of
    one Trainer apart. Signals see the labels that the model is called with, and its logits. All
    other options are those of ``TrainerAdapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    resume_option, can_split = "resume_from_checkpoint=", True
    holdout_hint = "pass eval_dataset= to the Trainer, or holdout='split' to the callback"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._training: Any = None
        self._network_held: Any = None
        self._is_waiting = False
        self._batch_size = 0
        self._at_start: dict[str, Any] | None = None

    @property
    def keep_path(self) -> str | None:
        """The checkpoint to keep, if the Trainer has saved it."""
        return None if self.keep is None else self.find_checkpoints().get(self.keep)

    def on_init_end(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        trainer = find_trainer(state)
        if self.holdout == "split" and self.inputs is None and trainer is not None:
            self._split_training_set(trainer)

    def on_train_begin(self, args: Any, state: Any, *_: Any, **parts: Any) -> None:
        self.reset()
        is_told = self.inputs is not None and self.loss_fn is not None
        training = Training.find(args, state, parts, self.seed, is_told=is_told)
        size = training.batch_size()
        if not (training.continues(self._training) and size < self._batch_size):
            self._at_start = None
        self._training, self._batch_size = training, size
        training.check_plan(self.every, self.train_accuracy, stops=self.stop is not None)
        if self.holdout == "split" and self.inputs is None and self.set_aside is None:
            raise InputError(
                "holdout='split' takes samples out of training when the Trainer is built. Pass the "
                "callback as Trainer(..., callbacks=[callback])."
            )
        self.loader = parts["train_dataloader"]
        # With auto_find_batch_size, training starts over when it runs out of memory.
        saved = training.join_checkpoints(self.name, self.adapter_state) or self._at_start
        self._is_waiting = saved is not None and saved["is_waiting"]
        network = self._network_held = training.task.build_network()
        modes = [(module, module.training) for module in network.modules()]
        try:
            # As in every training step. Before the first one, the base of an adapter is in eval
            # mode, and the trial would measure another network.
            network.train()
            self.begin_tracking(
                network,
                parts["optimizer"],
                saved,
                loss_fn=self.loss_fn or training.task.objective(),
                signals=training.size_signals(self.signals),
                name=self.name if parse_targets(self.save_to) else None,
            )
        except ProbeMemoryError as error:
            if args.auto_find_batch_size and self.policy is None:
                # By these words Accelerate knows that a smaller batch may help.
                raise ProbeMemoryError(f"rote.track ran out of memory. {error}") from error
            raise
        finally:
            for module, mode in modes:
                module.training = mode
        self._at_start = self._at_start or (self.adapter_state() if saved is None else None)

    def on_step_begin(self, *_: Any, **__: Any) -> None:
        if self.watching:
            self.watching.listen(self._training.parts["model"])

    def on_substep_end(self, *_: Any, **__: Any) -> None:
        self._show_step()
        self.on_step_begin()

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._show_step()
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
        is_training = self.loader is not None and self.readings
        newest = select_logged(self.readings[-1]) if is_training else {}
        if name in newest:
            metrics[f"eval_{name}"] = newest[name]  # in place, as the Trainer reads it afterwards

    def on_save(self, args: Any, state: Any, *_: Any, **__: Any) -> None:
        # That is the one which `save_total_limit` spares.
        if self.keep_path is not None and args.metric_for_best_model is None:
            state.best_model_checkpoint = self.keep_path

    def on_train_end(self, *_: Any, **__: Any) -> None:
        self.close()
        self._network_held = None
        if self.tracker is not None and not self.tracker.readings:
            awaited = self.train_accuracy if self._is_waiting else None
            self._training.warn_of_no_probe(self.every, awaited)
        self._training = replace(self._training, parts={}, trainer=None, task=None)
        self._at_start = None
        self.conclude()

    def tell(self, message: str) -> None:
        super().tell(message)
        if self._training.args.process_index == 0:
            tqdm.write(message)  # prints, and keeps out of the way of a progress bar

    def find_checkpoints(self) -> dict[int, str]:
        folder = Path(self._training.args.output_dir or "")
        paths = {r.step: folder / f"checkpoint-{r.global_step:.0f}" for r in self.readings}
        saved = {step: str(path) for step, path in paths.items() if path.is_dir()}
        return saved | super().find_checkpoints()

    def split_batch(self, batch: Any) -> LabeledBatch:
        found: LabeledBatch = self._training.task.split(batch)
        return found

    def convert_inputs(self, inputs: Any) -> LabeledBatch:
        return LabeledBatch(inputs) if callable(inputs) else self.split_batch(inputs)

    def validation_set(self) -> SampleSet | None:
        found: SampleSet | None = self._training.validation_set()
        return found

    def limit_holdout(self, size: int) -> int:
        limit: int = self._training.task.limit_holdout(size, self.samples)
        return limit

    def batch_size(self) -> int | None:
        return self._batch_size

    def label_options(self, batch: LabeledBatch) -> dict[str, Any]:
        task: Task = self._training.task
        classes, labels = self.num_classes or task.num_classes(), self.labels
        if labels is None and classes:
            labels = task.random_labels(batch, classes)
        return {"labels": labels, "num_classes": classes}

    def adapter_state(self) -> dict[str, Any]:
        return {**super().adapter_state(), "is_waiting": self._is_waiting}

    def _probe(self, state: Any, control: Any, found: Mapping[str, Any]) -> None:
        step = self.readings[-1].global_step if self.readings else 0
        logged = self._training.find_logged(step) | found
        reading = self.take_reading(logged, epoch=state.epoch, global_step=state.global_step)
        if reading is not None:
            self._training.log(reading, control)
        if self.should_stop(reading):
            control.should_training_stop = True
        if self.is_kept(reading):
            control.should_save = True

    def _show_step(self) -> None:
        for call in self.watching.take()[:1]:
            batch, logits = self._training.task.observe(call)
            # Over several batches a model may divide its loss by the count of all of them.
            loss = call.loss if self._training.args.gradient_accumulation_steps == 1 else None
            task, ranks = self._training.task, self.watching.ranks_samples
            indices = task.find_rows(call) if ranks else find_indices(call.keywords)
            losses = task.sample_losses(call) if ranks else None
            rest = {"inputs": batch.inputs, "indices": indices, "loss": loss}
            self.watching.observe(batch.given, logits, losses, **rest)

    def _split_training_set(self, trainer: Trainer) -> None:
        dataset: Any = trainer.train_dataset
        if dataset is None or not has_length(dataset) or not hasattr(dataset, "__getitem__"):
            raise InputError(
                "holdout='split' needs a training set with a length and an index, got "
                f"{type(dataset).__name__}. Pass `inputs=` and `given_labels=`, samples kept out "
                "of training."
            )
        kept, aside = split_indices(len(dataset), self.holdout_size, self.seed)
        source = sample_set(trainer, take_subset(dataset, aside))
        self.set_aside = replace(source, indices=aside)
        trainer.train_dataset = take_subset(dataset, kept)


def find_trainer(state: TrainerState) -> Trainer | None:
    """Find the Trainer that calls the callback.

    A Trainer hands its callbacks everything but itself. The probe needs it for the wrapped model,
    the objective, the evaluation data and the loggers, so it is looked up among the callers.
    """
    frame = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Trainer) and owner.state is state:
            return owner
        frame = frame.f_back  # type: ignore[assignment]
    return None


def sample_set(trainer: Trainer, dataset: Any) -> SampleSet:
    """Return a dataset with the Trainer's collator, without the columns that the model ignores."""
    collate: Any = trainer.data_collator
    if type(dataset).__module__.startswith("datasets."):
        return SampleSet(trainer._remove_unused_columns(dataset, "holdout"), collate)
    return SampleSet(dataset, trainer._get_collator_with_removed_columns(collate, "holdout"))


@dataclass(frozen=True)
class Training:
    """One training of a Trainer: its plan, data, logs and checkpoints.

    Attributes:
        trainer: The Trainer; ``None`` once training has ended.
        args: Its arguments.
        state: Its state.
        parts: What it hands its callbacks.
        task: What it trains.
    """

    trainer: Any
    args: TrainingArguments
    state: TrainerState
    parts: Mapping[str, Any]
    task: Any

    @classmethod
    def find(
        cls,
        args: TrainingArguments,
        state: TrainerState,
        parts: Mapping[str, Any],
        seed: int,
        *,
        is_told: bool,
    ) -> Training:
        """Find the calling Trainer and its task.

        Raises:
            InputError: If no Trainer calls.
        """
        trainer = find_trainer(state)
        needed = ("model", "optimizer", "train_dataloader")
        if trainer is None or any(parts.get(name) is None for name in needed):
            raise InputError(
                "This callback must be called by a transformers.Trainer in training. In a loop of "
                "your own, use rote.track."
            )
        return cls(trainer, args, state, parts, find_task(trainer, seed, is_told=is_told))

    def batch_size(self) -> int:
        """Return the number of samples of one forward pass on a device."""
        # Not `args.per_device_train_batch_size`, which auto_find_batch_size leaves as it is.
        size: int = self.trainer._train_batch_size // max(1, self.args.n_gpu)
        return size

    def continues(self, earlier: Training | None) -> bool:
        """Whether the same call of ``train`` may have started over, with a smaller batch."""
        is_same = earlier is not None and earlier.trainer is self.trainer
        return is_same and bool(self.args.auto_find_batch_size)

    def check_plan(self, every: str | int, metric: str | None, *, stops: bool) -> None:
        """Refuse a training that would never reach a probe, and warn of lost checkpoints.

        Raises:
            InputError: If epochs have no end, or the metric needs an evaluation and there is none.
        """
        args, loader = self.args, self.parts["train_dataloader"]
        if every == "epoch" and not has_length(loader):
            dataset = loader.dataset
            dataset = getattr(dataset, "dataset", dataset)  # inside the shards of Accelerate
            raise InputError(
                f"A {type(dataset).__name__} has no length, so there are no epochs to probe after. "
                "Pass `every=n`, in steps."
            )
        if (metric or "").startswith("eval_") and args.eval_strategy == "no":
            raise InputError(
                f"`train_accuracy={metric!r}` needs evaluations in training, and there are none "
                "(eval_strategy='no'). Pass another `eval_strategy`, or another metric."
            )
        if stops and args.save_total_limit and args.metric_for_best_model:
            warn(
                "`save_total_limit` keeps the best checkpoint by `metric_for_best_model` and may "
                "delete the one that `stop` keeps. Leave one of them out."
            )

    def validation_set(self) -> SampleSet | None:
        """Return the evaluation data; of several sets the first that is not training data."""
        found: Any = self.trainer.eval_dataset
        if isinstance(found, Mapping):
            named = {name: one for name, one in found.items() if not name.startswith("train")}
            found = next(iter(named.values()), None)
        return None if found is None else sample_set(self.trainer, found)

    def size_signals(self, signals: Sequence[Any]) -> list[Any]:
        """Tell signals with numbers per training sample how many samples there are."""
        dataset: Any = self.trainer.train_dataset
        if dataset is None or not has_length(dataset):
            return list(signals)
        sized = {name: f"{name}(samples={len(dataset)})" for name in ("aum", "csl")}
        return [sized.get(s, s) if isinstance(s, str) else s for s in signals]

    def find_logged(self, step: float) -> dict[str, Any]:
        """Return the newest values after the last probe, which logged ``probe/drop`` at a step.

        Metrics that were logged only before it are ``None``.
        """
        found: dict[str, Any] = {}
        for entry in self.state.log_history:
            if entry["step"] <= step and "probe/drop" in entry:
                found = dict.fromkeys((*found, *entry))
            else:
                found |= entry
        return found

    def log(self, reading: Reading, control: TrainerControl) -> None:
        """Log a reading as the Trainer does."""
        values = select_logged(reading)
        if "train_accuracy" in reading.metrics:
            values["train_accuracy"] = reading.metrics["train_accuracy"]
        should_log = control.should_log
        if type(self.trainer).log.__module__.startswith("trl."):
            # TRL's own `log` would add the metrics of its steps so far, and forget them.
            Trainer.log(self.trainer, values)
        else:
            self.trainer.log(values)
        control.should_log = should_log  # the Trainer's own log of this step is still to come

    def warn_of_no_probe(self, every: str | int, awaited: str | None) -> None:
        """Warn that training has ended without a probe; ``awaited`` is the metric it waited for."""
        why = f"every={every!r} was not reached in {self.state.global_step} steps. Pass a smaller"
        why += " `every`."
        if awaited is not None:
            names = sorted({name for entry in self.state.log_history for name in entry})
            found = ", ".join(f"`{name}`" for name in names if name.startswith("eval_"))
            why = (
                f"no evaluation reported train_accuracy={awaited!r}, only {found or 'none at all'}."
                " Name one of these."
            )
        warn(f"Training ended without a probe: {why}")

    def join_checkpoints(
        self, name: str | None, read: Callable[[], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Add the callback's state to those that the Trainer writes into its checkpoints.

        Not as an ``ExportableState``: the Trainer would load it by building a new callback from
        JSON alone, and only if asked to.

        Returns:
            The state in the checkpoint that training resumes from; ``None`` if there is none.

        Raises:
            InputError: If another callback has the same name.
        """
        states: Any = self.state.stateful_callbacks  # a dictionary by now, whatever its type says
        key = f"rote.SusceptibilityCallback {name or ''}".strip()
        saved = states.get(key)
        if isinstance(saved, _Exported):
            raise InputError(
                "Each of several SusceptibilityCallbacks of one Trainer needs a `name=` of its own,"
                f" and two have {name!r}."
            )
        states[key] = _Exported(read)
        return None if saved is None else dict(from_json(saved))


class _Exported:
    """A state that is read when the Trainer deep-copies its states for a checkpoint."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return to_json(self._read())


def to_json(state: Any) -> Any:
    """Convert a nest of mappings, lists, tensors and numbers to JSON, tensors as base64.

    Example:
        >>> from_json(to_json({"a": [torch.tensor([1.5, 2.5])], "b": 3}))
        {'a': [tensor([1.5000, 2.5000])], 'b': 3}
    """
    if isinstance(state, Tensor):
        values = state.detach().cpu().contiguous()
        raw = values.reshape(-1).view(torch.uint8).numpy().tobytes()
        kind = str(values.dtype).removeprefix("torch.")
        text = base64.b64encode(raw).decode("ascii")
        return {_TENSOR: text, "dtype": kind, "shape": list(values.shape)}
    if isinstance(state, Mapping):
        return {key: to_json(value) for key, value in state.items()}
    if isinstance(state, list | tuple):
        return [to_json(value) for value in state]
    return state


def from_json(state: Any) -> Any:
    """Invert ``to_json``, bit for bit; tuples have become lists."""
    if isinstance(state, Mapping):
        if _TENSOR in state:
            raw = bytearray(base64.b64decode(state[_TENSOR]))
            bits = torch.frombuffer(raw, dtype=torch.uint8) if raw else torch.empty(0).byte()
            return bits.view(getattr(torch, state["dtype"])).reshape(state["shape"])
        return {key: from_json(value) for key, value in state.items()}
    if isinstance(state, list):
        return [from_json(value) for value in state]
    return state
