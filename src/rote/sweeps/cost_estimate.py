"""Estimates of the time and disk space of a sweep, from two epochs of some of its runs."""

import time
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from rote.errors import InputError
from rote.store import (
    CHECKPOINT_FOLDER,
    JOURNAL_FILE,
    LABELS_FILE,
    NEIGHBORS_FILE,
    PREDICTIONS_FILE,
)
from rote.sweeps.executor import get_run_path
from rote.sweeps.progress import read_last
from rote.workloads import BestCheckpoints, RunSpec


@dataclass(frozen=True)
class SweepCost:
    """The remaining cost of a sweep.

    Attributes:
        seconds: the time of one process that trains run after run on this machine.
        longest: seconds of the longest run.
        bytes: on disk.
        measured: the number of kinds of runs that were measured.
        kinds: the number of kinds; unmeasured kinds count as average.
        is_scaled: whether a measurement was made with fewer samples than the run has.
        refused: why kinds could not be measured, by the name of the run that was tried.
    """

    samples: ClassVar[int] = 2048
    """Larger training sets are cut down to this many samples for the measurement."""

    seconds: float
    longest: float
    bytes: int
    measured: int
    kinds: int
    is_scaled: bool
    refused: dict[str, str] = field(default_factory=dict)

    def estimate_seconds(self, workers: int) -> float:
        """Return the time that this many processes take if they do not slow each other down."""
        return max(self.longest, self.seconds / workers)


@dataclass(frozen=True)
class _Cost:
    """The cost of runs of one kind; bytes per reading and per run."""

    setup: float
    epoch: float
    checkpoint: int
    reading: int
    labels: int
    is_scaled: bool


def estimate_cost(
    specs: Iterable[RunSpec],
    store: Path,
    *,
    data_dir: Path | None = None,
    budget: float = 60.0,
) -> SweepCost:
    """Measure runs, the most frequent kind first, until the time for it is spent.

    Args:
        specs: the runs that are not over.
        store: the folder of the runs; interrupted ones have less to do. Nothing is written.
        data_dir: where datasets lie.
        budget: seconds after which no further kind is measured; one always is.

    Raises:
        InputError: if data are missing, or do not fit a spec, and nothing can be measured.
    """
    kinds: dict[Hashable, list[RunSpec]] = {}
    for spec in specs:
        kinds.setdefault(_find_kind(spec), []).append(spec)
    costs, refused = _measure_kinds(kinds, data_dir, budget)
    seconds: list[float] = []
    size = 0.0
    for kind, runs in kinds.items():
        known = [costs[kind]] if kind in costs else list(costs.values())
        for spec in runs:
            left = spec.epochs - read_last(get_run_path(store, spec)).step
            seconds.append(_average(cost.setup + left * cost.epoch for cost in known))
            size += _average(_estimate_bytes(spec, cost) for cost in known)
    is_scaled = any(cost.is_scaled for cost in costs.values())
    longest = max(seconds, default=0.0)
    return SweepCost(sum(seconds), longest, round(size), len(costs), len(kinds), is_scaled, refused)


def _find_kind(spec: RunSpec) -> Hashable:
    """Return everything that the time of an epoch depends on."""
    optimizer, objective = type(spec.optimizer), type(spec.objective)
    return spec.architecture, spec.data, spec.batch, spec.bf16, optimizer, objective


def _measure_kinds(
    kinds: dict[Hashable, list[RunSpec]], data_dir: Path | None, budget: float
) -> tuple[dict[Hashable, _Cost], dict[str, str]]:
    """Return the cost of each kind of run, and why some kinds could not be measured.

    Raises:
        InputError: if none can.
    """
    costs: dict[Hashable, _Cost] = {}
    refused: dict[str, str] = {}
    began = time.monotonic()
    for kind, runs in sorted(kinds.items(), key=lambda item: -len(item[1])):
        if costs and time.monotonic() - began > budget:
            break
        try:
            costs[kind] = _measure(runs[0], data_dir)
        except InputError as error:
            refused[runs[0].name or runs[0].identity] = str(error)
    if refused and not costs:
        raise InputError(next(iter(refused.values())))
    return costs, refused


def _measure(spec: RunSpec, data_dir: Path | None) -> _Cost:
    from rote.workloads import prepare, train

    prepare(spec, data_dir=data_dir)  # loads what a process loads once, not once per run
    began = time.perf_counter()
    splits = prepare(spec, data_dir=data_dir)
    setup = time.perf_counter() - began
    samples = splits.description["train"] + splits.description["holdout"]
    tested = 0 if splits.test_labels is None else len(splits.test_labels)
    small = _shorten(spec, samples, tested)
    with TemporaryDirectory(prefix="rote-") as folder:
        ends: list[float] = []
        run = train(
            small, folder, data_dir=data_dir, progress=lambda _: ends.append(time.perf_counter())
        )
        scale = samples / (run.description["data"]["train"] + run.description["data"]["holdout"])
        path = Path(folder)
        return _Cost(
            setup=setup,
            epoch=(ends[1] - ends[0]) * scale,
            checkpoint=_measure_size(path / CHECKPOINT_FOLDER) // 2,
            reading=(_measure_size(path / JOURNAL_FILE) + _measure_size(path / PREDICTIONS_FILE))
            // 2,
            labels=round(_measure_size(path / LABELS_FILE) * scale)
            + _measure_size(path / NEIGHBORS_FILE),
            is_scaled=scale > 1,
        )


def _shorten(spec: RunSpec, samples: int, tested: int) -> RunSpec:
    """Two epochs of a run, on a part of its data if there are many."""
    values = spec.to_dict() | {"epochs": 2, "checkpoints": "all"}
    values["probe"] = values["probe"] | {"every": 1}
    most = SweepCost.samples + (spec.probe.holdout_size or 0)
    if samples > most:
        values["data"] = values["data"] | {"train_size": most}
        if tested:
            values["data"] |= {"test_size": max(1, tested * most // samples)}
    return RunSpec.from_dict(values)


def _estimate_bytes(spec: RunSpec, cost: _Cost) -> float:
    readings = spec.epochs // spec.probe.every
    policy = spec.checkpoints
    if isinstance(policy, BestCheckpoints):
        kept = min(policy.k, readings)
    else:
        kept = {"all": readings, "last": 1, "none": 0}[policy.keep]
    return kept * cost.checkpoint + readings * cost.reading + cost.labels


def _average(values: Iterable[float]) -> float:
    numbers = list(values)
    return sum(numbers) / len(numbers)


def _measure_size(path: Path) -> int:
    files = path.iterdir() if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())
