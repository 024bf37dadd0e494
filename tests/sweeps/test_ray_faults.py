"""A sweep on a cluster that loses workers and a node ends as if nothing had happened."""

import os
import random
import re
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from rote.store.run_directory import CLAIM_FILE
from rote.sweeps.executor import Event, Lost
from rote.sweeps.progress import Progress
from rote.sweeps.ray_executor import RayExecutor
from rote.sweeps.sweep import Sweep
from rote.workloads import RunSpec, train
from tests.sweeps.ray_cluster import HEAD_CPUS, add_node, cluster
from tests.sweeps.sweeping import contents, is_alive, lines

BEFORE, KILLS = 2, 3  # runs that are over before the node goes; workers that are killed after it
SPECS = [
    RunSpec.from_dict(
        {
            "epochs": 120,
            "batch": 32,
            "seed": seed,
            "data": {"name": "digits", "train_size": 200, "test_size": 50},
            "noise": {"model": "symmetric-inclusive", "rate": 0.5},
            "architecture": {"name": "mlp", "options": {"width": width, "depth": 1}},
            "optimizer": optimizer,
            "probe": {"pool_size": 40, "batch": 32},
            "checkpoints": {"keep": "last", "resume_every": 10},
        }
    )
    for seed in range(3)
    for width in (16, 48)
    for optimizer in ({"name": "sgd", "lr": 0.1}, {"name": "adam", "lr": 0.002})
]


def workers_of(run: Path) -> list[int]:
    """The living process that trains a run, if it has come so far; its name may be half written."""
    if lines(run) < 2:
        return []
    found = re.match(r"process (\d+) on ", (run / CLAIM_FILE).read_text())
    return [int(found[1])] if found is not None and is_alive(int(found[1])) else []


class Fate:
    """Takes a node away in the middle of a sweep, and then kills one worker after the other."""

    def __init__(self) -> None:
        self.losses: list[Lost] = []
        self.kills = 0
        self.is_node_gone = False
        self._random = random.Random(0)
        self._node = add_node(2)

    def __call__(self, progress: Progress, event: Event | None) -> None:
        if isinstance(event, Lost):
            self.losses.append(event)
        under_way = [process for run in progress.running for process in workers_of(run)]
        if not under_way or progress.finished < BEFORE + self.kills:
            return
        if not self.is_node_gone and len(progress.running) > HEAD_CPUS:
            cluster().remove_node(self._node, allow_graceful=False)
            self.is_node_gone = True
        elif self.is_node_gone and self.kills < KILLS:
            with suppress(ProcessLookupError):
                os.kill(self._random.choice(under_way), signal.SIGKILL)
                self.kills += 1


@pytest.mark.xdist_group("ray")
@pytest.mark.slow
def test_a_sweep_that_loses_a_node_and_workers_ends_bit_for_bit(tmp_path: Path) -> None:
    cluster()
    fate = Fate()
    executor = RayExecutor(attempts=20)
    assert executor.workers == HEAD_CPUS + 2
    progress = Sweep(SPECS, tmp_path / "store").run(executor, fate)
    # A worker that dies between its run's end and its word leaves a run that is over.
    assert progress.finished + progress.skipped == len(SPECS) == 12
    assert not progress.failed
    # How many blows fit in, which of them hit a run, and what Ray says of it depends on the moment.
    assert fate.is_node_gone
    assert fate.kills
    assert fate.losses
    assert [path for path in (tmp_path / "store").iterdir() if path.name.startswith(".")] == []
    for spec in SPECS:
        run, undisturbed = tmp_path / "store" / spec.identity, tmp_path / "undisturbed"
        train(spec, undisturbed / spec.identity)
        assert contents(run) == contents(undisturbed / spec.identity)
