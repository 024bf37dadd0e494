"""Runs on this machine: one process per core, one thread each."""

import os
import signal
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from threading import Thread, current_thread, main_thread

from rote.arguments import check_integer
from rote.sweeps.executor import Event, Job, Lost, Retries, Started
from rote.sweeps.worker import run_job

_TICK = 0.5  # seconds

# A new interpreter per worker takes seconds to load torch; a fork of one that has just loaded it,
# and done nothing else, takes none. Elsewhere than on Linux forks are not to be trusted.
_CONTEXT = get_context("forkserver") if sys.platform == "linux" else get_context("spawn")
_PRELOAD = "rote.sweeps.preload"


class LocalExecutor:
    """Runs jobs in processes of this machine. A process that dies is replaced.

    A process does one job after the other, so that torch is loaded once. It ends when its parent
    ends, however that happens, so that no orphan holds a run.

    Args:
        workers: the number of jobs at a time; one per core by default.
        attempts: how often a job is started if its process dies, in one call of ``run``.

    Raises:
        InputError: if a number is not at least 1.

    Example:
        >>> LocalExecutor(workers=2).workers
        2
    """

    def __init__(self, workers: int | None = None, *, attempts: int = 3) -> None:
        self._workers = (
            count_cores() if workers is None else check_integer("workers", workers, least=1)
        )
        self._attempts = check_integer("attempts", attempts, least=1)

    @property
    def workers(self) -> int:
        """The number of jobs at a time."""
        return self._workers

    def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
        """Do the jobs, in any order; see ``Executor.run``."""
        coming, retries = iter(jobs), Retries(self._attempts)
        team: list[_Worker] = []
        try:
            while True:
                while len(team) < self._workers or any(worker.job is None for worker in team):
                    job = retries.take_job(coming)
                    if job is None:
                        break
                    _find_free(team).begin(job)
                    yield Started(job)
                busy = {worker.pipe: worker for worker in team if worker.job is not None}
                if not busy:
                    return
                ready = wait(list(busy), timeout=_TICK)
                if not ready:
                    yield None
                for worker in (busy[pipe] for pipe in ready):  # type: ignore[index]
                    event = worker.end()
                    if isinstance(event, Lost):
                        team.remove(worker)
                        event = retries.count_death(event)
                    yield event
        finally:
            _dismiss(team)


@dataclass(eq=False)
class _Worker:
    """A process, and what it is doing."""

    process: BaseProcess
    pipe: "Connection[Job, Event]"
    job: Job | None = None

    def begin(self, job: Job) -> None:
        self.job = job
        with suppress(OSError):  # it has died, which the wait for its answer reports
            self.pipe.send(job)

    def end(self) -> Event:
        """Return the outcome of the job; ``Lost`` if the process is dead."""
        job, self.job = self.job, None
        assert job is not None
        try:
            return self.pipe.recv()
        except (EOFError, OSError):
            self.pipe.close()
            self.process.join()
            return Lost(job, _describe_death(self.process.exitcode))


def _find_free(team: list[_Worker]) -> _Worker:
    """Return a process without a job; start a new one if all are busy."""
    for worker in team:
        if worker.job is None:
            return worker
    ours, theirs = _CONTEXT.Pipe()
    _CONTEXT.set_forkserver_preload([_PRELOAD])
    process = _CONTEXT.Process(
        target=_serve, args=(theirs, dict(os.environ)), name="rote worker", daemon=True
    )
    with _hold_interrupts():  # a worker that is interrupted while it starts would print a traceback
        _prepare()
        process.start()
        theirs.close()  # so that its death ends the pipe
        team.append(_Worker(process, ours))
    return team[-1]


def _prepare() -> None:
    """Start the process that workers are forked from, shielded from Ctrl-C.

    It ignores Ctrl-C by itself, but only after it has loaded torch.
    """
    if sys.platform != "linux":
        return
    from multiprocessing import forkserver

    resource_tracker.ensure_running()  # starting it unblocks the signal
    # A new process inherits what is blocked. Ignoring would also be inherited, but lose a Ctrl-C.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _dismiss(team: list[_Worker]) -> None:
    """End all processes. A run interrupted here resumes from its last saved state."""
    with _hold_interrupts():
        for worker in team:
            worker.pipe.close()
            worker.process.kill()
        for worker in team:
            worker.process.join()
            worker.process.close()


@contextmanager
def _hold_interrupts() -> Iterator[None]:
    """Let a Ctrl-C that comes inside the block take effect after it."""
    is_main = current_thread() is main_thread()  # which alone is interrupted
    if not is_main or signal.getsignal(signal.SIGINT) is None:  # a handler not of Python
        yield
        return
    came: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if came:
        signal.raise_signal(signal.SIGINT)


def _describe_death(exit_code: int | None) -> str:
    if exit_code is None or exit_code >= 0:
        return f"its process ended with exit code {exit_code}"
    name = signal.Signals(-exit_code).name
    hint = " (out of memory?)" if name == "SIGKILL" else ""
    return f"its process was killed by {name}{hint}"


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _serve(pipe: "Connection[Event, Job]", environment: dict[str, str]) -> None:
    """Do one job after the other until the parent process ends."""
    # Ctrl-C reaches every process of a terminal; the sweep decides what it means.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ.update(environment)  # it may have changed since the first worker was made
    import_module(_PRELOAD)
    Thread(target=_die_with_parent, daemon=True).start()
    while True:
        try:
            pipe.send(run_job(pipe.recv()))
        except (EOFError, OSError):
            return


def _die_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)
