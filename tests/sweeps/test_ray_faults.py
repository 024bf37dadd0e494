"""A sweep on a cluster that loses workers and a node ends as if nothing had happened."""

import os
import random
import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from rote.store import CLAIM_FILE, JOURNAL_FILE, STATE_FILE, is_locked
from rote.sweeps.executor import Event, Lost
from rote.sweeps.progress import Progress
from rote.sweeps.ray_executor import RayExecutor
from rote.sweeps.sweep import Sweep
from rote.workloads import RunSpec, train
from tests.sweeps.ray_cluster import DATA, HEAD_CPUS, add_node, cluster
from tests.sweeps.sweeping import contents, lines, owner, until

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("ray")]

NODE_CPUS = 2
BEFORE, KILLS = 1, 2  # runs that are over before the node goes; workers that are killed after it
RESUME_EVERY = 10
SPECS = [
    RunSpec.from_dict(
        {
            "epochs": 90,
            "batch": 32,
            "seed": seed,
            "data": {"name": "digits", "train_size": 200, "test_size": 50},
            "noise": {"model": "symmetric-inclusive", "rate": 0.5},
            "architecture": {"name": "mlp", "options": {"width": 32, "depth": 1}},
            "optimizer": optimizer,
            "probe": {"holdout_size": 40, "batch": 32},
            "checkpoints": {"keep": "last", "resume_every": RESUME_EVERY},
        }
    )
    for seed in range(3)
    for optimizer in ({"name": "sgd", "lr": 0.1}, {"name": "adam", "lr": 0.002})
]


def state_of(process: int) -> list[str]:
    """Letter of its state, its parent, and so on; nothing if there is no such process."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def held(run: Path) -> Iterator[int]:
    """Hold the process that trains a run, if it is caught in the middle, where the run can go on.

    Looking and killing takes time, in which a run may end. This one does not.
    """
    if lines(run) < RESUME_EVERY or not is_locked(run / CLAIM_FILE):
        return
    process = owner(run)
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGSTOP)
        until(lambda: state_of(process)[:1] in (["T"], ["Z"], []))
        if is_locked(run / CLAIM_FILE) and owner(run) == process and (run / STATE_FILE).is_file():
            yield process
        else:
            os.kill(process, signal.SIGCONT)


class Fate:
    """Takes a node away in the middle of a sweep, and then kills one worker after the other."""

    def __init__(self) -> None:
        self.losses: list[Lost] = []
        self.kills = 0
        self.victims: dict[Path, int] = {}  # what was running on the node
        self.deaths: Counter[Path] = Counter()  # those that a run resumes after
        self._random = random.Random(0)
        self._node = add_node(NODE_CPUS)

    def __call__(self, progress: Progress, event: Event | None) -> None:
        if isinstance(event, Lost):
            self.losses.append(event)
        if len(self.losses) < len(self.victims) + self.kills or progress.finished < BEFORE:
            return
        under_way = {run: process for run in sorted(progress.running) for process in held(run)}
        if not self.victims:
            self._take_the_node(under_way)
        elif self.kills < KILLS and under_way:
            run = self._random.choice(list(under_way))
            self._kill(run, under_way.pop(run))
            self.kills += 1
        for process in under_way.values():
            os.kill(process, signal.SIGCONT)

    def _take_the_node(self, under_way: dict[Path, int]) -> None:
        raylet = str(self._node.all_processes["raylet"][0].process.pid)
        there = [run for run, process in under_way.items() if state_of(process)[1] == raylet]
        self.victims = {run: under_way.pop(run) for run in there}
        if self.victims:
            cluster().remove_node(self._node, allow_graceful=False)
        for run, process in self.victims.items():  # as on a machine that is switched off
            self._kill(run, process)

    def _kill(self, run: Path, process: int) -> None:
        if count_resumes(run) == self.deaths[run]:  # else it died before it had resumed
            self.deaths[run] += 1
        os.kill(process, signal.SIGKILL)


def count_resumes(run: Path) -> int:
    return (run / JOURNAL_FILE).read_text().count('"kind":"resume"')


@pytest.mark.slow
def test_a_sweep_that_loses_a_node_and_workers_ends_bit_for_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster()
    monkeypatch.setenv("ROTE_DATA", DATA)
    fate = Fate()
    executor = RayExecutor(attempts=20)
    assert executor.workers == HEAD_CPUS + NODE_CPUS
    progress = Sweep(SPECS, tmp_path / "store").run(executor, fate)
    assert progress.finished == len(SPECS) == 6
    assert not progress.failed
    assert fate.victims
    assert fate.kills == KILLS
    assert len(fate.losses) >= len(fate.victims) + KILLS
    until(lambda: executor.workers == HEAD_CPUS)  # Ray gives a silent node some seconds
    reasons = [loss.reason for loss in fate.losses if loss.job.path in fate.victims]
    assert any("node it was running on" in reason for reason in reasons)
    assert [path for path in (tmp_path / "store").iterdir() if path.name.startswith(".")] == []
    for spec in SPECS:
        run, undisturbed = tmp_path / "store" / spec.identity, tmp_path / "undisturbed"
        train(spec, undisturbed / spec.identity)
        assert contents(run) == contents(undisturbed / spec.identity)
        assert count_resumes(run) >= fate.deaths[run]
    assert fate.deaths.keys() >= fate.victims.keys()
