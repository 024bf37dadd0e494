"""Reading and selecting among a million checkpoints: seconds, peak memory, and no torch.

Writes two stores (5,000 runs of 200 checkpoints, and one run of a million) into a temporary
directory, measures ``rote.selection.select`` on each in processes of their own, prints the figures
and writes them to ``benchmarks/select.json``::

    python benchmarks/select.py
"""

import sys
from importlib.machinery import PathFinder
from importlib.util import module_from_spec

if __name__ == "select":
    # A script in this folder wants the standard library's module of the same name: hand it over.
    spec = PathFinder.find_spec("select", [path for path in sys.path if path != sys.path[0]])
    assert spec is not None
    assert spec.loader is not None
    sys.modules["select"] = module_from_spec(spec)
    spec.loader.exec_module(sys.modules["select"])

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from rote.records import Reading
from rote.store.schema import line_of_reading

ROWS = 1_000_000
GOAL_SECONDS, GOAL_BYTES = 3.0, 1 << 30
LAYOUTS = {"5000 runs x 200": 200, "1 run x 1000000": ROWS}
METRICS = ("train_accuracy", "test_accuracy", "clean_accuracy", "noisy_accuracy")
BLOCK = 10_000


def template() -> str:
    """A line of the journal as rote writes it, with %s where its numbers go."""
    reading = Reading(1, *[0.0] * 5, *[0.0] * 5, seconds=0.0, metrics=dict.fromkeys(METRICS, 0.0))
    line = line_of_reading(reading)
    marked = {
        name: value if name in ("schema", "kind", "flags") else "%s" for name, value in line.items()
    }
    return json.dumps(marked, separators=(",", ":")).replace('"%s"', "%s") + "\n"


def blocks(rows: int) -> Any:  # noqa: ANN401
    """Numbers of every line but the step, in full precision, ``BLOCK`` lines at a time."""
    rng = np.random.default_rng(0)
    for _ in range(0, rows, BLOCK):
        values = rng.random((BLOCK, 15))
        values[:, 0] += 2.0
        for column, samples in ((9, 512), (11, 45_000), (12, 10_000)):
            values[:, column] = np.round(values[:, column] * samples) / samples
        yield values.tolist()


def write_store(store: Path, length: int, rows: int) -> int:
    """Write ``rows`` checkpoints in runs of ``length``; returns the size of the journals."""
    line, written, size = template(), 0, 0
    file = None
    for block in blocks(rows):
        for values in block:
            step = written % length + 1
            if step == 1:
                run = store / f"run-{written // length:05d}"
                run.mkdir(parents=True)
                description = {"schema": 1, "name": run.name, "num_classes": 10, "pool": None}
                (run / "run.json").write_text(json.dumps(description))
                if file is not None:
                    file.close()
                file = (run / "journal.jsonl").open("w")
            assert file is not None
            size += file.write(line % (step, *values))
            written += 1
    if file is not None:
        file.close()
    return size


def measure(store: str, rule: str) -> dict[str, Any]:
    """Read and select in this process."""
    started = time.perf_counter()
    from rote.selection import select
    from rote.store.table import read_table

    imported = time.perf_counter()
    table = read_table(store)
    read = time.perf_counter()
    selection = select(table, rule)
    ended = time.perf_counter()
    return {
        "rows": len(table.frame),
        "import_seconds": imported - started,
        "read_seconds": read - imported,
        "select_seconds": ended - read,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "torch_imported": "torch" in sys.modules,
        "pick": selection.to_json()["pick"],
    }


def measure_apart(store: Path, rule: str, repeats: int) -> dict[str, Any]:
    """The same in fresh processes; the whole life of each, from start to exit, is counted."""
    results = []
    for _ in range(repeats):
        started = time.perf_counter()
        command = [sys.executable, __file__, "--measure", str(store), "--rule", rule]
        ended = subprocess.run(command, check=True, capture_output=True, text=True)
        seconds = time.perf_counter() - started
        results.append({"seconds": seconds, **json.loads(ended.stdout)})
    best = min(results, key=lambda result: result["seconds"])
    return best | {
        "seconds_of_every_repeat": [round(result["seconds"], 3) for result in results],
        "peak_bytes": max(result["peak_bytes"] for result in results),
        "within_goal": best["seconds"] <= GOAL_SECONDS and best["peak_bytes"] <= GOAL_BYTES,
    }


def run_all(rows: int, repeats: int, rule: str) -> dict[str, Any]:
    """Every layout, one after the other."""
    layouts = {}
    for name, length in LAYOUTS.items():
        with tempfile.TemporaryDirectory() as folder:
            size = write_store(Path(folder), min(length, rows), rows)
            result = measure_apart(Path(folder), rule, repeats) | {"journal_bytes": size}
        layouts[name] = result
        print(
            f"{name}: {result['seconds']:.2f} s (read {result['read_seconds']:.2f}, select "
            f"{result['select_seconds']:.2f}), {result['peak_bytes'] / 2**20:.0f} MiB, "
            f"torch imported: {result['torch_imported']}"
        )
    return {
        "command": " ".join(["python", "benchmarks/select.py", *sys.argv[1:]]),
        "goal": {"seconds": GOAL_SECONDS, "peak_bytes": GOAL_BYTES},
        "rule": rule,
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "load_average": round(math.fsum(os.getloadavg()) / 3, 2),
        "layouts": layouts,
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rule", default="regions")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.rule)))
        return
    results = run_all(arguments.rows, arguments.repeats, arguments.rule)
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
