"""One training of a Hugging Face Trainer: its objective, its labels, its logs, its checkpoints."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import Trainer, TrainerControl, TrainerState, TrainingArguments
from transformers.trainer_pt_utils import LabelSmoother
from transformers.trainer_utils import has_length
from transformers.utils.generic import find_labels

from rote.errors import InputError
from rote.integrations.messages import logged_of, warn
from rote.integrations.training_batch import LabeledBatch
from rote.labels import IGNORE_INDEX
from rote.probe import LossFunction, world_size
from rote.records import Reading

_TENSOR = "tensor_base64"


@dataclass(frozen=True)
class Training:
    """What a Trainer shows its callbacks of a training, and the Trainer itself if it is known."""

    trainer: Trainer | None
    args: TrainingArguments
    state: TrainerState
    parts: Mapping[str, Any]

    @property
    def model(self) -> Any:
        return self.parts["model"]

    def check_caller(self) -> None:
        """Refuse another caller than a Trainer; say where only the Trainer itself will do.

        Raises:
            InputError: if it is another one, or none and there are several ranks.
        """
        needed = ("model", "optimizer", "train_dataloader")
        if any(self.parts.get(name) is None for name in needed):
            raise InputError(
                "Expected the callback to be called by a transformers.Trainer in training, got "
                "another caller. In a loop of your own, use rote.track."
            )
        if self.trainer is not None:
            if self.trainer.state is not self.state:
                raise InputError(
                    "Expected `trainer` to be the Trainer that calls the callback, got another one."
                )
        elif world_size() > 1:
            raise InputError(
                f"Expected the Trainer to be known where {world_size()} ranks train together, got "
                "None: a Trainer hands its callbacks the bare model, and the probe needs the "
                "wrapped one. Set `callback.trainer = trainer` before trainer.train()."
            )
        elif self.args.report_to:
            warn(
                f"ζ is in `state.log_history`, but not in {', '.join(self.args.report_to)} "
                "(`report_to`): a Trainer hands its callbacks everything but itself. Set "
                "`callback.trainer = trainer` before trainer.train()."
            )

    def check_plan(self, every: str | int, metric: str | None, *, stops: bool) -> None:
        """Refuse a training that would never come to a probe; say what it may delete.

        Raises:
            InputError: if epochs have no end, or the metric needs an evaluation and there is none.
        """
        args, loader = self.args, self.parts["train_dataloader"]
        if every == "epoch" and not has_length(loader):
            dataset = loader.dataset
            dataset = getattr(dataset, "dataset", dataset)  # inside the shards of Accelerate
            raise InputError(
                "Expected a training set with a length to probe after every epoch, got "
                f"{type(dataset).__name__} without one. Pass `every=n`, in steps."
            )
        if (metric or "").startswith("eval_") and args.eval_strategy == "no":
            raise InputError(
                f"Expected evaluations in training to bring `train_accuracy={metric!r}`, "
                "got eval_strategy='no'. Pass another `eval_strategy`, or another metric."
            )
        if stops and args.save_total_limit and args.metric_for_best_model:
            warn(
                "`metric_for_best_model` says which checkpoint `save_total_limit` spares: the one "
                "that `stop` would keep may be deleted. Leave one of them out."
            )

    def split(self, batch: object) -> LabeledBatch:
        """Take the labels out of a batch."""
        if self.trainer is not None:
            names = self.trainer.label_names
        elif self.args.label_names is not None:
            names = self.args.label_names
        else:
            base = getattr(self.model, "get_base_model", lambda: self.model)  # of PEFT
            names = find_labels(type(base()))
        return LabeledBatch.split(batch, [*names, "labels"])  # also where it takes any keyword

    def objective(self) -> LossFunction | None:
        """Return the Trainer's loss or label smoothing; ``None`` is plain cross entropy."""
        trainer, smoothing = self.trainer, self.args.label_smoothing_factor
        if trainer is not None and type(trainer).compute_loss is not Trainer.compute_loss:
            warn(
                f"{type(trainer).__name__} has a compute_loss of its own, which cannot be called "
                "with random labels: the probe takes the usual objective. Pass `loss_fn=`."
            )
        own = None if trainer is None else trainer.compute_loss_func
        if own is not None:
            return lambda output, labels: own(
                output, labels, num_items_in_batch=(labels != IGNORE_INDEX).sum()
            )
        # A function, not the smoother: it is no module, and remembers nothing.
        smoother = LabelSmoother(epsilon=smoothing)
        return (lambda output, labels: smoother(output, labels)) if smoothing else None

    def logged_since(self, step: float) -> dict[str, Any]:
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
        """Log as the Trainer does; if it is not known, other callbacks are not told."""
        values = logged_of(reading)
        if "train_accuracy" in reading.metrics:
            values["train_accuracy"] = reading.metrics["train_accuracy"]
        if self.trainer is None:
            now = {"epoch": self.state.epoch, "step": self.state.global_step}
            self.state.log_history.append({**values, **now})
            return
        should_log = control.should_log
        self.trainer.log(values)
        control.should_log = should_log  # the Trainer's own log of this step is still to come

    def warn_of_no_probe(self, every: str | int, awaited: str | None) -> None:
        """Say why it has ended without a probe; ``awaited`` is the metric that one waited for."""
        steps = self.state.global_step
        why = f"every={every!r}), got none after {steps} steps. Pass a smaller `every`."
        if awaited is not None:
            names = sorted({name for entry in self.state.log_history for name in entry})
            found = ", ".join(f"`{name}`" for name in names if name.startswith("eval_"))
            why = (
                f"train_accuracy={awaited!r}), got no evaluation that brings it, only "
                f"{found or 'none at all'}. Name one of these."
            )
        warn(f"Expected training to reach a probe ({why}")

    def warn_of_unknown_objective(self) -> None:
        """Say so if the model computes no loss, so that somebody else does."""
        warn(
            "The model gets no labels in training: the objective is a compute_loss or a "
            "compute_loss_func of the Trainer's own, which callbacks are not told. The probe takes "
            "cross entropy. Pass `loss_fn=`, or set `callback.trainer = trainer` (which suffices "
            "for a compute_loss_func)."
        )

    def join_checkpoints(
        self, name: str | None, read: Callable[[], dict[str, Any]]
    ) -> dict[str, Any] | None:
        """Join the states that the Trainer writes into its checkpoints, under a name.

        Not as an ``ExportableState``: the Trainer would load it by building a new callback from
        JSON alone, and only if it is told to.

        Returns:
            The state that the checkpoint held from which training goes on, if there is one.

        Raises:
            InputError: if another callback has the same name.
        """
        states: Any = self.state.stateful_callbacks  # a dictionary by now, whatever its type says
        key = f"rote.SusceptibilityCallback {name or ''}".strip()
        saved = states.get(key)
        if isinstance(saved, _Exported):
            raise InputError(
                "Expected each of several SusceptibilityCallbacks of one Trainer to have a `name` "
                f"of its own, got {name!r} twice."
            )
        states[key] = _Exported(read)
        return None if saved is None else dict(from_json(saved))


class _Exported:
    """A state that is read out when the Trainer writes a checkpoint: a deep copy of its states."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return to_json(self._read())


def to_json(state: Any) -> Any:
    """Convert a nest of mappings, lists, tensors and numbers; tensors become texts of bytes.

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
