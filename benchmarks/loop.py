"""What the training loop costs: our epoch against a bare loop that does the same work.

    python benchmarks/loop.py [CASE ...]

Writes benchmarks/loop.json, if no case is named. The bare loop is written by hand below: normalized
floats in memory, a shuffled index, forward, backward, step; then accuracy on the training and the
test set in eval mode. Figures are ratios within one round, in alternating order, and the median
over rounds; where rounds differ much (``spread``, the middle half), the machine was busy. Time is
the CPU time of this process, which has one thread.

- ``epoch_over_bare``: training and evaluation, the same work as the bare loop in the same layout.
- ``tracked_epoch_over_bare``: the same with everything that rote adds: the probe, predictions on
  the holdout, journal, checkpoint and the state to resume from.
- ``epoch_over_bare_nchw``: against the bare loop with images in torch's plain layout.
"""

import json
import platform
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median, quantiles
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.workloads.data.splits import Splits, prepare
from rote.workloads.evaluation import AT_ONCE
from rote.workloads.loop import RunState, _start_tracking
from rote.workloads.run_folder import RunFolder
from rote.workloads.spec import RunSpec
from rote.workloads.workload import Workload, make_network

CPU = torch.device("cpu")
BATCH = 128
GOALS = {
    "full_epoch": {"epoch_over_bare": 1.03, "tracked_epoch_over_bare": 1.03},
    "cnn": {"epoch_over_bare": 1.03, "epoch_over_bare_nchw": 1.0},
    "resnet18": {"epoch_over_bare": 1.03, "epoch_over_bare_nchw": 1.0},
    "mobilenet": {"epoch_over_bare": 1.03, "epoch_over_bare_nchw": 1.0},
}
NOISE = {"model": "symmetric-inclusive", "rate": 0.5}

CASES: dict[str, dict[str, Any]] = {
    # An epoch of CIFAR's 391 steps, with images and a network small enough for one core.
    "full_epoch": {
        "architecture": {"name": "cnn", "scale": 0.125},
        "steps": 391,
        "side": 16,
        "rounds": 7,
    },
    # The paper's 32×32 networks, narrow, and few steps of them, so that there can be many rounds.
    "cnn": {"architecture": {"name": "cnn", "scale": 0.125}, "steps": 4},
    "resnet18": {"architecture": {"name": "resnet18", "scale": 0.125}, "steps": 4},
    "mobilenet": {"architecture": {"name": "mobilenet", "scale": 0.25}, "steps": 4},
    # Not a goal: the bare loop neither crops nor flips.
    "cnn_augmented": {"architecture": {"name": "cnn", "scale": 0.125}, "steps": 4, "crop": 4},
    # Not a goal: eleven steps of 1 ms, so that everything counts.
    "digits_mlp": {"architecture": {"name": "mlp"}, "steps": None, "rounds": 100},
}


class BareLoop:
    """Training and evaluation by hand."""

    def __init__(self, spec: RunSpec, splits: Splits, layout: torch.memory_format) -> None:
        plain = RunSpec.from_dict(spec.to_dict() | {"channels_last": False})
        self.model: nn.Module = make_network(plain, splits, CPU).to(memory_format=layout)  # type: ignore[call-overload]
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4
        )
        assert splits.test is not None
        assert splits.test_labels is not None
        self.x = splits.train.batch(slice(None)).contiguous(memory_format=layout)
        self.y = splits.labels
        self.x_test = splits.test.batch(slice(None)).contiguous(memory_format=layout)
        self.y_test = splits.test_labels
        self.batch = spec.batch

    def epoch(self) -> None:
        self.model.train()
        for index in torch.randperm(len(self.x)).split(self.batch):  # type: ignore[no-untyped-call]
            self.optimizer.zero_grad()
            cross_entropy(self.model(self.x[index]), self.y[index]).backward()
            self.optimizer.step()
        self.model.eval()
        self.accuracy(self.x, self.y)
        self.accuracy(self.x_test, self.y_test)

    @torch.no_grad()
    def accuracy(self, x: Tensor, y: Tensor) -> float:
        chunks = [self.model(x[start : start + AT_ONCE]) for start in range(0, len(x), AT_ONCE)]
        return float((torch.cat(chunks).argmax(1) == y).float().mean())


class OurLoop:
    """The same epoch by rote, with and without what it records."""

    def __init__(self, spec: RunSpec, splits: Splits, folder: Path) -> None:
        self.workload = Workload(spec, splits, CPU)
        run = RunFolder(folder, spec)
        self.tracker = _start_tracking(self.workload, run)
        self.state = RunState(self.workload, self.tracker, run)
        self.state.begin()
        self.count = 0
        self.evaluated = 0.0
        evaluation: Any = next(one for one in self.tracker.signals if one.name == "evaluation")
        read = evaluation.read

        def timed(epoch: int) -> Mapping[str, float]:
            started = time.process_time()
            found: Mapping[str, float] = read(epoch)
            self.evaluated = time.process_time() - started
            return found

        evaluation.read = timed

    def epoch(self) -> None:
        self.metrics = self.workload.train_epoch(1)

    def record(self) -> None:
        self.count += 1
        reading = self.tracker.probe(**self.metrics)
        self.state.advance(self.count, reading)


def seconds(action: Callable[[], object]) -> float:
    started = time.process_time()
    action()
    return time.process_time() - started


def make_spec(case: dict[str, Any], folder: Path) -> RunSpec:
    data: dict[str, Any] = {"name": "digits"}
    if case["steps"] is not None:
        side, count = case.get("side", 32), case["steps"] * BATCH + 512
        rng = np.random.default_rng(0)
        arrays = {
            f"x_{split}": rng.integers(0, 256, (size, side, side, 3), dtype=np.uint8)
            for split, size in (("train", count), ("test", count // 5))
        }
        labels = {
            name.replace("x", "y"): rng.integers(10, size=len(x)) for name, x in arrays.items()
        }
        np.savez(folder / "data.npz", **arrays, **labels)
        crop = case.get("crop", 0)
        data = {"name": "npz", "path": str(folder / "data.npz"), "crop": crop, "flip": crop > 0}
    return RunSpec.from_dict(
        {
            "epochs": 1000,
            "batch": BATCH,
            "data": data,
            "noise": NOISE,
            "architecture": case["architecture"],
            "probe": {} if case["steps"] is None else {"holdout_size": 512},
        }
    )


def measure(case: dict[str, Any]) -> dict[str, float]:
    count = case.get("rounds", 40)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        spec = make_spec(case, folder)
        splits = prepare(spec)
        ours = OurLoop(spec, splits, folder / "run")
        bare = BareLoop(spec, splits, torch.channels_last)
        nchw = BareLoop(spec, splits, torch.contiguous_format)
        actions = {
            "bare": bare.epoch,
            "nchw": nchw.epoch,
            "ours": ours.epoch,
            "tracking": ours.record,
        }
        rounds = []
        for place in range(1 + count):
            row = time_round(actions, backwards=place % 2 == 1)
            # Accuracies are measured in the probe, but belong to the epoch.
            row |= {"ours": row["ours"] + ours.evaluated}
            rounds.append(row | {"tracking": row["tracking"] - ours.evaluated})
        rounds = rounds[1:]
        ours.tracker.close()
    ratios = [row["ours"] / row["bare"] for row in rounds]
    quarters = quantiles(ratios, n=4)
    return {
        "epoch_over_bare": median(ratios),
        "spread": quarters[2] - quarters[0],
        "tracked_epoch_over_bare": median(
            (row["ours"] + row["tracking"]) / row["bare"] for row in rounds
        ),
        "epoch_over_bare_nchw": median(row["ours"] / row["nchw"] for row in rounds),
        "steps": -(-len(splits.train) // spec.batch),
        "rounds": count,
        "bare_seconds": median(row["bare"] for row in rounds),
    }


def time_round(actions: dict[str, Callable[[], object]], *, backwards: bool) -> dict[str, float]:
    """Every action once; tracking comes after our epoch either way."""
    first = [name for name in actions if name != "tracking"]
    order = [*reversed(first)] if backwards else first
    times = {name: seconds(actions[name]) for name in order}
    return times | {"tracking": seconds(actions["tracking"])}


def main() -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", rote.RoteWarning)
    results = {}
    for name in sys.argv[1:] or CASES:
        results[name] = measure(CASES[name])
        print(name, json.dumps({key: round(value, 4) for key, value in results[name].items()}))
    if len(sys.argv) > 1:
        return
    report = {
        "command": " ".join(["python", *sys.argv]),
        "torch": torch.__version__,
        "machine": platform.platform(),
        "goals": GOALS,
        "results": results,
    }
    Path(__file__).with_suffix(".json").write_text(json.dumps(report, indent=2) + "\n")
    missed = [
        f"{name}: {key} = {results[name][key]:.3f}, goal {goal}"
        for name, goals in GOALS.items()
        for key, goal in goals.items()
        if results[name][key] > goal
    ]
    print("missed: " + "; ".join(missed) if missed else "all goals met")


if __name__ == "__main__":
    main()
