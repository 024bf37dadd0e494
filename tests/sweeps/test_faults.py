"""A sweep whose workers, and which itself, are killed again and again ends like one left alone."""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from rote.store import list_runs
from rote.sweeps import SearchSpace
from rote.workloads import train
from tests.sweeps.sweeping import DEADLINE, contents, is_alive, lines, until

ROTE = Path(sys.executable).parent / "rote"
SWEEP = """
[base]
epochs = 30
batch = 32
data = { name = "digits", train_size = 400, test_size = 100 }
noise = { model = "symmetric-inclusive", rate = 0.5 }
architecture = { name = "mlp", options = { width = 32, depth = 2, dropout = 0.2 } }

[grid]
seed = SEEDS
optimizer = [{ name = "sgd", lr = 0.1 }, "adam"]
checkpoints = ["all", { keep = "best", k = 2, metric = "susceptibility", resume_every = 3 }]
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="finds processes in /proc"),
]


def parents() -> dict[int, int]:
    """The parent of every process."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has just ended
            found[int(entry.name)] = int(fields[1])
    return found


def below(process: int) -> set[int]:
    """All processes that a process has started, and those that these have."""
    known = parents()
    found = {process}
    while True:
        more = {child for child, parent in known.items() if parent in found} - found
        if not more:
            return found - {process}
        found |= more


def workers(sweep: int) -> list[int]:
    """Those that train: forked off a process that the sweep has started."""
    known = parents()
    return sorted(child for child in below(sweep) if known.get(child) != sweep)


def readings(store: Path) -> int:
    return sum(lines(run) for run in store.iterdir()) if store.is_dir() else 0


def drafts(store: Path) -> bool:
    """Whether a file is being written at this very moment."""
    return next(store.glob("*/**/*.draft*"), None) is not None


@contextmanager
def sweeping(file: Path, store: Path) -> "Iterator[subprocess.Popen[bytes]]":
    """The sweep, as people start it."""
    command = [ROTE, "sweep", file, "--out", store, "--quiet", "--workers", "2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as sweep:
        try:
            yield sweep
        finally:
            sweep.kill()


def strike(sweep: "subprocess.Popen[bytes]", store: Path, chance: random.Random) -> set[int]:
    """Wait for a moment that the dice choose, and kill a worker, or the sweep.

    Returns:
        All processes of the sweep at that moment; none if the sweep was over before.
    """
    if sweep.poll() is not None:
        return set()
    goal = readings(store) + chance.randint(1, 6)
    in_writing, the_sweep = chance.random() < 0.5, chance.random() < 0.3
    which = chance.random()  # thrown every time, so that the dice fall alike whoever is there
    ends = time.monotonic() + DEADLINE
    while sweep.poll() is None:
        assert time.monotonic() < ends, "waited in vain"
        reached = readings(store)
        if reached >= goal or (in_writing and reached > goal - 4 and drafts(store)):
            crew = workers(sweep.pid)
            if crew:
                everyone = below(sweep.pid)
                try:
                    victim = sweep.pid if the_sweep else crew[int(which * len(crew))]
                    os.kill(victim, signal.SIGKILL)
                except ProcessLookupError:  # it ended between the look and the blow
                    continue
                if the_sweep:
                    sweep.wait(DEADLINE)  # or the dice would be thrown for a dying one, or not
                return everyone
        time.sleep(0.003)
    return set()


def wait_for_the_end_of(processes: set[int]) -> None:
    until(lambda: not any(map(is_alive, processes)))


@pytest.mark.parametrize(
    ("seeds", "deaths"), [([0], 4), pytest.param([0, 1, 2], 24, marks=pytest.mark.full)]
)
def test_a_killed_sweep_resumes_to_the_same_numbers(
    seeds: list[int], deaths: int, tmp_path: Path
) -> None:
    file, calm, stormy = tmp_path / "sweep.toml", tmp_path / "calm", tmp_path / "stormy"
    file.write_text(SWEEP.replace("SEEDS", str(seeds)))
    number = 4 * len(seeds)
    for spec in SearchSpace.from_toml(file):
        train(spec, calm / spec.identity)
    expected = {run.path.name: contents(run.path) for run in list_runs(calm)}
    assert len(expected) == number
    # The first eight blows of this seed hit the sweep five times, and a worker three times.
    chance, kills, starts = random.Random(14), 0, 0
    started: set[int] = set()
    while True:
        starts += 1
        assert starts < 3 * deaths
        with sweeping(file, stormy) as sweep:
            while kills < deaths and (everyone := strike(sweep, stormy, chance)):
                kills += 1
                started |= everyone
            code = sweep.wait(DEADLINE)
        wait_for_the_end_of(started)  # nobody outlives the sweep
        if code == 0:
            break
    assert kills >= 0.8 * deaths
    assert starts > 1
    runs = list_runs(stormy)
    assert [run.state for run in runs] == ["finished"] * number
    assert {run.path.name: contents(run.path) for run in runs} == expected
    assert not list(stormy.glob("*/failure.json"))
    journals = [(run.path / "journal.jsonl").read_text() for run in runs]
    assert sum(journal.count('"kind":"resume"') for journal in journals) >= 0.4 * deaths
