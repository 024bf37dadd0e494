"""Run a sweep on a Ray cluster: the connection, one task per run, and the executor."""

import logging
import math
import os
import re
import socket
import time
import uuid
import warnings
from collections.abc import Generator, Iterable, Iterator
from contextlib import chdir, closing, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rote.arguments import check_integer, check_number
from rote.errors import InputError, RoteWarning, StoreError
from rote.extras import require
from rote.store import CLAIM_FILE, is_locked
from rote.sweeps.executor import Busy, Event, Failed, Job, Lost, Retries, Started, get_last_line
from rote.sweeps.worker import ONE_THREAD, run_job
from rote.version import __version__

_ANSWERS_WITHIN = 5.0  # seconds; without asking first, Ray tries a closed port for many minutes
_NODE = re.compile(r"(?P<host>[^/\s]+):(?P<port>\d+)")


class RayConnection:
    """The state of a cluster. An existing connection of the process is used.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, or ``host:port`` of its
            head. None takes ``RAY_ADDRESS``, and without that starts a cluster on this machine.

    Attributes:
        ray: the package.

    Raises:
        MissingExtraError: if Ray is not installed.
        InputError: if the address is of another kind.
    """

    def __init__(self, address: str | None = None) -> None:
        if address not in (None, "auto") and not _NODE.fullmatch(address):
            raise InputError(
                "Expected `address` to be 'auto' or 'host:port' of the head of a Ray cluster, got "
                f"{address!r}. From a machine outside of the cluster, use `ray job submit`."
            )
        # Deaths of workers arrive as events; log lines would break the progress table.
        os.environ.setdefault(
            "RAY_DEDUP_LOGS_SKIP_REGEX", "A worker died or was killed|Raylet is terminated"
        )
        self.ray: Any = require("ray", extra="ray")
        self._address = address
        self._is_ours = False

    def open(self, cpus: int | None = None) -> None:
        """Connect, if the process has no connection yet.

        Args:
            cpus: the number of CPUs of a cluster that has to be started; one per core by default.

        Raises:
            InputError: if there is no cluster, or it does not let this process in.
        """
        if self.ray.is_initialized():
            return
        address = self._address or os.environ.get("RAY_ADDRESS")
        quiet = {"log_to_driver": False, "logging_level": logging.ERROR}
        if address is None:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            # One process per core, without the environment of our tasks, that would never get one.
            os.environ.setdefault("RAY_prestart_worker_first_driver", "0")
            self.ray.init("local", num_cpus=cpus, include_dashboard=False, **quiet)
        else:
            self._join(address, quiet)
        self._is_ours = True

    def close(self) -> None:
        """Give up the connection, and end the cluster, if they were made here."""
        if self._is_ours:
            self.ray.shutdown()
            self._is_ours = False

    def count_slots(self, cpus: float, gpus: float) -> int:
        """Return how many tasks with these shares the nodes can run at the same time, right now."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        return sum(_count_node_slots(node, {"CPU": cpus, "GPU": gpus}) for node in nodes)

    def _join(self, address: str, quiet: dict[str, Any]) -> None:
        if address != "auto":
            _check_answer(address)
        try:
            self.ray.init(address, **quiet)
        except (ConnectionError, RuntimeError, self.ray.exceptions.RayError) as error:
            # Ray says what is wrong at the end of a traceback inside of another error.
            cause = get_last_line(str(error.__cause__ or error)).split(". ")[0]
            raise InputError(
                f"The Ray cluster at {address!r} refused the connection: {cause.rstrip('.')}. "
                f"{_advise(cause)}"
            ) from error


def _check_answer(address: str) -> None:
    node = _NODE.fullmatch(address.rpartition("://")[2])
    if node is None:
        return
    try:
        place = node["host"].strip("[]"), int(node["port"])
        socket.create_connection(place, timeout=_ANSWERS_WITHIN).close()
    except (OSError, OverflowError) as error:
        raise InputError(
            f"No Ray cluster answers at {address!r} ({error}). Start one there with `ray start "
            f"--head --port={node['port']}`, or check host, port and firewall."
        ) from error


def _advise(cause: str) -> str:
    """Return what to do about a refused connection."""
    if "token" not in cause.lower():
        return (
            "The machine must be a node of the cluster: `ray start --head`, or `ray start "
            "--address=HOST:PORT` to join one. docs/cluster.md has the steps."
        )
    mode, token = os.environ.get("RAY_AUTH_MODE"), os.environ.get("RAY_AUTH_TOKEN")
    return (
        "Also give the token of the head here: `export RAY_AUTH_MODE=token RAY_AUTH_TOKEN=…` (now "
        f"RAY_AUTH_MODE is {mode or 'not set'} and RAY_AUTH_TOKEN is "
        f"{'set' if token else 'not set'}). docs/cluster.md has the steps."
    )


def _count_node_slots(node: dict[str, float], shares: dict[str, float]) -> int:
    """Return the number of runs that fit into a node; rounding must not cost a slot."""
    fits = [node.get(name, 0.0) / share + 1e-6 for name, share in shares.items() if share > 0]
    return math.floor(min(fits))


_TICK = 0.5  # seconds
_LETS_GO_WITHIN = 10.0  # seconds, from the end of a process to the end of its lock


class RayTasks:
    """The tasks that are under way, each with the same share of CPUs and GPUs."""

    def __init__(self, ray: Any, cpus: float, gpus: float) -> None:  # noqa: ANN401  # no types
        self._ray = ray
        self._tasks: dict[Any, _Task] = {}
        self._marks: dict[Path, Path] = {}
        self._here = str(Path.cwd())
        self._remote = ray.remote(_run_task).options(
            num_cpus=cpus,
            num_gpus=gpus,
            num_returns="streaming",  # first where it runs, then what became of it
            max_retries=0,  # so that no death goes unseen
            runtime_env={"env_vars": _make_environment(gpus)},
        )

    def __len__(self) -> int:
        return len(self._tasks)

    def send(self, job: Job, *, is_again: bool) -> None:
        """Have a job done as soon as a node has room."""
        data_dir = None if job.data_dir is None else job.data_dir.absolute()
        there = replace(job, path=job.path.absolute(), data_dir=data_dir)
        patience = _LETS_GO_WITHIN if is_again else 0.0
        stream = self._remote.remote(
            there, self._make_mark(there.path.parent), self._here, patience
        )
        self._tasks[stream] = _Task(job)

    def listen(self) -> list[Event]:
        """Return the events of the tasks; wait for a moment if there are none."""
        ready, _ = self._ray.wait(list(self._tasks), timeout=_TICK)
        if ready:
            everybody = list(self._tasks)
            ready, _ = self._ray.wait(everybody, num_returns=len(everybody), timeout=0)
        return [event for stream in ready for event in self._receive(stream)]

    def close(self) -> None:
        """End all tasks, and wait until their runs are free."""
        for stream in self._tasks:
            self._ray.cancel(stream, force=True)
        runs = [task.job.path for task in self._tasks.values()]
        deadline = time.monotonic() + _LETS_GO_WITHIN
        while time.monotonic() < deadline and any(is_locked(run / CLAIM_FILE) for run in runs):
            time.sleep(0.02)
        self._tasks.clear()
        for mark in self._marks.values():
            with suppress(OSError):
                mark.unlink()

    def _receive(self, stream: Any) -> Iterator[Event]:  # noqa: ANN401
        task, errors = self._tasks[stream], self._ray.exceptions
        try:
            said = self._ray.get(next(stream))
        except errors.RayTaskError as error:
            if task.begun is None:
                raise _make_start_error(str(error)) from error
            said = Failed(task.job, str(error))
        except (errors.RayError, StopIteration) as error:
            if task.begun is None:
                yield Started(task.job)
            said = Lost(task.job, _describe_death(error, task.begun))
        if isinstance(said, _Begun):
            task.begun = said
            _check(said, task.job)
            yield Started(task.job)
        else:
            del self._tasks[stream]
            yield replace(said, job=task.job)

    def _make_mark(self, store: Path) -> Path:
        """Return a file by which a task recognizes the storage of this process."""
        if store not in self._marks:
            mark = store / f".ray-{uuid.uuid4().hex}"
            try:
                store.mkdir(parents=True, exist_ok=True)
                mark.touch()
            except OSError as error:
                raise StoreError(f"Cannot write to {store}: {error.strerror}.") from error
            self._marks[store] = mark
        return self._marks[store]


@dataclass(frozen=True)
class _Begun:
    """The first report of a task: its node, and whether the task can run there."""

    host: str
    process: int
    version: str
    sees_store: bool


@dataclass(eq=False)
class _Task:
    """A job on its way, and where it is done."""

    job: Job
    begun: _Begun | None = None


def _run_task(job: Job, mark: Path, directory: str, patience: float) -> Iterator[_Begun | Event]:
    """Train one run as a Ray task."""
    begun = _Begun(socket.gethostname(), os.getpid(), __version__, sees_store=mark.is_file())
    yield begun
    if not begun.sees_store:
        return
    import rote.sweeps.preload  # noqa: F401  # faster than one after the other when needed

    # Files that a spec names are found from here as they are without a cluster.
    with chdir(directory) if Path(directory).is_dir() else nullcontext():
        deadline = time.monotonic() + patience
        event = run_job(job)
        while isinstance(event, Busy) and time.monotonic() < deadline:
            time.sleep(0.1)  # the process that died with this run may still be ending
            event = run_job(job)
    yield event


def _make_environment(gpus: float) -> dict[str, str]:
    """Return variables that every task has, wherever it runs."""
    found = dict(ONE_THREAD)
    if not gpus:
        found["CUDA_VISIBLE_DEVICES"] = ""  # what Ray does not give out must not be taken
    if data := os.environ.get("ROTE_DATA"):
        found["ROTE_DATA"] = str(Path(data).expanduser().absolute())
    return found


def _check(begun: _Begun, job: Job) -> None:
    if begun.version != __version__:
        raise InputError(
            f"Node {begun.host} has rote {begun.version}, this machine has {__version__}. Install "
            "the same environment on every node."
        )
    if not begun.sees_store:
        raise InputError(
            f"Node {begun.host} cannot reach {job.path.absolute().parent}. Mount it there under "
            "the same path, or use a directory on shared storage."
        )


def _make_start_error(error: str) -> InputError:
    return InputError(
        f"A node cannot start runs: {get_last_line(error)} Install the environment of this process "
        f"there, with rote {__version__}."
    )


def _describe_death(error: Exception, begun: _Begun | None) -> str:
    where = "" if begun is None else f" (process {begun.process} on {begun.host})"
    what = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
    return f"{what or type(error).__name__}{where}"


_COUNT_NODES_EVERY = 5.0  # seconds


class RayExecutor:
    """Runs jobs as tasks of Ray. A run whose worker or node dies resumes elsewhere.

    All nodes need the same environment, and the directories of the runs must be on storage that
    every node reaches under the same path.

    Args:
        address: ``auto`` for the cluster that this machine is a node of, or ``host:port`` of its
            head. None takes ``RAY_ADDRESS``, and without that starts a cluster on this machine,
            which ends with the run. A connection that the process already has is used instead.
        workers: the number of jobs at a time; by default, as many as fit, also when nodes
            come and go.
        cpus: the share of each; a run computes with one thread, however large it is.
        gpus: the share of each, such as 0.5 for two runs per GPU; with 0 a run sees no GPU.
        attempts: how often a job is started if its worker or node dies, in one call of ``run``.

    Raises:
        MissingExtraError: if Ray is not installed.
        InputError: if an argument does not fit.

    Example:
        >>> executor = RayExecutor("head:6379", gpus=0.5)  # connects when a sweep begins
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
        room = self._connection.count_slots(self._cpus, self._gpus)
        if not room:
            raise InputError(
                f"No node has room for a run of {self._cpus:g} CPU and {self._gpus:g} GPU. The "
                f"cluster has {self._connection.ray.cluster_resources()}. Ask for less, or pass "
                "`workers` if nodes join later."
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
        if self._workers is not None and not self._connection.count_slots(self._cpus, self._gpus):
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
                job = retries.take_job(coming)
                if job is None:
                    break
                tasks.send(job, is_again=job in retries)
            if not len(tasks):
                return
            if time.monotonic() - counted > _COUNT_NODES_EVERY:
                room, counted = max(1, self._count_room()), time.monotonic()
            heard = tasks.listen()
            if not heard:
                yield None
            for event in heard:
                yield retries.count_death(event) if isinstance(event, Lost) else event

    def _count_room(self) -> int:
        return self._workers or self._connection.count_slots(self._cpus, self._gpus)


def _check_share(name: str, share: float) -> None:
    check_number(name, share, least=0)
    if share > 1 and share != int(share):
        raise InputError(
            f"Expected `{name}` to be a share of one, or a whole number of them, got {share!r}."
        )
