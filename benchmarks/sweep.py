"""How well runs share the cores, and how fast a store of many runs is listed.

Run it with nothing else running: ``python benchmarks/sweep.py``.
"""

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rote.sweeps import LocalExecutor, SearchSpace, Sweep
from rote.version import __version__

RUNS = 8
WORKERS = 2
LISTED = 10_000
SPACE: dict[str, Any] = {
    "base": {
        "batch": 64,
        "data": {"name": "digits"},
        "noise": {"model": "symmetric-inclusive", "rate": 0.5},
        "architecture": {"name": "cnn", "options": {"width": 16, "depth": 3}},
        "checkpoints": "last",
    },
    "grid": {"seed": list(range(RUNS))},
}


def seconds_of_a_sweep(workers: int, epochs: int = 25) -> float:
    """Time the whole sweep, with the start and the end of its processes."""
    space = SearchSpace.from_dict(SPACE | {"base": {**SPACE["base"], "epochs": epochs}})
    with tempfile.TemporaryDirectory() as store:
        began = time.perf_counter()
        progress = Sweep(space, store).run(LocalExecutor(workers))
        assert progress.finished == RUNS
        return time.perf_counter() - began


def measure_sharing(repeats: int) -> dict[str, Any]:
    seconds_of_a_sweep(WORKERS, epochs=1)  # loads torch for the workers of all that follow
    alone, together = [], []
    for _ in range(repeats):  # alternating, so that a change of the machine's mood hits both
        alone.append(seconds_of_a_sweep(1))
        together.append(seconds_of_a_sweep(WORKERS))
    ratios = [both / one for both, one in zip(together, alone, strict=True)]
    return {
        "runs": RUNS,
        "workers": WORKERS,
        "cores": os.cpu_count(),
        "one_after_the_other_seconds": alone,
        "together_seconds": together,
        "ratio": statistics.median(ratios),
        "goal": 0.6,
    }


def make_store(store: Path, runs: int) -> None:
    """Many copies of one real run; two in ten are interrupted, one has failed."""
    spec = {"epochs": 2, "data": {"name": "digits", "train_size": 100}, "architecture": "mlp"}
    model = SearchSpace.from_dict({"base": spec, "grid": {"seed": [0]}})
    Sweep(model, store).run(LocalExecutor(1))
    (first,) = store.iterdir()
    workload = (first / "workload.json").read_text()
    for number in range(1, runs):
        copy = store / f"{number:016x}"
        shutil.copytree(first, copy, ignore=shutil.ignore_patterns("checkpoints"))
        (copy / "checkpoints").mkdir()
        if number % 10 < 2:
            interrupted = workload.replace('"finished": true', '"finished": false')
            (copy / "workload.json").write_text(interrupted)
            (copy / "resume.pt").write_bytes(b"")
        elif number % 10 == 2:
            (copy / "workload.json").unlink()
            (copy / "failure.json").write_text('{"schema": 1, "identity": "x", "error": "?"}')


def measure_listing(runs: int, repeats: int) -> dict[str, Any]:
    command = [str(Path(sys.executable).parent / "rote"), "sweep", "--list"]
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "store"
        make_store(store, runs)
        seconds = []
        for _ in range(repeats):
            began = time.perf_counter()
            done = subprocess.run(
                [*command, str(store)], capture_output=True, text=True, check=True
            )
            seconds.append(time.perf_counter() - began)
        assert done.stdout.splitlines()[-1].startswith(f"{runs} runs: ")
    return {
        "runs": runs,
        "seconds": seconds,
        "median_seconds": statistics.median(seconds),
        "goal_seconds": 1.0,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--listed", type=int, default=LISTED)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    results = {
        "command": " ".join(["python", *sys.argv]),
        "rote": __version__,
        "machine": platform.processor() or platform.machine(),
        "sharing": measure_sharing(arguments.repeats),
        "listing": measure_listing(arguments.listed, arguments.repeats),
    }
    sharing, listing = results["sharing"], results["listing"]
    print(f"{RUNS} runs, {WORKERS} at a time ÷ one after the other: {sharing['ratio']:.3f} (≤ 0.6)")
    print(f"listing of {listing['runs']} runs: {listing['median_seconds']:.2f} s (≤ 1 s)")
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
