"""The front door: check everything, then build a tracker."""

import operator
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import CorruptRunError, InputError, StateError
from rote.labels import LabelSampler
from rote.probe import (
    Inputs,
    LossFunction,
    Probe,
    ProbePolicy,
    check_model_and_optimizer,
    cross_entropy,
    num_samples,
)
from rote.records import Reading
from rote.store import RunDirectory, read_description, read_predictions, read_run
from rote.tracking.description import describe_environment, describe_model, describe_optimizer
from rote.tracking.noisy_validation import as_given_labels
from rote.tracking.random_batch import RandomBatch
from rote.tracking.tracker import Tracker


def track(
    model: nn.Module,
    optimizer: Optimizer,
    *,
    inputs: Inputs | Callable[[], Inputs],
    num_classes: int,
    loss_fn: LossFunction | None = None,
    labels: Tensor | LabelSampler | None = None,
    given_labels: Tensor | None = None,
    policy: ProbePolicy | None = None,
    seed: int = 0,
    name: str | None = None,
    save_to: str | Path | None = None,
    resume: bool = False,
) -> Tracker:
    """Track how much a network memorizes while it trains.

    Call ``tracker.probe()`` after every epoch. It takes one step of the training optimizer on one
    mini-batch with random labels, notes how far the loss fell, and puts everything back: training
    is bit-identical with and without it.

    Args:
        model: the network in training.
        optimizer: the optimizer that trains it.
        inputs: unlabelled samples: a tensor, a tuple of arguments, a mapping of keyword arguments,
            or a callable that returns one. The first ``policy.batch`` samples are S̃; if there are
            more, all of them are a pool, best kept out of training, on which predictions are
            recorded.
        num_classes: how many classes the model tells apart.
        loss_fn: the training objective, called with the model's output and labels; cross entropy
            by default.
        labels: other random labels than uniform ones: a tensor, or a callable that takes a
            ``torch.Generator`` (``rote.labels`` has several).
        given_labels: the given, possibly noisy labels of ``inputs``; their accuracy is recorded as
            ``validation_accuracy``.
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the generator that draws the random labels.
        name: the name of the run; the directory's name by default.
        save_to: a new directory for the run's journal.
        resume: go on with the run that is in ``save_to``, after its last reading. Load the
            tracker's ``state_dict`` as well if training goes on from an earlier point, or if
            ``policy.every`` skips steps: the journal knows only the steps that were measured.

    Returns:
        The tracker.

    Raises:
        InputError: if anything does not fit; nothing has been touched or written then.
        RunExistsError: if ``save_to`` is in use and ``resume`` is false.
        RunLockedError: if another process is writing ``save_to``.
        StateError: if the run to resume has other inputs, labels or classes.

    Example:
        >>> import torch, rote
        >>> model = torch.nn.Linear(4, 3)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> tracker = rote.track(model, optimizer, inputs=torch.randn(16, 4), num_classes=3)
        >>> reading = tracker.probe(train_accuracy=0.5)
        >>> reading.step, reading.drop == tracker.susceptibility, reading.train_accuracy
        (1, True, 0.5)
    """
    policy = ProbePolicy() if policy is None else policy
    num_classes, seed = _as_integer("num_classes", num_classes), _as_integer("seed", seed)
    path = _as_path(save_to)
    _check_arguments(num_classes, policy, path, resume=resume)
    check_model_and_optimizer(model, optimizer)
    batch = RandomBatch(
        inputs,
        num_classes=num_classes,
        size=policy.batch,
        labels=labels,
        seed=seed,
        resample=policy.resample,
    )
    given = None if given_labels is None else _given(given_labels, batch, num_classes)
    probe = Probe(
        model,
        optimizer,
        num_classes,
        loss_fn=cross_entropy if loss_fn is None else loss_fn,
        mode=policy.mode,
        same_masks=policy.same_masks,
        closure=policy.closure,
        verify=policy.verify,
    )
    tracker = Tracker(probe, batch, policy=policy, given_labels=given)
    probe.check(batch.inputs, batch.labels, policy.rules, predicts=tracker.predicts)
    if path is not None:
        description = _describe(tracker, probe, seed=seed, name=str(name or path.name))
        _open_run(tracker, path, description, resume=resume)
    return tracker


def _as_integer(name: str, value: object) -> int:
    try:
        return operator.index(value)  # type: ignore[arg-type]  # refused if it does not fit
    except TypeError:
        raise InputError(f"Expected `{name}` to be an integer, got {value!r}.") from None


def _as_path(save_to: str | Path | None) -> Path | None:
    try:
        return None if save_to is None else Path(save_to).expanduser()
    except TypeError:
        raise InputError(f"Expected `save_to` to be a path, got {save_to!r}.") from None


def _check_arguments(
    num_classes: int, policy: ProbePolicy, path: Path | None, *, resume: bool
) -> None:
    if num_classes < 2:
        raise InputError(
            f"Expected `num_classes` to be an integer of at least 2, got {num_classes}."
        )
    if not isinstance(policy, ProbePolicy):
        raise InputError(f"Expected `policy` to be a ProbePolicy, got {policy!r}.")
    if resume and path is None:
        raise InputError("Expected `save_to` to name the run to resume, got None.")


def _given(given_labels: Tensor, batch: RandomBatch, num_classes: int) -> np.ndarray:
    if batch.pool is None:
        raise InputError(
            "Expected `given_labels` to belong to fixed `inputs`, got a callable that brings new "
            "ones for every probe. Pass the samples themselves, or resample=False."
        )
    shape = (num_samples(batch.pool), *batch.labels.shape[1:])
    return as_given_labels(given_labels, shape=shape, num_classes=num_classes)


def _describe(tracker: Tracker, probe: Probe, *, seed: int, name: str) -> dict[str, Any]:
    batch = tracker.batch
    shape = None
    if tracker.predicts and batch.pool is not None:
        shape = [num_samples(batch.pool), *batch.labels.shape[1:]]
    pool = None
    if batch.pool is not None:
        pool = {"size": num_samples(batch.pool), "hash": batch.pool_hash, "predictions": shape}
    return {
        "name": name,
        **describe_environment(),
        "seed": seed,
        "num_classes": probe.num_classes,
        "policy": tracker.policy.describe(),
        "labels": batch.describe(),
        "pool": pool,
        "model": describe_model(probe.model),
        "optimizer": describe_optimizer(probe.optimizer),
    }


def _open_run(tracker: Tracker, path: Path, description: dict[str, Any], *, resume: bool) -> None:
    if not resume:
        tracker.write_to(RunDirectory.create(path, description))
        return
    run = RunDirectory.reopen(path)
    try:
        _check_same_run(read_description(path), description, path)
        tracker.write_to(run, resumed=True, earlier=_earlier(path))
    except BaseException:
        run.close()
        raise


def _check_same_run(found: dict[str, Any], wanted: dict[str, Any], path: Path) -> None:
    for key in ("num_classes", "labels", "pool", "policy"):
        mine, theirs = wanted[key], found.get(key)
        if key == "policy":  # to verify or not changes no reading
            mine, theirs = ({**(policy or {}), "verify": None} for policy in (mine, theirs))
        if mine != theirs:
            raise StateError(
                f"Expected `{key}` to be as in the run to resume ({path}), got a different one: "
                f"{mine!r} instead of {theirs!r}."
            )


def _earlier(path: Path) -> list[Reading]:
    record = read_run(path)
    predictions = read_predictions(record)
    if predictions is None:
        return list(record.readings)
    if len(predictions) != len(record.readings):
        raise CorruptRunError(
            f"Expected {path} to hold predictions for {len(record.readings)} readings, got "
            f"{len(predictions)}. Restore its files from a copy, or start a new run."
        )
    rows = zip(record.readings, predictions, strict=True)
    return [replace(reading, predictions=row) for reading, row in rows]
