"""What a callback needs of a Hugging Face Trainer: itself, its samples, objective, logs, states."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor
from transformers import Trainer, TrainerState, TrainingArguments
from transformers.trainer_utils import has_length

from rote.errors import InputError, RoteWarning
from rote.integrations.json_state import from_json, to_json
from rote.integrations.labelled_batch import LabelledBatch
from rote.integrations.logged import logged_of
from rote.integrations.samples import draw_inputs
from rote.labels import IGNORE_INDEX
from rote.probe import LossFunction
from rote.records import Reading


def calling_trainer(state: TrainerState) -> Trainer:
    """The Trainer that is calling a callback.

    A Trainer hands its callbacks everything but itself, and only its ``log`` reaches both
    ``state.log_history`` and the loggers of ``report_to``.

    Args:
        state: what the Trainer has handed over.

    Raises:
        InputError: if no Trainer is calling.
    """
    frame = inspect.currentframe()
    while frame is not None:
        caller = frame.f_locals.get("self")
        if isinstance(caller, Trainer) and caller.state is state:
            return caller
        frame = frame.f_back
    raise InputError(
        "Expected the callback to be called by a transformers.Trainer in training, got another "
        "caller. In a loop of your own, use rote.track."
    )


def check_schedule(trainer: Trainer, every: str | int, train_accuracy: str | None) -> None:
    """Refuse a training that would never come to a probe.

    Args:
        trainer: the Trainer, in training.
        every: when to probe.
        train_accuracy: the name of the metric that is the training accuracy.

    Raises:
        InputError: if epochs have no end, or the metric needs an evaluation and there is none.
    """
    if every == "epoch" and not has_length(trainer.callback_handler.train_dataloader):
        raise InputError(
            "Expected a training set with a length to probe after every epoch, got "
            f"{type(trainer.train_dataset).__name__} without one. Pass `every=n`, in steps."
        )
    if (train_accuracy or "").startswith("eval_") and trainer.args.eval_strategy == "no":
        raise InputError(
            f"Expected evaluations in training to bring `train_accuracy={train_accuracy!r}`, got "
            "eval_strategy='no'. Pass another `eval_strategy`, or another metric."
        )


def training_samples(trainer: Trainer, samples: int, *, seed: int) -> LabelledBatch:
    """Some samples of the training set, always the same ones; the loader is not touched.

    Args:
        trainer: the Trainer, in training.
        samples: how many, if there are as many.
        seed: of the choice.

    Raises:
        InputError: if the training set cannot be indexed.
    """
    loader: Any = trainer.callback_handler.train_dataloader
    batch = draw_inputs(loader.dataset, loader.collate_fn, samples, lambda found: found, seed=seed)
    return without_labels(batch, trainer)


def without_labels(batch: object, trainer: Trainer) -> LabelledBatch:
    """A batch whose labels are set apart.

    Args:
        batch: as the collator makes it.
        trainer: knows the names of labels, unless its model takes any keyword.
    """
    return LabelledBatch.split(batch, [*trainer.label_names, "labels"])


def logged_since_probe(state: TrainerState, step: float, name: str | None) -> float | None:
    """The newest value of a metric that was logged after the last probe.

    Args:
        state: the Trainer's state.
        step: the global step of the last probe, which logged ``probe/drop``.
        name: of the metric.
    """
    for entry in reversed(state.log_history):
        if entry["step"] <= step and "probe/drop" in entry:
            break
        if name in entry:
            return entry[name]
    return None


def objective_of(trainer: Trainer) -> LossFunction | None:
    """The Trainer's objective as a function of output and labels.

    Args:
        trainer: the Trainer.

    Returns:
        Its ``compute_loss_func``, its label smoothing, or ``None`` for plain cross entropy.
    """
    if type(trainer).compute_loss is not Trainer.compute_loss:
        warnings.warn(
            f"{type(trainer).__name__} has a compute_loss of its own, which cannot be called with "
            "random labels: the probe takes the usual objective. Pass `loss_fn=`.",
            RoteWarning,
            stacklevel=3,
        )
    own, smoother = trainer.compute_loss_func, trainer.label_smoother
    if own is not None:

        def objective(output: Any, labels: Tensor) -> Tensor:  # noqa: ANN401
            counted = (labels != IGNORE_INDEX).sum()
            loss: Tensor = own(output, labels, num_items_in_batch=counted)
            return loss

        return objective
    # A function, not the smoother: it is no module, and remembers nothing.
    return None if smoother is None else lambda output, labels: smoother(output, labels)


def offer_as_best_metric(
    metrics: dict[str, float], args: TrainingArguments, readings: Sequence[Reading]
) -> None:
    """Put ζ among the metrics of an evaluation, where it is the metric for the best model.

    Only there: the objective of a hyperparameter search may be the sum of all metrics.

    Args:
        metrics: what the evaluation found; changed in place, as the Trainer reads it afterwards.
        args: the Trainer's arguments.
        readings: those so far.
    """
    name = (args.metric_for_best_model or "").removeprefix("eval_")
    newest = logged_of(readings[-1] if readings else None)
    if name in newest:
        metrics[f"eval_{name}"] = newest[name]


def warn_of_deletion(args: TrainingArguments) -> None:
    """Say so if the checkpoint that a stop rule would keep may be deleted.

    Args:
        args: the Trainer's arguments.
    """
    if args.save_total_limit and args.metric_for_best_model:
        warnings.warn(
            "`metric_for_best_model` says which checkpoint `save_total_limit` spares: the one "
            "that `stop` would keep may be deleted. Leave one of them out.",
            RoteWarning,
            stacklevel=3,
        )


def refuse_no_accuracy(reading: Reading, name: str | None) -> None:
    """Refuse to stop by what is not known.

    Args:
        reading: the newest.
        name: the metric that was looked for.

    Raises:
        InputError: if the reading has no training accuracy.
    """
    if "train_accuracy" not in reading.metrics:
        raise InputError(
            "Expected a training accuracy at every probe, which `stop` needs, got none: no "
            f"`{name}` was logged, and none was measured. Pass `measure_accuracy=512`, or name a "
            "metric that is logged with `train_accuracy=`."
        )


def warn_of_no_probe(state: TrainerState, every: str | int, awaited: str | None) -> None:
    """Say why training has ended without a probe.

    Args:
        state: the Trainer's state.
        every: when to probe.
        awaited: the metric of an evaluation that a probe waited for.
    """
    why = f"every={every!r}), got none after {state.global_step} steps. Pass a smaller `every`."
    if awaited is not None:
        names = sorted({name for entry in state.log_history for name in entry})
        found = ", ".join(f"`{name}`" for name in names if name.startswith("eval_"))
        why = (
            f"train_accuracy={awaited!r}), got no evaluation that brings it, only "
            f"{found or 'none at all'}. Name one of these."
        )
    warnings.warn(f"Expected training to reach a probe ({why}", RoteWarning, stacklevel=3)


def taken_up(
    state: TrainerState, name: str | None, read: Callable[[], dict[str, Any]]
) -> dict[str, Any] | None:
    """Join the states that the Trainer writes into its checkpoints.

    Not as an ``ExportableState``: the Trainer would load it by building a new callback from JSON
    alone, and only if it is told to.

    Args:
        state: the Trainer's state.
        name: tells several callbacks of one Trainer apart.
        read: returns the state to write: any nest of tensors and of what JSON knows.

    Returns:
        The state that the checkpoint held from which training goes on, if there is one.

    Raises:
        InputError: if another callback has the same name.
    """
    states: Any = state.stateful_callbacks  # a dictionary by now, whatever its type says
    key = f"rote.SusceptibilityCallback {name or ''}".strip()
    saved = states.get(key)
    if isinstance(saved, _Exported):
        raise InputError(
            "Expected each of several SusceptibilityCallbacks of one Trainer to have a `name` of "
            f"its own, got {name!r} twice."
        )
    states[key] = _Exported(read)
    return None if saved is None else dict(from_json(saved))


class _Exported:
    """A state that is read out when the Trainer writes a checkpoint, and not before.

    The Trainer writes a deep copy of its states; the copy of this is the state.
    """

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:  # noqa: ANN401
        return to_json(self._read())
