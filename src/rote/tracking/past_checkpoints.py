"""After the fact: ζ over the checkpoints of a run that was trained without us."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy
from rote.records import Reading
from rote.snapshot import preserved
from rote.store import SaveTo, check_free, name_checkpoints, targets_of
from rote.tracking.make_tracker import track
from rote.tracking.saved_weights import read_weights


@dataclass(frozen=True)
class Aftermath:
    """What was found.

    Attributes:
        checkpoints: the files, in the order of training.
        readings: one for each.
        optimizer_states: how many steps were taken with a state that was saved.
        start: what the network showed as it was given, before any weights were loaded: ζ by column.
    """

    checkpoints: tuple[Path, ...]
    readings: tuple[Reading, ...]
    optimizer_states: int
    start: Mapping[str, float] = field(default_factory=dict)


def probe_checkpoints(
    checkpoints: Sequence[Path | str],
    model: nn.Module,
    optimizer: Optimizer | None = None,
    *,
    inputs: Inputs,
    num_classes: int,
    loss_fn: LossFunction | None = None,
    labels: Tensor | LabelSampler | None = None,
    given_labels: Tensor | None = None,
    train: tuple[Inputs, Tensor] | None = None,
    policy: ProbePolicy | None = None,
    seed: int = 0,
    name: str | None = None,
    save_to: SaveTo = None,
    key: str | None = None,
    progress: Callable[[Path, Reading], object] | None = None,
) -> Aftermath:
    """Probe the saved checkpoints of one run, first to last.

    The running mean of their drops is ζ, measured where checkpoints exist instead of after every
    epoch. The step is that of ``optimizer`` with its saved state where the files have one, and with
    fresh state otherwise, which is a departure from Algorithm 1.

    Args:
        checkpoints: files of one run, in the order of training (``in_order`` sorts by number).
        model: the network; afterwards it is as before.
        optimizer: as in training; plain SGD with lr 0.01 by default.
        inputs: unlabeled samples, prepared as in training.
        num_classes: how many classes.
        loss_fn: the training objective; cross entropy by default.
        labels: other random labels than uniform ones.
        given_labels: the given labels of ``inputs``.
        train: samples of the training set and their given labels; ``train_accuracy`` is measured
            on them in eval mode. Without it, region rules have nothing to go by.
        policy: how to probe; ``every`` is passed over.
        seed: of the random labels.
        name: the name of the run.
        save_to: a new run directory, which ``rote select`` reads; or as in ``rote.track``.
        key: the entry of the files that holds the weights.
        progress: called after every checkpoint.

    Returns:
        The readings.

    Raises:
        InputError: if there is no checkpoint, a file does not fit the model, or ``save_to`` is
            nothing to write to.
        RunExistsError: if ``save_to`` is in use.
        MissingExtraError: if the package of a logger is not installed.
    """
    folders = [target for target in targets_of(save_to) if isinstance(target, Path)]
    files = tuple(Path(path) for path in checkpoints)
    if not files:
        raise InputError("Expected at least one checkpoint, got none.")
    for folder in folders:
        check_free(folder)
    for file in files:  # a file that does not fit is found before an hour of probing
        read_weights(file, key)
    if optimizer is None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    states = 0
    fresh = [dict(group) for group in optimizer.param_groups]
    with preserved(model, optimizer):
        with preserved(model, optimizer):
            read_weights(files[0], key).load_into(model)  # do they fit?
        model.train()
        tracker = track(
            model,
            optimizer,
            inputs=inputs,
            num_classes=num_classes,
            loss_fn=loss_fn,
            labels=labels,
            given_labels=given_labels,
            policy=replace(ProbePolicy() if policy is None else policy, every=1),
            seed=seed,
            name=name,
            save_to=save_to,
        )
        try:
            for file in files:
                states += _load(file, key, model, optimizer, fresh)
                metrics = {} if train is None else {"train_accuracy": tracker.accuracy(*train)}
                tracker.probe(**metrics)
                if progress is not None:
                    progress(file, tracker.readings[-1])
        finally:
            tracker.close()
    for folder in folders:
        name_checkpoints(folder, dict(enumerate(files, start=1)))
    return Aftermath(files, tuple(tracker.readings), states, tracker.start)


def in_order(checkpoints: Sequence[Path | str]) -> list[Path]:
    """Files sorted as people number them: ``epoch-9`` before ``epoch-10``.

    Example:
        >>> [str(path) for path in in_order(["epoch=10.pt", "epoch=9.pt"])]
        ['epoch=9.pt', 'epoch=10.pt']
    """
    return sorted((Path(path) for path in checkpoints), key=_by_number)


def _by_number(path: Path) -> list[tuple[int, int, str]]:
    parts = re.split(r"(\d+)", str(path))
    return [(0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts]


def _load(
    file: Path,
    key: str | None,
    model: nn.Module,
    optimizer: Optimizer,
    fresh: Sequence[Mapping[str, Any]],
) -> bool:
    """Load one checkpoint, after the groups of the optimizer as they were given.

    Returns:
        Whether the optimizer's state came with it.
    """
    optimizer.state.clear()
    for group, settings in zip(optimizer.param_groups, fresh, strict=True):
        group.update(settings)  # also those of the file before
    saved = read_weights(file, key)
    saved.load_into(model)
    if saved.optimizer is None:
        return False
    # torch takes the state of any class, and fails later.
    missing = set(optimizer.defaults) - set(saved.optimizer["param_groups"][0])
    problem = f"one without {', '.join(sorted(missing))}" if missing else None
    if problem is None:
        try:
            optimizer.load_state_dict(dict(saved.optimizer))
        except (ValueError, KeyError) as error:
            problem = str(error)
    if problem is not None:
        raise InputError(
            f"Expected the optimizer in {file} to be a {type(optimizer).__name__} like the one "
            f"given, got: {problem}. Give the optimizer that trained the model."
        )
    return True
