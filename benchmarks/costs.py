"""What the selectors of the leaderboard cost, in seconds per epoch of its own runs.

    python benchmarks/costs.py

Writes src/rote/studies/records/costs.json, which the leaderboard shows; two minutes on an idle
core. Every network of the pools with images (preset ``small``, its first recipe) trains a few
epochs on random images of the same number and size, with all signals on (``pmv`` in a run of its
own). What each signal does is timed by itself, which tells more than the difference of two epochs
would: the median over epochs of CPU seconds of this process, which has one thread. Here signals
share nothing, as if each were the only one.

- ``NAME``: the signal of that name, at every batch and reading.
- ``epoch``: training, without what follows.
- ``probe``: ζ, live and plain, on 128 samples.
- ``pass_N``: predicting N held-out samples; ``pass_train``: all training samples.
"""

import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch

import rote
import rote.studies
from rote.rivals.gwa import _Tap
from rote.studies import read_pools
from rote.tracking import Batch, list_signals
from rote.workloads.data.splits import prepare
from rote.workloads.evaluation import predict
from rote.workloads.loop import _start_tracking
from rote.workloads.spec import RunSpec
from rote.workloads.workload import Workload, make_repeatable

CPU = torch.device("cpu")
EPOCHS, SIDE = 4, 28
SIZES = (10, 128, 256, 300, 512)
SECOND_TRAINING = "pmv"
OUT = Path(rote.studies.__file__).parent / "records" / "costs.json"


class Clock:
    """CPU seconds by name; one entry per epoch."""

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []

    def start_epoch(self) -> None:
        self.epochs.append(defaultdict(float))

    def timed(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: object, **more: object) -> object:
            started = time.process_time()
            try:
                return function(*args, **more)
            finally:
                self.epochs[-1][name] += time.process_time() - started

        return call

    def medians(self) -> dict[str, float]:
        kept = self.epochs[2:]  # before the first, and the first, which warms up
        return {name: float(f"{median(e[name] for e in kept):.4g}") for name in sorted(kept[0])}


def pool_specs(folder: Path) -> dict[str, RunSpec]:
    """Return the runs of a pool with its first recipe, on random images, with every signal."""
    path = folder / "data.npz"
    pool = next(pool for pool in read_pools("small") if pool.name == "fashion-symmetric-0")
    base = pool.space.base
    sizes = {"train": base["data"]["train_size"], "test": base["data"]["test_size"]}
    rng = np.random.default_rng(0)
    arrays = {f"x_{k}": rng.integers(0, 256, (n, SIDE, SIDE), np.uint8) for k, n in sizes.items()}
    labels = {f"y_{k}": rng.integers(10, size=n) for k, n in sizes.items()}
    np.savez(path, **arrays, **labels)
    found = {}
    for name, spec in pool.specs.items():
        if name.endswith("-fast"):
            values = spec.to_dict() | {"data": {"name": "npz", "path": str(path)}}
            found[name.removesuffix("-fast")] = RunSpec.from_dict(values)
    return found


def _time_passes(clock: Clock, workload: Workload, tracker: rote.Tracker) -> None:
    """Return what selectors without a signal of their own let through the network."""
    probe, batch, splits = tracker._probe, tracker.batch, workload.splits
    clock.timed("probe", probe.measure)(batch.inputs, batch.labels)
    for size in SIZES:
        clock.timed(f"pass_{size}", probe.predict)(splits.holdout[:size], batch.labels.shape)
    clock.timed("pass_train", predict)(workload.model, splits.train)


def seconds_of(spec: RunSpec) -> dict[str, float]:
    """Each signal's, and what else is timed; the second training by itself, since it is watched."""
    cheap = [name for name in list_signals() if name != SECOND_TRAINING]
    found = [_timed(replace(spec, signals=tuple(names))) for names in (cheap, [SECOND_TRAINING])]
    return {**found[0], SECOND_TRAINING: found[1][SECOND_TRAINING]}


def _alone(observe: Callable[[Batch], None]) -> Callable[[Batch], None]:
    """Drop what a batch has computed for one signal before the next."""
    return lambda batch: observe(replace(batch))


def _timed(spec: RunSpec) -> dict[str, float]:
    splits = prepare(spec)
    clock, workload = Clock(), Workload(spec, splits, CPU)
    # Before it is hung on the head.
    listen = _Tap.__call__
    _Tap.__call__ = clock.timed("gwa", listen)  # type: ignore[method-assign]
    try:
        clock.start_epoch()
        tracker = _start_tracking(workload, None)
        for signal in tracker.signals:
            # A signal may put off its work until it is asked for its state.
            for method in ("observe", "read", "rows", "state_dict"):
                own = getattr(signal, method)
                timed = clock.timed(signal.name, _alone(own) if method == "observe" else own)
                setattr(signal, method, timed)
        for number in range(EPOCHS):
            clock.start_epoch()
            metrics = clock.timed("epoch", workload.train_epoch)(number + 1, tracker)
            clock.epochs[-1]["epoch"] -= sum(clock.epochs[-1][name] for name in spec.signals)
            tracker.probe(**metrics)
            _time_passes(clock, workload, tracker)
    finally:
        _Tap.__call__ = listen  # type: ignore[method-assign]
    return clock.medians()


def main() -> None:
    warnings.simplefilter("ignore", rote.RoteWarning)
    with tempfile.TemporaryDirectory() as name, make_repeatable(CPU, 1):
        found = {key: seconds_of(spec) for key, spec in pool_specs(Path(name)).items()}
    for key, figures in found.items():
        print(key, json.dumps(figures))
    report = {
        "command": " ".join(["python", *sys.argv]),
        "torch": torch.__version__,
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "networks": found,
    }
    OUT.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
