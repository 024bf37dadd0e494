"""Tasks of Ray, one per run: sent to the nodes, listened to, and stopped."""

import os
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import chdir, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rote.errors import InputError, StoreError
from rote.store import CLAIM_FILE, is_locked
from rote.sweeps.executor import Busy, Event, Failed, Job, Lost, Started
from rote.sweeps.failure import last_line
from rote.sweeps.worker import ONE_THREAD, run_job
from rote.version import __version__

_TICK = 0.5  # seconds
_LETS_GO_WITHIN = 10.0  # seconds, from the end of a process to the end of its lock


class RayTasks:
    """The tasks that are under way, each with the same share of CPUs and GPUs."""

    def __init__(self, ray: Any, cpus: float, gpus: float) -> None:  # noqa: ANN401  # no types
        self._ray = ray
        self._tasks: dict[Any, _Task] = {}
        self._marks: dict[Path, Path] = {}
        self._here = str(Path.cwd())
        self._remote = ray.remote(_do).options(
            num_cpus=cpus,
            num_gpus=gpus,
            num_returns="streaming",  # first where it runs, then what became of it
            max_retries=0,  # so that no death goes unseen
            runtime_env={"env_vars": _environment(gpus)},
        )

    def __len__(self) -> int:
        return len(self._tasks)

    def send(self, job: Job, *, is_again: bool) -> None:
        """Have a job done as soon as a node has room."""
        data_dir = None if job.data_dir is None else job.data_dir.absolute()
        there = replace(job, path=job.path.absolute(), data_dir=data_dir)
        patience = _LETS_GO_WITHIN if is_again else 0.0
        stream = self._remote.remote(there, self._mark(there.path.parent), self._here, patience)
        self._tasks[stream] = _Task(job)

    def listen(self) -> list[Event]:
        """What tasks have said; waits for a moment if they are silent."""
        ready, _ = self._ray.wait(list(self._tasks), timeout=_TICK)
        if ready:
            everybody = list(self._tasks)
            ready, _ = self._ray.wait(everybody, num_returns=len(everybody), timeout=0)
        return [event for stream in ready for event in self._hear(stream)]

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

    def _hear(self, stream: Any) -> Iterator[Event]:  # noqa: ANN401
        task, errors = self._tasks[stream], self._ray.exceptions
        try:
            said = self._ray.get(next(stream))
        except errors.RayTaskError as error:
            if task.begun is None:
                raise _cannot_begin(str(error)) from error
            said = Failed(task.job, str(error))
        except (errors.RayError, StopIteration) as error:
            if task.begun is None:
                yield Started(task.job)
            said = Lost(task.job, _cause_of_death(error, task.begun))
        if isinstance(said, _Begun):
            task.begun = said
            _check(said, task.job)
            yield Started(task.job)
        else:
            del self._tasks[stream]
            yield replace(said, job=task.job)

    def _mark(self, store: Path) -> Path:
        """A file by which a task knows that it sees the same storage as this process."""
        if store not in self._marks:
            mark = store / f".ray-{uuid.uuid4().hex}"
            try:
                store.mkdir(parents=True, exist_ok=True)
                mark.touch()
            except OSError as error:
                raise StoreError(
                    f"Expected {store} to be a writable directory, got: {error.strerror}."
                ) from error
            self._marks[store] = mark
        return self._marks[store]


@dataclass(frozen=True)
class _Begun:
    """What a task says first: where it is, and whether it can do anything there."""

    host: str
    process: int
    version: str
    sees_store: bool


@dataclass(eq=False)
class _Task:
    """A job on its way, and where it is done."""

    job: Job
    begun: _Begun | None = None


def _do(job: Job, mark: Path, directory: str, patience: float) -> Iterator[_Begun | Event]:
    """The task: one run."""
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
            time.sleep(0.1)  # the process that died with this run may not be quite gone
            event = run_job(job)
    yield event


def _environment(gpus: float) -> dict[str, str]:
    """Variables that every task has, wherever it runs."""
    found = dict(ONE_THREAD)
    if not gpus:
        found["CUDA_VISIBLE_DEVICES"] = ""  # what Ray does not give out must not be taken
    if data := os.environ.get("ROTE_DATA"):
        found["ROTE_DATA"] = str(Path(data).expanduser().absolute())
    return found


def _check(begun: _Begun, job: Job) -> None:
    if begun.version != __version__:
        raise InputError(
            f"Expected rote {__version__} on every node, got {begun.version} on {begun.host}. "
            "Install the same environment there."
        )
    if not begun.sees_store:
        raise InputError(
            f"Expected {job.path.absolute().parent} to be on storage that every node reaches, got "
            f"{begun.host}, which sees another or none. Mount it there under the same path, or "
            "take a directory that is shared."
        )


def _cannot_begin(error: str) -> InputError:
    return InputError(
        "Expected every node to be able to begin a run, got: "
        f"{last_line(error)} Install the environment of this process there, "
        f"with rote {__version__}."
    )


def _cause_of_death(error: Exception, begun: _Begun | None) -> str:
    where = "" if begun is None else f" (process {begun.process} on {begun.host})"
    what = str(error).strip().split("\n")[0].split(". ")[0].rstrip(".")
    return f"{what or type(error).__name__}{where}"
