"""The contract of executors: jobs, events, retries, and the record of a failed run."""

import json
from collections import Counter, deque
from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from rote.arguments import place_in
from rote.errors import InputError, StoreError, quote
from rote.store import FAILURE_FILE, write_whole
from rote.version import __version__
from rote.workloads import FieldError, RunSpec


def get_named_path(folder: Path, spec: RunSpec) -> Path:
    """Return the directory of a single run, made of its name and its identity.

    Raises:
        FieldError: if the name leads out of the folder.
    """
    if spec.name is None:
        return folder / spec.identity
    try:
        return place_in(folder, f"{spec.name}-{spec.identity[:8]}")
    except InputError as error:
        complaint = f"leads out of {folder}: {quote(spec.name)}. Choose another."
        raise FieldError("name", complaint) from error


def get_run_path(store: Path, spec: RunSpec) -> Path:
    """Return the directory of a run in a store, which is its identity.

    Sweeps that call the same run by different names find the same directory, and so the same lock.
    """
    return store / spec.identity


@dataclass(frozen=True)
class Job:
    """One run to train.

    Attributes:
        spec: the spec of the run.
        path: its directory, which every worker can reach.
        data_dir: the folder of datasets; ``ROTE_DATA`` if None.
    """

    spec: RunSpec
    path: Path
    data_dir: Path | None = None


@dataclass(frozen=True)
class Started:
    """A worker has begun with a job, perhaps not for the first time."""

    job: Job


@dataclass(frozen=True)
class Finished:
    """A run is complete.

    Attributes:
        job: the run.
        was_over: whether it had been completed before.
        remark: a note for the user on what happened next; may be empty.
    """

    job: Job
    was_over: bool = False
    remark: str | None = None


@dataclass(frozen=True)
class Failed:
    """A run raised an error; it is the run's own fault and would happen again.

    Attributes:
        job: the run.
        error: the traceback.
    """

    job: Job
    error: str


@dataclass(frozen=True)
class Lost:
    """The worker or its node died. The job is given to another one, unless it died too often.

    Attributes:
        job: the run.
        reason: the known cause of the death.
        gives_up: whether the executor has stopped trying.
    """

    job: Job
    reason: str
    gives_up: bool = False


@dataclass(frozen=True)
class Busy:
    """Another process holds the run: it is being done elsewhere."""

    job: Job


@dataclass(frozen=True)
class Blocked:
    """The store cannot be written; every other run would end like this one.

    Attributes:
        job: the run.
        reason: the problem, in a few words.
    """

    job: Job
    reason: str


Event = Started | Finished | Failed | Lost | Busy | Blocked


class Executor(Protocol):
    """A place where runs are done, several at a time.

    Example:
        >>> from rote.sweeps import LocalExecutor
        >>> executor: Executor = LocalExecutor(workers=2)
        >>> executor.workers
        2
    """

    @property
    def workers(self) -> int:
        """The number of jobs at a time."""

    def run(self, jobs: Iterable[Job]) -> Generator[Event | None]:
        """Do the jobs, in any order.

        Jobs are taken from the iterable one by one, when a worker is free: ten thousand of them
        need not exist at once. Closing the generator stops the workers; their runs can be resumed.

        Every attempt begins with ``Started``. A job ends with ``Finished``, ``Failed``, ``Busy``,
        ``Blocked``, or a ``Lost`` that gives up.

        Args:
            jobs: the jobs.

        Yields:
            What happened, as it happens; ``None`` at least every second while nothing does, so
            that a caller can look around.
        """


class Retries:
    """Jobs whose worker died, and how often each was begun; at most ``attempts`` times."""

    def __init__(self, attempts: int) -> None:
        self._attempts = attempts
        self._deaths: Counter[Path] = Counter()
        self._waiting: deque[Job] = deque()

    def __contains__(self, job: Job) -> bool:
        """Return whether a worker has died with the job before."""
        return job.path in self._deaths

    def take_job(self, coming: Iterator[Job]) -> Job | None:
        """Return the next job: one that waits for another attempt, else a new one, else None."""
        return self._waiting.popleft() if self._waiting else next(coming, None)

    def count_death(self, lost: Lost) -> Lost:
        """Count a death; the job is given up, or else waits to be begun again."""
        self._deaths[lost.job.path] += 1
        gives_up = self._deaths[lost.job.path] >= self._attempts
        if not gives_up:
            self._waiting.append(lost.job)
        return replace(lost, gives_up=gives_up)


_SCHEMA = 1


def record_failure(job: Job, error: str) -> None:
    """Record why a run failed; the record stays until the run finishes.

    Raises:
        StoreError: if it cannot be written.
    """
    contents = {
        "schema": _SCHEMA,
        "identity": job.spec.identity,
        "name": job.spec.name,
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "rote": __version__,
        "error": error,
        "spec": job.spec.to_dict(),
    }
    text = json.dumps(contents, indent=2) + "\n"
    try:
        job.path.mkdir(parents=True, exist_ok=True)
        write_whole(job.path / FAILURE_FILE, text.encode())
    except OSError as failure:
        raise StoreError(f"Cannot write to {job.path}: {failure.strerror}.") from failure


def forget_failure(job: Job) -> None:
    """Delete the record of an earlier failure of a run that has finished."""
    with suppress(OSError):  # a finished run counts as finished anyway
        (job.path / FAILURE_FILE).unlink(missing_ok=True)


def get_last_line(error: str) -> str:
    """Return the line of a traceback that says what went wrong."""
    lines = error.strip().splitlines()
    return lines[-1].strip() if lines else ""
