"""Small sweeps, and what can be seen of them from outside."""

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rote.store import CLAIM_FILE, JOURNAL_FILE, read_predictions, read_run
from rote.sweeps.executor import Event, Job
from rote.workloads.spec import RunSpec
from tests.workloads.small_runs import numbers, small_spec

DEADLINE = 300.0  # seconds; far more than anything here takes, also on a busy machine


def job_of(store: Path, **changes: Any) -> Job:
    """A run of milliseconds."""
    spec = small_spec(**changes)
    return Job(spec, store / spec.identity)


def until(condition: Callable[[], bool]) -> None:
    """Wait for another process."""
    ends = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < ends, "waited in vain"
        time.sleep(0.01)


def in_time(events: Iterator[Event | None]) -> Iterator[Event | None]:
    """The events, as long as there is hope."""
    ends = time.monotonic() + DEADLINE
    for event in events:
        yield event
        assert time.monotonic() < ends, "waited in vain"


def lines(run: Path) -> int:
    """How much of a run is in its journal."""
    journal = run / JOURNAL_FILE
    return journal.read_bytes().count(b"\n") if journal.is_file() else 0


def owner(run: Path) -> int:
    """The process that has the run, as it says itself once it has come to that."""
    until(lambda: _names_a_process(run) is not None)
    found = _names_a_process(run)
    assert found is not None
    return int(found[1])


def _names_a_process(run: Path) -> "re.Match[str] | None":
    return re.match(r"process (\d+) on ", (run / CLAIM_FILE).read_text())


def is_alive(process: int) -> bool:
    """Whether a process runs; one that is dead and not yet buried does not."""
    status = Path(f"/proc/{process}/stat")
    try:
        os.kill(process, 0)
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"
    except (ProcessLookupError, FileNotFoundError):  # also while its status was read
        return False


def contents(run: Path) -> dict[str, Any]:
    """Everything of a run that must not depend on what happened to it: all bits but the times."""
    record = read_run(run)
    predictions = read_predictions(record)
    return {
        "readings": repr(numbers(record.readings)),
        "predictions": None if predictions is None else predictions.tobytes(),
        "checkpoints": {
            file.name: file.read_bytes()
            for file in sorted((run / "checkpoints").glob("*.safetensors"))
        },
        "workload": (run / "workload.json").read_bytes(),
        "spec": RunSpec.from_toml(run / "spec.toml"),
    }
