"""Runs on a Ray cluster: one task per run, on whichever node has room."""

import math
import time
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing

from rote.arguments import check_integer, check_number
from rote.errors import InputError, RoteWarning
from rote.sweeps.executor import Event, Job, Lost
from rote.sweeps.ray_connection import RayConnection
from rote.sweeps.ray_tasks import RayTasks
from rote.sweeps.retries import Retries

_COUNT_NODES_EVERY = 5.0  # seconds


class RayExecutor:
    """Runs jobs as tasks of Ray. A run whose worker or node dies goes on elsewhere.

    All nodes need the same environment, and the directories of the runs must be on storage that
    every node reaches under the same path.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, or ``host:port`` of its
            head. None takes ``RAY_ADDRESS``, and without that starts a cluster on this machine,
            which ends with the run. A connection that the process already has is used instead.
        workers: how many jobs at a time; as many as there is room for by default, also when nodes
            come and go.
        cpus: the share of each; a run computes with one thread, however large it is.
        gpus: the share of each, such as 0.5 for two runs per GPU; with 0 a run sees no GPU.
        attempts: how often a job is begun whose worker or node dies, in one call of ``run``.

    Raises:
        MissingExtraError: if Ray is not installed.
        InputError: if an argument does not fit.
    """

    def __init__(
        self,
        address: str | None = None,
        *,
        workers: int | None = None,
        cpus: float = 1.0,
        gpus: float = 0.0,
        attempts: int = 5,
    ) -> None:
        if workers is not None:
            check_integer("workers", workers, least=1)
        _check_share("cpus", cpus)
        _check_share("gpus", gpus)
        if not cpus + gpus:
            raise InputError("Expected `cpus` or `gpus` to be above 0, got 0 for both.")
        self._workers = workers
        self._cpus, self._gpus = cpus, gpus
        self._attempts = check_integer("attempts", attempts, least=1)
        self._connection = RayConnection(address)

    @property
    def workers(self) -> int:
        """How many at a time; it may change with the cluster, to which this connects.

        Raises:
            InputError: if there is no cluster, or no node has room for a run.
        """
        if self._workers is not None:
            return self._workers
        self._connection.open()
        room = self._connection.slots(self._cpus, self._gpus)
        if not room:
            raise InputError(
                f"Expected a node with room for a run of {self._cpus:g} CPU and {self._gpus:g} GPU,"
                f" got a cluster of {self._connection.ray.cluster_resources()}. Ask for less, or "
                "give `workers` if nodes are still to come."
            )
        return room

    def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
        """Do the jobs, in any order; see ``Executor.run``.

        Raises:
            InputError: if the cluster cannot be reached, or a node cannot do any run: it does not
                see the storage, or has another version of rote. All tasks are stopped then.
            StoreError: if the directory of a run cannot be made.
        """
        self._connection.open(
            None if self._workers is None else math.ceil(self._cpus * self.workers)
        )
        ray = self._connection.ray
        if self._workers is not None and not self._connection.slots(self._cpus, self._gpus):
            warnings.warn(
                f"No node has room for a run of {self._cpus:g} CPU and {self._gpus:g} GPU yet; the "
                "sweep waits for one. Ctrl-C ends it.",
                RoteWarning,
                stacklevel=2,
            )
        with closing(self._connection), closing(RayTasks(ray, self._cpus, self._gpus)) as tasks:
            yield from self._work(tasks, iter(jobs))

    def _work(self, tasks: RayTasks, coming: Iterator[Job]) -> Generator[Event | None]:
        retries = Retries(self._attempts)
        room, counted = self.workers, time.monotonic()
        while True:
            while len(tasks) < room:
                job = retries.next_job(coming)
                if job is None:
                    break
                tasks.send(job, is_again=job in retries)
            if not len(tasks):
                return
            if time.monotonic() - counted > _COUNT_NODES_EVERY:
                room, counted = max(1, self._room()), time.monotonic()
            heard = tasks.listen()
            if not heard:
                yield None
            for event in heard:
                yield retries.judged(event) if isinstance(event, Lost) else event

    def _room(self) -> int:
        return self._workers or self._connection.slots(self._cpus, self._gpus)


def _check_share(name: str, share: float) -> None:
    check_number(name, share, least=0)
    if share > 1 and share != int(share):
        raise InputError(
            f"Expected `{name}` to be a share of one, or a whole number of them, got {share!r}."
        )
