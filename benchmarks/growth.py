"""Long runs: reading 900,000 readings, and a tracker's state after 100,000 of them.

Writes runs of several lengths into a temporary directory. Reads them with ``read_run``, resumes a
tracker after them, and saves its state, each in a process of its own. Prints the figures and writes
them to ``benchmarks/growth.json``::

    python benchmarks/growth.py
"""

import argparse
import io
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rote.store import RunDirectory

MOST_SECONDS = 10.0
READ = (9_000, 90_000, 900_000)
TRACKED = (1_000, 10_000, 100_000)
HOLDOUT = 2_000


def append_readings(directory: "RunDirectory", length: int, **extra: Any) -> None:  # noqa: ANN401
    """Write so many readings as a tracker does, and close the run."""
    from rote.records import Reading

    metrics = {"train_accuracy": 0.5, "test_accuracy": 0.4}
    for row in range(length):
        values = (row + 1, 1.1 + row / 7, 1.0 + row / 7, 0.1, 0.1, 0.09)
        reading = Reading(*values, validation_accuracy=0.3, metrics=metrics, **extra)
        directory.append(reading, row)
    directory.close()


def write_run(length: int, folder: Path) -> dict[str, Any]:
    """Write a run for ``measure_reading``."""
    from rote.store import RunDirectory

    started = time.process_time()
    description = {"name": "long", "num_classes": 10, "holdout": None}
    append_readings(RunDirectory.create(folder / f"read-{length}", description), length)
    return {"append_cpu_microseconds": 1e6 * (time.process_time() - started) / length}


def measure_reading(length: int, folder: Path) -> dict[str, Any]:
    """Read a run of so many readings."""
    from rote.store import read_run

    started, busy = time.perf_counter(), time.process_time()
    found = len(read_run(folder / f"read-{length}").readings)
    assert found == length
    return {
        "seconds": time.perf_counter() - started,
        "cpu_seconds": time.process_time() - busy,
        "cpu_microseconds_per_reading": 1e6 * (time.process_time() - busy) / length,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


def measure_state(length: int, folder: Path) -> dict[str, Any]:
    """Resume a tracker with a run directory after so many readings, and save its state."""
    import numpy as np
    import torch

    import rote
    from rote.store import RunDirectory

    def track(*, resume: bool) -> rote.Tracker:
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 3)
        return rote.track(
            model,
            torch.optim.SGD(model.parameters(), lr=0.01),
            inputs=torch.randn(HOLDOUT, 4),
            num_classes=3,
            given_labels=torch.arange(HOLDOUT) % 3,
            save_to=run,
            resume=resume,
        )

    run = folder / f"tracked-{length}"
    track(resume=False).close()
    append_readings(RunDirectory.reopen(run), length, predictions=np.zeros(HOLDOUT, np.uint8))
    started = time.perf_counter()
    tracker = track(resume=True)
    resumed = time.perf_counter()
    assert len(tracker.readings) == length
    file = io.BytesIO()
    torch.save(tracker.state_dict(), file)
    saved = time.perf_counter() - resumed
    tracker.close()
    return {
        "resume_seconds": resumed - started,
        "save_seconds": saved,
        "state_bytes": len(file.getvalue()),
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }


MEASURES: dict[str, Callable[[int, Path], dict[str, Any]]] = {
    "write": write_run,
    "read": measure_reading,
    "state": measure_state,
}


def measure_apart(kind: str, length: int, folder: Path) -> dict[str, Any]:
    """Return a measurement that was made in a fresh process."""
    command = [sys.executable, __file__, "--measure", kind, str(length), str(folder)]
    environment = os.environ | {"ROTE_FSYNC": "0", "OMP_NUM_THREADS": "1"}
    ended = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def run_all(folder: Path, repeats: int) -> dict[str, Any]:
    """Measure every length; of repeats the fastest counts."""
    written = {str(length): measure_apart("write", length, folder) for length in READ}
    reads = {
        str(length): written[str(length)]
        | min(
            (measure_apart("read", length, folder) for _ in range(repeats)),
            key=lambda result: float(result["seconds"]),
        )
        for length in READ
    }
    states = {str(length): measure_apart("state", length, folder) for length in TRACKED}
    longest, shortest = reads[str(READ[-1])], reads[str(READ[0])]
    sizes = [result["state_bytes"] for result in states.values()]
    per_reading = "cpu_microseconds_per_reading"
    return {
        "command": " ".join(["python", "benchmarks/growth.py", *sys.argv[1:]]),
        "goal": {"seconds_of_900000": MOST_SECONDS, "state_grows_by": 1.0},
        "machine": {"cores": os.cpu_count(), "platform": platform.platform()},
        "load_average_at_end": [round(load, 2) for load in os.getloadavg()],
        "read_run": reads,
        "state": states,
        "cost_per_reading_grows_by": longest[per_reading] / shortest[per_reading],
        "state_grows_by": max(sizes) / min(sizes),
        "within_goal": longest["seconds"] <= MOST_SECONDS and max(sizes) <= 1.01 * min(sizes),
    }


def main() -> None:
    """Parse, measure, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--out", type=Path, default=Path(__file__).with_suffix(".json"))
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.measure:
        kind, length, folder = arguments.measure
        print(json.dumps(MEASURES[kind](int(length), Path(folder))))
        return
    with tempfile.TemporaryDirectory() as folder:
        results = run_all(Path(folder), arguments.repeats)
    print(json.dumps(results, indent=2))
    arguments.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
