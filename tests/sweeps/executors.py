"""Every executor, for the contract: a name, and how to make one."""

from collections.abc import Callable

from rote.sweeps.executor import Executor
from rote.sweeps.local_executor import LocalExecutor
from rote.sweeps.ray_executor import RayExecutor
from tests.sweeps.ray_cluster import cluster

Factory = Callable[[int, int], Executor]


def make_local(workers: int, attempts: int) -> Executor:
    """Processes of this machine."""
    return LocalExecutor(workers, attempts=attempts)


def make_ray(workers: int, attempts: int) -> Executor:
    """Tasks on a Ray cluster that all tests of this process share."""
    cluster()
    return RayExecutor(workers=workers, attempts=attempts)


FACTORIES: dict[str, Factory] = {"local": make_local, "ray": make_ray}
"""Called with the number of jobs at a time, and how often a dying one is begun."""
