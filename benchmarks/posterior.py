"""The posterior rule on many runs: seconds, peak memory, and no torch.

Writes a store of 1,000 runs with 100 checkpoints and a holdout of 512 samples in 10 classes into a
temporary directory, measures ``rote.selection.select`` on it in a process of its own, prints the
figures and writes them to ``benchmarks/posterior.json``::

    python benchmarks/posterior.py
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from rote.records import Reading
from rote.store import RunDirectory

CLASSES, SAMPLES = 10, 512
GOAL_BYTES, GOAL_SECONDS = 2 << 30, 10.0


def write_store(store: Path, runs: int, length: int) -> None:
    """Write runs of growing skill; two labels in five are wrong."""
    os.environ["ROTE_FSYNC"] = "0"
    rng = np.random.default_rng(0)
    truth = rng.integers(CLASSES, size=SAMPLES)
    other = (truth + rng.integers(1, CLASSES, size=SAMPLES)) % CLASSES
    given = np.where(rng.random(SAMPLES) < 0.4, other, truth)
    skill = np.linspace(0.3, 0.8, length)[:, None]
    for number in range(runs):
        description = {
            "name": f"run-{number:04d}",
            "num_classes": CLASSES,
            "given_labels": " ".join(map(str, given)),
            "holdout": {"size": SAMPLES, "hash": "h", "predictions": [SAMPLES]},
        }
        run = RunDirectory.create(store / f"run-{number:04d}", description)
        is_right = rng.random((length, SAMPLES)) < skill
        predicted = np.where(is_right, truth, rng.integers(CLASSES, size=(length, SAMPLES)))
        for row, classes in enumerate(predicted.astype(np.uint8)):
            metrics = {"train_accuracy": row / length}
            entry = Reading(row + 1, 2.0, 1.0, 1.0, 1.0, 0.5, metrics=metrics)
            run.append(replace(entry, predictions=classes), row)
        run.close()


def measure(store: str) -> dict[str, Any]:
    """Read and select in this process."""
    from rote.selection import select
    from rote.store import read_table

    table = read_table(store)
    read = time.process_time()
    selection = select(table, "posterior")
    ended = time.process_time()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": len(table.frame),
        "select_cpu_seconds": ended - read,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "torch_imported": "torch" in sys.modules,
        "pick": selection.to_json()["pick"],
        "noise_rate": selection.noise_rate,
    }


def main() -> None:
    """Write, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--store", type=Path, help="keep the store here")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure)))
        return
    with tempfile.TemporaryDirectory() as folder:
        store = arguments.store or Path(folder) / "store"
        if not store.exists():
            write_store(store, arguments.runs, arguments.length)
        command = [sys.executable, __file__, "--measure", str(store)]
        started = time.perf_counter()
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        found = {"seconds": time.perf_counter() - started, **json.loads(ended.stdout)}
    is_within = found["seconds"] <= GOAL_SECONDS and found["peak_bytes"] <= GOAL_BYTES
    figures = {
        "command": " ".join(["python", "benchmarks/posterior.py", *sys.argv[1:]]),
        "machine": platform.platform(),
        "goal": {"seconds": GOAL_SECONDS, "peak_bytes": GOAL_BYTES},
        **found,
        "within_goal": is_within,
    }
    print(json.dumps(figures, indent=1))
    arguments.out.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
