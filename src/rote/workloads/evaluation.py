"""Measurements after an epoch besides ζ: accuracies in eval mode, and extra drops."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rote.probe import Probe
from rote.records import COLUMNS
from rote.tracking import Signal, SignalContext, TrainingSet
from rote.workloads.data.dataset import Array
from rote.workloads.data.samples import SampleTensors
from rote.workloads.data.splits import Splits

AT_ONCE = 256
"""Samples per forward pass."""

_AROUND_BEST = 2
"""Hard votes come from this many measured epochs before and after the best one."""

Precision = Callable[[], AbstractContextManager[object]]


class Evaluation(Signal):
    """Accuracies in eval mode: on all, correct and wrong given labels, and on the test set.

    Args:
        model: the network.
        splits: its data; what is not known there is not measured.
        precision: the precision of the forward passes.
    """

    name = "evaluation"
    columns = tuple(
        COLUMNS[name]
        for name in ("train_accuracy", "clean_accuracy", "noisy_accuracy", "test_accuracy")
    )

    def __init__(self, model: nn.Module, splits: Splits, precision: Precision) -> None:
        self._model = model
        self._splits = splits
        self._precision = precision

    def start(self, context: SignalContext) -> None:
        """Tell the signals after this one what is trained on."""
        splits, noise = self._splits, self._splits.description["noise"]["model"]
        context.training_set = TrainingSet(splits.labels, splits.wrong, noise, splits.train.batch)
        self._context = context

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the accuracies that are known."""
        splits = self._splits
        with self._precision():
            predicted = predict(self._model, splits.train)
            self._context.train_predictions = predicted
            found = compute_training_accuracies(predicted, splits.labels, splits.wrong)
            if splits.test is not None and splits.test_labels is not None:
                found["test_accuracy"] = share(
                    predict(self._model, splits.test) == splits.test_labels
                )
        return found


class CrossEntropyDrop(Signal):
    """The drop of cross entropy on S̃ in a probe of its own, where the objective is another.

    Args:
        precision: the precision of the forward passes.
    """

    name = "cross_entropy_drop"
    columns = (COLUMNS["drop_cross_entropy"],)

    def __init__(self, precision: Precision) -> None:
        self._precision = precision

    def start(self, context: SignalContext) -> None:
        """Make the probe."""
        self._context = context
        only = replace(context.policy, plain=None)
        self._probe = Probe(context.model, context.optimizer, context.num_classes, policy=only)

    def read(self, epoch: int) -> Mapping[str, float]:  # noqa: ARG002
        """Return the drop after the same step as that of ζ."""
        rule = self._context.policy.optimizer
        with self._precision():
            found = self._probe.measure(self._context.inputs, self._context.labels)
        return {"drop_cross_entropy": found.loss_before - found.losses_after[rule]}


class OutOfSampleSignal(Signal):
    """Class probabilities of the held-out fold: their mean over epochs, and those of the best one.

    The best epoch is the one with the highest accuracy on the given labels of the fold. Hard votes
    are the mean one-hot predictions of the epochs around it.

    Args:
        model: the network.
        splits: its data.
        precision: the precision of the forward passes.
    """

    name = "out_of_sample"
    columns = ()

    def __init__(self, model: nn.Module, splits: Splits, precision: Precision) -> None:
        self._model = model
        self._splits = splits
        self._precision = precision
        shape = len(splits.holdout), splits.num_classes
        self._total = torch.zeros(shape)
        self._best = torch.zeros(shape)
        self._classes = torch.zeros((0, shape[0]), dtype=torch.int32)
        self._best_at, self._best_step, self._best_accuracy = 0, 0, -1.0

    def read(self, epoch: int) -> Mapping[str, float]:
        """Add the probabilities after an epoch; there is no column for them."""
        with self._precision():
            found = predict_probabilities(self._model, self._splits.holdout).float().cpu()
        labels = self._splits.holdout_labels
        assert labels is not None  # a fold has its given labels
        predicted = found.argmax(1)
        accuracy = share(predicted == labels.cpu())
        self._total += found
        if accuracy > self._best_accuracy:
            self._best, self._best_step, self._best_accuracy = found, epoch, accuracy
            self._best_at = len(self._classes)
        self._classes = torch.cat([self._classes, predicted[None].int()])
        return {}

    def record(self) -> dict[str, Array]:
        """Return the arrays of ``out_of_sample.npz``."""
        record = self._splits.record
        around = slice(max(0, self._best_at - _AROUND_BEST), self._best_at + _AROUND_BEST + 1)
        votes = torch.eye(self._best.shape[1])[self._classes[around].long()].mean(0)
        return {
            "samples": record["rows"][record["holdout"]],
            "labels": record["labels"][record["holdout"]],
            "classes": self._best.argmax(1).numpy().astype(np.uint16),
            "probabilities": (self._total / max(1, len(self._classes))).numpy(),
            "best_probabilities": self._best.numpy(),
            "votes": votes.numpy(),
            "best_step": np.array(self._best_step),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return sums and the best so far."""
        return {
            "total": self._total.clone(),
            "best": self._best.clone(),
            "classes": self._classes.clone(),
            "best_at": self._best_at,
            "best_step": self._best_step,
            "best_accuracy": self._best_accuracy,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore sums and the best so far."""
        self._total, self._best = state["total"].clone(), state["best"].clone()
        self._classes, self._best_at = state["classes"].clone(), state["best_at"]
        self._best_step, self._best_accuracy = state["best_step"], state["best_accuracy"]


def predict_probabilities(model: nn.Module, inputs: Tensor) -> Tensor:
    """Predict class probabilities in eval mode, and restore the model's mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            return torch.cat([model(part).softmax(1) for part in torch.split(inputs, AT_ONCE)])
    finally:
        model.train(was_training)


def predict(model: nn.Module, samples: SampleTensors) -> Tensor:
    """Predict the class of every sample, and restore the model's mode."""
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad():
            chunks = [
                model(samples.batch(slice(start, start + AT_ONCE))).argmax(1)
                for start in range(0, len(samples), AT_ONCE)
            ]
    finally:
        model.train(was_training)
    return torch.cat(chunks)


def compute_training_accuracies(
    predicted: Tensor, labels: Tensor, wrong: Tensor | None
) -> dict[str, float]:
    """Return shares of given labels that are predicted.

    Returns:
        ``train_accuracy`` and, where known and not of nothing, ``clean_accuracy`` (on right
        labels) and ``noisy_accuracy`` (on wrong ones: what was memorized).
    """
    hits = predicted == labels
    found = {"train_accuracy": share(hits)}
    if wrong is not None:
        for name, subset in (("clean_accuracy", hits[~wrong]), ("noisy_accuracy", hits[wrong])):
            if len(subset):
                found[name] = share(subset)
    return found


def share(hits: Tensor) -> float:
    """Return the share of true entries, the same on every device."""
    return int(hits.sum()) / len(hits)
