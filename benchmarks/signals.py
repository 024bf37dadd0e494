"""What signals cost: an epoch with each of them against the same epoch without.

    python benchmarks/signals.py

Writes benchmarks/signals.json; two minutes on an idle core. An epoch is training, evaluation, the
probe, and the journal; every run trains the same network on the same batches. Figures are ratios
in one round, in alternating order, to the mean of the bare epochs before and after, and the median
over rounds (``spread``: the middle half). Time is the CPU time of this process, which has one
thread.

- ``NAME``: with that signal alone.
- ``cheap``: with all that add no pass through the network.

An epoch here has 48 steps of 128 samples, and what a signal costs goes by samples; so the ratio is
that of any length. But ``gradient_disparity`` costs five batches per reading: its
``over_bare_of_391_steps`` is that of an epoch of 391, as CIFAR has, and that has the goal. ``pmv``
is a second training: it has none.
"""

import json
import platform
import sys
import tempfile
import time
import warnings
from pathlib import Path
from statistics import mean, median, quantiles

import numpy as np
import torch

import rote
from rote.tracking import signal_names
from rote.workloads.data.splits import Splits, prepare
from rote.workloads.devices import repeatable
from rote.workloads.loop import _start_tracking
from rote.workloads.run_folder import RunFolder
from rote.workloads.spec import RunSpec
from rote.workloads.workload import Workload

CPU = torch.device("cpu")
BATCH, STEPS, SIDE, ROUNDS = 128, 48, 16, 9
FULL_EPOCH = 391
PER_READING, SECOND_TRAINING = "gradient_disparity", "pmv"
GOAL, GOAL_TOGETHER = 1.02, 1.05


class Loop:
    """Epochs of a run with some signals."""

    def __init__(self, spec: RunSpec, splits: Splits, folder: Path) -> None:
        self._workload = Workload(spec, splits, CPU)
        self._tracker = _start_tracking(self._workload, RunFolder(folder, spec))
        self._epoch = 0

    def seconds(self) -> float:
        self._epoch += 1
        started = time.process_time()
        self._tracker.probe(**self._workload.train_epoch(self._epoch, self._tracker))
        return time.process_time() - started


def make_spec(folder: Path, signals: list[str]) -> RunSpec:
    path = folder / "data.npz"
    if not path.is_file():
        rng, count = np.random.default_rng(0), STEPS * BATCH + 512
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
            "probe": {"pool_size": 512},
            "signals": signals,
        }
    )


def measure(rounds: int) -> dict[str, dict[str, float]]:
    names = [name for name in signal_names() if name != SECOND_TRAINING]
    chosen = {name: [name] for name in names} | {"cheap": [n for n in names if n != PER_READING]}
    chosen[SECOND_TRAINING] = [SECOND_TRAINING]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        splits = prepare(make_spec(folder, []))
        loops = {
            key: Loop(make_spec(folder, signals), splits, folder / key)
            for key, signals in ({"bare": list[str]()} | chosen).items()
        }
        ratios: dict[str, list[float]] = {key: [] for key in chosen}
        bare = [loops["bare"].seconds() for _ in range(2)][1:]
        for number in range(rounds + 1):
            # The second training is long, and its ratio is nowhere near a goal.
            keys = [key for key in chosen if key != SECOND_TRAINING or number < 3]
            times = {key: loops[key].seconds() for key in keys[:: 1 if number % 2 else -1]}
            bare.append(loops["bare"].seconds())
            for key, mine in times.items():
                ratios[key].append(mine / mean(bare[-2:]))
    found = {key: summary(values[1:]) for key, values in ratios.items()}  # the first warms up
    extra = (found[PER_READING]["over_bare"] - 1) * STEPS / FULL_EPOCH
    found[PER_READING][f"over_bare_of_{FULL_EPOCH}_steps"] = 1 + extra
    return found | {"bare": {"seconds": median(bare), "steps": STEPS}}


def summary(ratios: list[float]) -> dict[str, float]:
    quarters = quantiles(ratios, n=4)
    return {"over_bare": median(ratios), "spread": quarters[2] - quarters[0]}


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    warnings.simplefilter("ignore", rote.RoteWarning)
    with repeatable(CPU, 1):
        results = measure(rounds)
    for key, figures in results.items():
        print(key, json.dumps({k: round(v, 4) for k, v in figures.items()}))
    each = [name for name in signal_names() if name != SECOND_TRAINING]
    goals = dict.fromkeys(each, GOAL) | {"cheap": GOAL_TOGETHER}
    report = {
        "command": " ".join(["python", *sys.argv]),
        "torch": torch.__version__,
        "machine": platform.platform(),
        "goals": goals,
        "results": results,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    found = {key: [*results[key].values()][-1 if key == PER_READING else 0] for key in goals}
    missed = [
        f"{key} = {found[key]:.3f}, goal {goals[key]}" for key in goals if found[key] > goals[key]
    ]
    print("missed: " + "; ".join(missed) if missed else "all goals met")


if __name__ == "__main__":
    main()
