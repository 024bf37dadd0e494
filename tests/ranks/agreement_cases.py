"""What ranks agree on: means, errors, arguments, and who writes."""

import math
import os
import resource
import signal
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, distributed, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817  # as everybody
from torch.optim import SGD

import rote
from rote.errors import (
    NonFiniteReadingWarning,
    RankError,
    RunExistsError,
    SkippedReadingWarning,
)
from rote.probe import (
    average_over_ranks,
    broadcast_from_first,
    count_ranks,
    fail_together,
    get_rank,
    is_first_rank,
)
from rote.probe.ranks import _get_side_group
from rote.store import read_predictions, read_run
from tests.ranks.expectations import on_rank, raises
from tests.ranks.training import (
    CLASSES,
    HOLDOUT,
    Training,
    check_same_on_ranks,
    gathered,
    images,
    mlp,
    reading_numbers,
)


def pair(build: Callable[[], nn.Module] = mlp) -> tuple[nn.Module, SGD]:
    torch.manual_seed(0)
    model = DDP(build())
    return model, SGD(model.parameters(), lr=0.1, momentum=0.9)


def track(**options: Any) -> rote.Tracker:
    given = {"inputs": HOLDOUT, "num_classes": CLASSES} | options
    return rote.track(*pair(), **given)


def _means(folder: Path) -> None:
    assert (count_ranks(), get_rank(), is_first_rank()) == (2, distributed.get_rank(), on_rank(0))
    numbers = [0.1, 1e308, 3.0] if on_rank(0) else [0.7, -1e308, math.nan]
    found = average_over_ranks(numbers)
    check_same_on_ranks(repr(found))
    assert found[:2] == [(0.1 + 0.7) / 2, 0.0]
    assert math.isnan(found[2])
    found = average_over_ranks([math.inf if on_rank(1) else 1.0, -math.inf if on_rank(1) else 1.0])
    assert found == [math.inf, -math.inf]
    assert average_over_ranks([]) == []


def _first_rank(folder: Path) -> None:
    for value in (True, 3, 0.1, None, "stop", (0.5, math.inf)):
        assert broadcast_from_first(value if on_rank(0) else object) == value


def _agreement(folder: Path) -> None:
    with (
        raises(ZeroDivisionError, on=1),
        raises(RankError, "Rank 1", "division", on=0),
        fail_together(),
    ):
        _ = 1 // (1 - distributed.get_rank())
    with raises(RunExistsError, "in use"), fail_together():
        if on_rank(0):
            raise RunExistsError("in use")
    with (
        raises(rote.InputError, "`seed`", "got 0 on rank 0 and 1 on rank 1"),
        fail_together() as facts,
    ):
        facts["`seed`"] = str(distributed.get_rank())
    with fail_together() as facts:
        facts["`seed`"] = "7"


def _different_arguments(folder: Path) -> None:
    number = distributed.get_rank()
    with raises(rote.InputError, "`inputs` to be the same on every rank"):
        track(inputs=images(9, seed=number))
    with raises(rote.InputError, "random labels (`labels`, `seed`) to be the same"):
        track(seed=number)
    with raises(rote.InputError, "`policy` to be the same"):
        track(policy=rote.ProbePolicy(plain=None if number else rote.PlainStep()))
    given = torch.full((len(HOLDOUT),), number)
    for labels in (given, given if number else None):
        with raises(rote.InputError, "`given_labels` to be the same"):
            track(given_labels=labels)
    stage = nn.Sequential(nn.Flatten(), nn.Linear(36, 4 + number), nn.Linear(4 + number, CLASSES))
    with raises(rote.InputError, "shapes of `model`'s parameters to be the same"):
        optimizer = SGD(stage.parameters(), lr=0.1)
        rote.track(stage, optimizer, inputs=HOLDOUT, num_classes=CLASSES)
    with raises(rote.InputError, "`num_classes` to be an integer"):
        track(num_classes=CLASSES if number else "four")
    track()


def _different_samples_later(folder: Path) -> None:
    batches = iter([images(7, seed=1), images(7, seed=2 + distributed.get_rank())] * 2)
    policy = rote.ProbePolicy(batch=7, resample=True)
    tracker = track(inputs=lambda: next(batches), policy=policy)
    tracker.probe()
    with raises(rote.InputError, "S̃ to be the same on every rank"):
        tracker.probe()
    assert len(tracker.readings) == 1
    assert tracker.probe() is not None


def _failing_rank(folder: Path) -> None:
    """One rank's error is every rank's, at the trial and later, and leaves no trace."""
    fails = [True]

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        if on_rank(1) and fails[0]:
            raise ArithmeticError("unlucky")
        return cross_entropy(output, labels)

    expected = "ArithmeticError", "unlucky"
    with raises(rote.InputError, *expected, on=1), raises(RankError, "Rank 1", *expected, on=0):
        track(loss_fn=loss_fn)
    plain = Training(DDP, "sgd", build=mlp).run(probed=False)
    fails[0] = False
    training = Training(DDP, "sgd", build=mlp, moment="never").run(
        probed=True, steps=0, loss_fn=loss_fn
    )
    tracker = training.tracker
    for step, (x, y) in enumerate(training._batches(5)):
        training._step(step, x, y)
        fails[0] = step % 2 == 0
        if not fails[0]:
            tracker.probe()
            continue
        with raises(ArithmeticError, on=1), raises(RankError, *expected, on=0):
            tracker.probe()
    assert [reading.step for reading in tracker.readings] == [1, 2]
    assert training.marks() == plain.marks()


def _failing_metric(folder: Path) -> None:
    tracker = track()
    wrong: Any = "high" if on_rank(1) else 0.5
    with raises(rote.InputError, "`train_accuracy` to be a number"):
        tracker.probe(train_accuracy=wrong)
    assert tracker.readings == []
    assert tracker.probe(train_accuracy=distributed.get_rank()).step == 1


def _interrupt(folder: Path) -> None:
    """Ctrl-C on one rank waits for the end of the probe, and ends the others' wait."""
    armed = [False]

    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        if on_rank(1) and armed[0]:
            os.kill(os.getpid(), signal.SIGINT)
        return cross_entropy(output, labels)

    tracker = track(loss_fn=loss_fn)
    armed[0] = True
    with raises(KeyboardInterrupt, on=1), raises(RankError, "KeyboardInterrupt", on=0):
        tracker.probe()


def _not_finite(folder: Path) -> None:
    def loss_fn(output: Tensor, labels: Tensor) -> Tensor:
        return cross_entropy(output, labels) * (math.inf if on_rank(1) else 1.0)

    tracker = track(loss_fn=loss_fn)
    with raises(NonFiniteReadingWarning, "not finite"):
        tracker.probe()
    assert tracker.readings == []  # a warning that is an error: as if it had not been called
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NonFiniteReadingWarning)
        tracker.probe()
    check_same_on_ranks([reading_numbers(reading) for reading in tracker.readings])
    assert tracker.readings[0].flags == ("non_finite", "non_finite_plain")


def _who_writes(folder: Path) -> None:
    """Only the first rank has a directory; its metrics are the ones in the journal."""
    own = folder / f"rank{distributed.get_rank()}"
    training = Training(DDP, "sgd").run(probed=True, save_to=own)
    distributed.barrier()
    assert sorted(path.name for path in folder.iterdir()) == ["rank0"]
    record = read_run(folder / "rank0")
    assert [reading.drop for reading in record.readings] == [r.drop for r in training.readings]
    assert {reading.train_accuracy for reading in record.readings} == {0.0}
    assert training.readings[0].train_accuracy == distributed.get_rank()
    with raises(RunExistsError, "in use"):
        track(save_to=folder / "rank0")
    training.tracker.close()


def _resumed(folder: Path) -> None:
    """Half a run, then the other half from its journal, equal the whole; as from a state."""
    policy = rote.ProbePolicy(batch=7, resample=True)
    options = {"optimizer_name": "sgd", "wrap": DDP, "policy": policy}
    whole = Training(**options).run(probed=True, steps=4)
    first = Training(**options).run(probed=True, steps=2, save_to=folder / "run")
    first.tracker.close()
    distributed.barrier()
    given = {"inputs": HOLDOUT, "num_classes": CLASSES, "policy": policy}
    # Where the others are told to write does not matter.
    save_to = folder / ("run" if on_rank(0) else "nowhere")
    tracker = rote.track(first.model, first.optimizer, **given, save_to=save_to, resume=True)
    assert len(tracker.readings) == 2
    loaded = rote.track(first.model, first.optimizer, **given)
    loaded.load_state_dict(first.tracker.state_dict())
    for one in (tracker, loaded):
        one.probe()
        one.probe()
    expected = [repr(reading.drop) for reading in whole.readings[:2]]
    # The rank that writes keeps predictions on disk alone.
    found, others = (
        [reading_numbers(replace(reading, predictions=None)) for reading in one.readings]
        for one in (tracker, loaded)
    )
    check_same_on_ranks(found)
    assert [repr(reading.drop) for reading in tracker.readings[:2]] == expected
    assert found == others
    tracker.close()
    distributed.barrier()
    assert [path.name for path in folder.iterdir()] == ["run"]
    written = read_run(folder / "run")
    assert len(written.readings) == 4
    predictions = read_predictions(written)
    assert predictions is not None
    assert predictions[:2].tolist() == [r.predictions.tolist() for r in whole.readings[:2]]
    assert predictions[2:].tolist() == [r.predictions.tolist() for r in loaded.readings[2:]]


def _forgotten_state(folder: Path) -> None:
    """A state that only one rank loaded is noticed at the next probe."""
    earlier = track()
    earlier.probe()
    tracker = track()
    if on_rank(0):
        tracker.load_state_dict(earlier.state_dict())
    with raises(rote.InputError, "the tracker's step to be the same", "got 2 on rank 0 and 1"):
        tracker.probe()


def _full_disk(folder: Path) -> None:
    """A reading that the first rank cannot write was not taken on any rank."""
    tracker = track(save_to=folder / "run")
    tracker.probe()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if on_rank(0):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        with raises(OSError, on=0), raises(RankError, "Rank 0", "OSError", on=1):
            tracker.probe()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert len(tracker.readings) == 1
    assert tracker.probe().step == 2
    tracker.close()


def _metric_that_is_not_due(folder: Path) -> None:
    """Where nothing is measured, no rank may fail alone."""
    tracker = track(policy=rote.ProbePolicy(every=2))
    assert tracker.probe(accuracy="high" if on_rank(1) else 0.5) is None
    assert tracker.probe(accuracy=0.5).step == 2


def _stop(folder: Path) -> None:
    """The first rank's training accuracy decides on all."""
    tracker, rule = track(), rote.StopRule(train_accuracy=0.5, patience=1, min_epochs=1)
    decisions = []
    for zeta in (0.1, 0.3, 0.2):
        reading = tracker.probe(train_accuracy=0.9 if on_rank(0) else 0.1)
        assert reading is not None
        decisions.append(rule.update(replace(reading, susceptibility=zeta)))
    assert decisions == [False, True, True]
    check_same_on_ranks(repr(rule.state_dict()))
    assert rule.keep == 1


def _resistance(folder: Path) -> None:
    """One sample is memorized on each rank for itself; DDP notices nothing."""
    build = partial(DDP, static_graph=True)
    plain = Training(build, "sgd", build=mlp).run(probed=False)
    training = Training(build, "sgd", build=mlp)
    steps = []
    for step, (x, y) in enumerate(training._batches(5)):
        training._step(step, x, y)
        sample = images(1, seed=distributed.get_rank())
        found = rote.resistance(training.model, training.optimizer, sample, 1, max_steps=9)
        steps.append(len(found.losses))
    assert training.marks() == plain.marks()
    assert len(gathered(steps)) == 2


def _messages_through_the_cpu(folder: Path) -> None:
    backend = distributed.get_backend
    distributed.get_backend = lambda *_: "nccl"  # type: ignore[assignment, misc]
    try:
        assert average_over_ranks([1.0 if on_rank(0) else 3.0]) == [2.0]
        side = _get_side_group()
        assert _get_side_group() is side
    finally:
        distributed.get_backend = backend
    assert side is not distributed.group.WORLD
    assert backend(side) == "gloo"


def _out_of_memory(folder: Path) -> None:
    fails: list[bool] = []

    def loss(output: Tensor, labels: Tensor) -> Tensor:
        if fails and on_rank(1):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return cross_entropy(output, labels)

    tracker = track(loss_fn=loss)
    fails.append(True)
    with pytest.warns(SkippedReadingWarning, match="micro_batch"):
        assert tracker.probe() is None
    fails.clear()
    reading = tracker.probe()
    assert reading is not None
    assert reading.step == 2


CASES: dict[str, Callable[[Path], None]] = {
    "means": _means,
    "first rank": _first_rank,
    "agreement": _agreement,
    "different arguments": _different_arguments,
    "different samples later": _different_samples_later,
    "failing rank": _failing_rank,
    "failing metric": _failing_metric,
    "interrupt": _interrupt,
    "not finite": _not_finite,
    "who writes": _who_writes,
    "resumed": _resumed,
    "forgotten state": _forgotten_state,
    "full disk": _full_disk,
    "metric that is not due": _metric_that_is_not_due,
    "stop": _stop,
    "resistance": _resistance,
    "messages through the CPU": _messages_through_the_cpu,
    "out of memory": _out_of_memory,
}
