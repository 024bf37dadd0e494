"""Reading and selecting among millions of checkpoints: seconds, peak memory, and no torch.

Writes stores (5,000 runs of 200 checkpoints, one of a million, 20,000 of 100) into a temporary
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
import os
import platform
import resource
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from rote.records import Reading
from rote.store import encode_reading
from rote.store.journal import FileSoFar, encode_line

GOAL_BYTES = 1 << 30
LAYOUTS = {
    "5000 runs x 200": {"runs": 5_000, "length": 200, "most_seconds": 3.0},
    "1 run x 1000000": {"runs": 1, "length": 1_000_000, "most_seconds": 3.0},
    "20000 runs x 100": {"runs": 20_000, "length": 100, "most_seconds": 4.0},
}
METRICS = ("train_accuracy", "test_accuracy", "clean_accuracy", "noisy_accuracy")
BLOCK = 10_000


def template() -> str:
    """Return a line of the journal as rote writes it, with %s where its numbers go."""
    reading = Reading(1, *[0.0] * 5, *[0.0] * 5, seconds=0.0, metrics=dict.fromkeys(METRICS, 0.0))
    line = encode_reading(reading)
    marked = {
        name: value if name in ("schema", "kind", "flags") else "%s" for name, value in line.items()
    }
    text = json.dumps(marked, separators=(",", ":")).replace('"%s"', "%s")
    shape = encode_line(line | {"row": 0}, FileSoFar())[0].decode().split(".")[-3]
    return f'{text[:-1]},"row":%d,"#":"%08x.{shape}.'


def blocks(rows: int) -> Any:  # noqa: ANN401
    """Numbers of every line but the step, in full precision, ``BLOCK`` lines at a time."""
    rng = np.random.default_rng(0)
    for _ in range(0, rows, BLOCK):
        values = rng.random((BLOCK, 15))
        values[:, 0] += 2.0
        for column, samples in ((9, 512), (11, 45_000), (12, 10_000)):
            values[:, column] = np.round(values[:, column] * samples) / samples
        yield values.tolist()


def write_store(store: Path, length: int, rows: int) -> None:
    """Write ``rows`` checkpoints in runs of ``length``."""
    line, written, before = template(), 0, 0
    file = None
    for block in blocks(rows):
        for values in block:
            step = written % length + 1
            if step == 1:
                run = store / f"run-{written // length:05d}"
                run.mkdir(parents=True)
                description = {"schema": 1, "name": run.name, "num_classes": 10, "holdout": None}
                (run / "run.json").write_text(json.dumps(description))
                if file is not None:
                    file.close()
                file = (run / "journal.jsonl").open("wb")
            assert file is not None
            before = 0 if step == 1 else before
            data = (line % (step, *values, step - 1, step)).encode()
            data += b"%08x" % crc32(data, before)
            data += b'.%08x"}\n' % crc32(data)
            file.write(data)
            before = crc32(data, before)
            written += 1
    if file is not None:
        file.close()


def measure(store: str, rule: str) -> dict[str, Any]:
    """Read and select in this process."""
    started = time.perf_counter()
    from rote.selection import select
    from rote.store import read_table

    imported = time.perf_counter()
    table = read_table(store)
    read = time.perf_counter()
    selection = select(table, rule)
    ended = time.perf_counter()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return {
        "rows": len(table.frame),
        "import_seconds": imported - started,
        "read_seconds": read - imported,
        "select_seconds": ended - read,
        "cpu_seconds": usage.ru_utime + usage.ru_stime,
        "peak_bytes": usage.ru_maxrss * 1024,
        "torch_imported": "torch" in sys.modules,
        "pick": selection.to_json()["pick"],
    }


def measure_apart(store: Path, rule: str) -> dict[str, Any]:
    """Return the same in a fresh process; its whole life, from start to exit, is counted."""
    command = [sys.executable, __file__, "--measure", str(store), "--rule", rule]
    started = time.perf_counter()
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return {"seconds": time.perf_counter() - started, **json.loads(ended.stdout)}


def best_of(results: list[dict[str, Any]], store: Path, most_seconds: float) -> dict[str, Any]:
    """Return the fastest repeat and the largest memory."""
    best = min(results, key=lambda result: float(result["seconds"]))
    peak = max(result["peak_bytes"] for result in results)
    return best | {
        "peak_bytes": peak,
        "seconds_of_every_repeat": [round(result["seconds"], 2) for result in results],
        "cpu_seconds_of_every_repeat": [round(result["cpu_seconds"], 2) for result in results],
        "journal_bytes": sum(path.stat().st_size for path in store.rglob("journal.jsonl")),
        "most_seconds": most_seconds,
        "within_goal": best["seconds"] <= most_seconds and peak <= GOAL_BYTES,
    }


def run_all(folder: Path, names: list[str], repeats: int, rule: str) -> dict[str, Any]:
    """Every layout, in turns."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    stores = {name: folder / name.replace(" ", "-") for name in names}
    for name, store in stores.items():
        length = int(LAYOUTS[name]["length"])
        if not store.exists():
            write_store(store, length, int(LAYOUTS[name]["runs"]) * length)
    for _ in range(repeats):
        for name, store in stores.items():
            found[name].append(measure_apart(store, rule))
    return {
        "command": " ".join(["python", "benchmarks/select.py", *sys.argv[1:]]),
        "goal": {"peak_bytes": GOAL_BYTES},
        "rule": rule,
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "load_average_at_end": [round(load, 2) for load in os.getloadavg()],
        "layouts": {
            name: best_of(results, stores[name], LAYOUTS[name]["most_seconds"])
            for name, results in found.items()
        },
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=LAYOUTS, help="some of the layouts")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rule", default="regions")
    parser.add_argument("--stores", type=Path, help="keep the stores here, and use them again")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        print(json.dumps(measure(arguments.measure, arguments.rule)))
        return
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.stores or Path(temporary)
        names = arguments.only or list(LAYOUTS)
        results = run_all(folder, names, arguments.repeats, arguments.rule)
    for name, result in results["layouts"].items():
        print(
            f"{name}: {result['seconds']:.2f} s (read {result['read_seconds']:.2f}, select "
            f"{result['select_seconds']:.2f}; {result['cpu_seconds']:.2f} s of processor time), "
            f"{result['peak_bytes'] / 2**20:.0f} MiB, torch imported: {result['torch_imported']}"
        )
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
