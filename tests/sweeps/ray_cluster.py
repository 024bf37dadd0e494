"""A real Ray cluster for the tests of one process; nodes can be added to it and taken away."""

import atexit
import os
import shutil
import signal
import tempfile
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

TOKEN = "0123456789abcdef" * 4
HEAD_CPUS = 2
DATA = "/tmp/rote-ray-data"  # ROTE_DATA of every test: Ray has processes per environment
SETTINGS = {
    "RAY_AUTH_TOKEN": TOKEN,  # or Ray writes one to the home directory
    # Runs that give way to everybody else would be starved on a busy machine.
    "RAY_worker_niceness": "0",
    # Processes without the environment of runs: no run is ever given to them.
    "RAY_prestart_worker_first_driver": "0",
    # One that has loaded torch is worth keeping for the next test.
    "RAY_idle_worker_killing_time_threshold_ms": "600000",
    # A dead node refuses to answer, five times, and not one that is slow.
    "RAY_health_check_period_ms": "500",
}


@cache
def cluster() -> Any:
    """The cluster of this process: a head with two CPUs, to which the process is connected."""
    if find_spec("ray") is None:
        pytest.skip("needs Ray (extra `ray`)")
    # Ray keeps sockets here: a long path does not fit, and others' clusters must not be met.
    os.environ["RAY_TMPDIR"] = tempfile.mkdtemp(prefix="rote-ray-", dir="/tmp")
    os.environ.update(SETTINGS)
    from rote.sweeps.ray_executor import RayConnection

    ray = RayConnection().ray  # as quiet as in earnest
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args=_node(HEAD_CPUS))
    ray.init(found.address, log_to_driver=False, logging_level="error")
    atexit.register(shutil.rmtree, os.environ["RAY_TMPDIR"], ignore_errors=True)
    atexit.register(found.shutdown)
    atexit.register(ray.shutdown)
    return found


def add_node(cpus: int) -> Any:
    """One more node, on which tasks can run."""
    return cluster().add_node(**_node(cpus))


def _node(cpus: int) -> dict[str, Any]:
    needless = {"include_dashboard": False, "include_log_monitor": False, "no_monitor": True}
    return {"num_cpus": cpus, "object_store_memory": 80 * 2**20, **needless}


def processes_of(folder: Path) -> list[int]:
    """Every process that was started with this folder as RAY_TMPDIR."""
    mark, found = f"RAY_TMPDIR={folder}".encode(), []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (process / "environ").read_bytes().split(b"\0"):
                found.append(int(process.name))
        except OSError:
            continue
    return found


def end(processes: list[int]) -> None:
    """Kill them."""
    for process in processes:
        try:
            os.kill(process, signal.SIGKILL)
        except ProcessLookupError:
            continue
