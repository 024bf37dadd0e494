"""What signals cost: an epoch with each of them against the same epoch without.

    python benchmarks/signals.py

Writes benchmarks/signals.json; five minutes on an idle core. An epoch is training, evaluation, the
probe, and the journal. Two runs of the same training differ by 1 or 2 percent, by where their
tensors lie in memory; and two epochs of one run by more, by what else the machine does. So both
epochs are one network's, and interleaved: it trains on a few batches without the signal and on the
same ones with it, then on the next few the other way round, and so on, with a tracker for each of
the two that reads at the end. Their ratio is ``over_bare``: the median over such pairs of epochs;
``interval`` is that median's 95 % bootstrap interval. Time is the CPU time of this process, which
has one thread.

- ``NAME``: with that signal alone.
- ``cheap``: with all that add no pass through the network.
- ``nothing``: without any, twice: how far from 1 the measurement is by itself.

An epoch here has 48 steps of 128 samples, and what a signal costs goes by samples; so the ratio is
that of any length. But ``gradient_disparity`` costs five batches per reading, however long an epoch
is: it is measured in epochs of 391 steps, as CIFAR has, and that has the goal; ``over_bare_of_48``
is beside it. ``pmv`` is a second training, ``probe_sets`` probes a hundred sets: they have none.
"""

import json
import os
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from torch import Tensor

import rote
from rote.tracking import list_signals
from rote.workloads.data.splits import Splits, prepare
from rote.workloads.loop import _start_tracking
from rote.workloads.run_folder import RunFolder
from rote.workloads.spec import RunSpec
from rote.workloads.workload import Workload, make_repeatable

CPU = torch.device("cpu")
BATCH, STEPS, SIDE, ROUNDS = 128, 48, 16, 13
BLOCK = 4  # steps in a row: what a signal leaves in the caches slows down the step after it
FULL_EPOCH, FULL_ROUNDS = 391, 5
PER_READING = "gradient_disparity"
WITHOUT_GOAL = SECOND_TRAINING, MANY_PROBES = "pmv", "probe_sets"
GOAL, GOAL_TOGETHER = 1.02, 1.05


class PairedRun(Workload):
    """A run that trains every epoch twice, interleaved: without its signals, and with them."""

    def __init__(self, spec: RunSpec, splits: Splits, folder: Path) -> None:
        super().__init__(spec, splits, CPU)
        self._trackers: list[rote.Tracker] = []
        self._hooks = []
        for signals in ((), spec.signals):
            self.spec = replace(spec, signals=signals)
            run = RunFolder(folder / str(len(self._trackers)), self.spec)
            self._trackers.append(_start_tracking(self, run))
            modules = self.model.modules()
            self._hooks.append([(module, dict(module._forward_hooks)) for module in modules])
        self._epoch, self._turns, self._now = 0, 0, 0

    def seconds(self) -> tuple[float, float]:
        """Of the next epoch: without, and with."""
        self._epoch += 1
        self._seconds = [0.0, 0.0]
        metrics = self.train_epoch(self._epoch, self)  # type: ignore[arg-type]  # it observes
        assert min(self._seconds) > 0, "The batches of the epoch were not interleaved."
        for _ in self._both():
            self._trackers[self._now].probe(**metrics)
        without, with_signals = self._seconds
        return without, with_signals

    def observe(self, **batch: Any) -> None:  # noqa: ANN401
        self._trackers[self._now].observe(**batch)

    def _draw_batches(self, epoch: int) -> Iterator[Tensor]:  # type: ignore[override]
        batches = super()._draw_batches(epoch)
        for start in range(0, len(batches), BLOCK):
            for _ in self._both():
                yield from batches[start : start + BLOCK]

    def _both(self) -> Iterator[None]:
        """Two turns, timed, without and with in alternating order; a hook is there in its own."""
        self._turns += 1
        for now in (0, 1) if self._turns % 2 else (1, 0):
            self._now = now
            for module, hooks in self._hooks[now]:
                module._forward_hooks.clear()
                module._forward_hooks.update(hooks)
            started = time.process_time()
            yield
            self._seconds[now] += time.process_time() - started


def make_spec(folder: Path, signals: list[str], steps: int = STEPS) -> RunSpec:
    path = folder / f"{steps}.npz"
    if not path.is_file():
        rng, count = np.random.default_rng(0), steps * BATCH + 512
        x = {
            f"x_{split}": rng.integers(0, 256, (size, SIDE, SIDE, 3), dtype=np.uint8)
            for split, size in (("train", count), ("test", count // 5))
        }
        y = {name.replace("x", "y"): rng.integers(10, size=len(array)) for name, array in x.items()}
        np.savez(path, **x, **y)
    return RunSpec.from_dict(
        {
            "epochs": 1000,
            "batch": BATCH,
            "data": {"name": "npz", "path": str(path)},
            "noise": {"model": "symmetric-inclusive", "rate": 0.5},
            "architecture": {"name": "cnn", "scale": 0.125},
            "probe": {"holdout_size": 512},
            "signals": signals,
        }
    )


def measure(rounds: int) -> dict[str, dict[str, Any]]:
    names = [name for name in list_signals() if name != SECOND_TRAINING]
    cheap = [name for name in names if name not in (PER_READING, MANY_PROBES)]
    chosen = {name: [name] for name in names} | {"cheap": cheap}
    chosen |= {"nothing": [], SECOND_TRAINING: [SECOND_TRAINING]}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        splits = prepare(make_spec(folder, []))
        runs = {
            key: PairedRun(make_spec(folder, signals), splits, folder / key)
            for key, signals in chosen.items()
        }
        pairs: dict[str, list[tuple[float, float]]] = {key: [] for key in chosen}
        for number in range(rounds + 1):
            for key, run in runs.items():
                # The second training is long, and its ratio is nowhere near a goal.
                if key != SECOND_TRAINING or number < 4:
                    pairs[key].append(run.seconds())
        full = make_spec(folder, [PER_READING], FULL_EPOCH)
        run = PairedRun(full, prepare(full), folder / "full")
        of_full = summary([run.seconds() for _ in range(FULL_ROUNDS + 1)])
    found = {key: summary(each) for key, each in pairs.items()}
    short = {f"over_bare_of_{STEPS}": found[PER_READING]["over_bare"]}
    found[PER_READING] = of_full | {"steps": FULL_EPOCH} | short
    bare = median(a for each in pairs.values() for a, _ in each)
    return found | {"bare": {"seconds": bare, "steps": STEPS}}


def summary(pairs: list[tuple[float, float]]) -> dict[str, Any]:
    ratios = [with_it / without for without, with_it in pairs[1:]]  # the first warms up
    drawn = np.random.default_rng(0).choice(ratios, (10_000, len(ratios)))
    interval = np.quantile(np.median(drawn, axis=1), (0.025, 0.975))
    return {"over_bare": median(ratios), "interval": interval.tolist(), "pairs": len(ratios)}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    warnings.simplefilter("ignore", rote.RoteWarning)
    with make_repeatable(CPU, 1):
        results = measure(rounds)
    for key, figures in results.items():
        print(key, json.dumps({name: np.round(v, 4).tolist() for name, v in figures.items()}))
    each = [name for name in list_signals() if name not in WITHOUT_GOAL]
    goals = dict.fromkeys(each, GOAL) | {"cheap": GOAL_TOGETHER}
    report = {
        "command": " ".join(["python", *sys.argv]),
        "torch": torch.__version__,
        "machine": platform.platform(),
        "cores": os.cpu_count(),
        "load": round(os.getloadavg()[0], 1),
        "goals": goals,
        "results": results,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    found = {key: results[key]["over_bare"] for key in goals}
    missed = [
        f"{key} = {found[key]:.3f}, goal {goals[key]}" for key in goals if found[key] > goals[key]
    ]
    print("missed: " + "; ".join(missed) if missed else "all goals met")


if __name__ == "__main__":
    main()
