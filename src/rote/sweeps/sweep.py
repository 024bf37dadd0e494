"""The sweep: it runs every spec that has not finished, and resumes interrupted runs."""

import errno
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path

from rote.arguments import check_path
from rote.errors import DamagedStateWarning, InputError, StoreError
from rote.store import CLAIM_FILE, STATES, State, is_locked, read_status
from rote.sweeps.executor import (
    Blocked,
    Busy,
    Event,
    Executor,
    Failed,
    Finished,
    Job,
    Lost,
    forget_failure,
    get_run_path,
    record_failure,
)
from rote.sweeps.progress import Progress
from rote.sweeps.worker import find_write_problem
from rote.workloads import RunSpec

Watch = Callable[[Progress, Event | None], object]

_PATIENCE = 0.5  # seconds between two looks at runs that others hold


class Sweep:
    """Many runs in one store. A run's directory is the identity of its spec.

    A finished run is skipped; an interrupted one resumes from its last saved state; a failed one
    is tried again, once. A run that another process holds is left to that process. The sweep waits
    for it at the end, and takes it over if that process dies.

    Args:
        specs: the runs; iterated several times, never held in memory all at once.
        store: a directory that every worker can reach.
        data_dir: the folder of datasets; ``ROTE_DATA`` by default.

    Example:
        >>> import tempfile
        >>> from rote.sweeps import SearchSpace
        >>> space = SearchSpace.from_dict({"grid": {"seed": [0, 1]}})
        >>> len(list(Sweep(space, tempfile.mkdtemp()).list_unfinished()))
        2
    """

    def __init__(
        self, specs: Iterable[RunSpec], store: Path | str, *, data_dir: Path | None = None
    ) -> None:
        self._specs = specs
        # Workers may have another working directory.
        self._store = check_path("store", store).absolute()
        self._data_dir = None if data_dir is None else check_path("data_dir", data_dir).absolute()

    def survey(self) -> dict[State, int]:
        """Count the runs by status; nothing is changed.

        Raises:
            InputError: if a spec does not fit, or there is none.
            StoreError: if the directory of a run cannot be looked at.
        """
        counts = Counter(read_status(get_run_path(self._store, spec)).state for spec in self._specs)
        if not counts:
            raise InputError(
                "The sweep has no runs: `[exclude]` removes all of them. Check its conditions."
            )
        return {state: counts[state] for state in STATES}

    def run(self, executor: Executor, watch: Watch | None = None) -> Progress:
        """Run everything that has not finished.

        Args:
            executor: where.
            watch: called with the progress and what has just happened (``None`` at least every
                second when nothing does).

        Returns:
            The outcome of all runs. When interrupted, it stops all workers first; the same call
            resumes their runs.

        Raises:
            StoreError: if the store cannot be written, or the disk is full; workers are stopped.
            InputError: if a spec does not fit, or there is none, before anything is run.
        """
        self.check_store()
        counts = self.survey()
        progress = Progress(sum(counts.values()))
        if counts["finished"] < progress.total and (reason := find_write_problem(self._store)):
            raise self._make_store_error(reason)
        _tell(watch, progress, None)
        held = self._work(executor, self._list_jobs(progress), progress, watch)
        while held:
            free = self._release_held(held, progress)
            if free:
                held += self._work(executor, free, progress, watch)
            elif held:
                _tell(watch, progress, None)
                time.sleep(_PATIENCE)
        return progress

    def check_store(self) -> None:
        """Refuse a store that cannot be a directory; nothing is written.

        Raises:
            StoreError: if it, or what it would lie in, is a file or cannot be looked at.
        """
        places = (self._store, *self._store.parents)
        try:
            there = next(place for place in places if place.exists())
        except OSError as error:
            raise self._make_store_error(error.strerror or str(error)) from error
        if not there.is_dir():
            code = errno.EEXIST if there == self._store else errno.ENOTDIR
            raise self._make_store_error(os.strerror(code))

    def list_unfinished(self) -> Iterator[RunSpec]:
        """Yield the runs that have not finished, checked one by one.

        Raises:
            InputError: if a spec does not fit; raised when it is its turn.
            StoreError: if the directory of a run cannot be looked at; raised when it is its turn.
        """
        return (job.spec for job in self._list_jobs(Progress(0)))

    def _list_jobs(self, progress: Progress) -> Iterator[Job]:
        for spec in self._specs:
            job = Job(spec, get_run_path(self._store, spec), self._data_dir)
            if read_status(job.path).state == "finished":
                progress.skipped += 1
            else:
                yield job

    def _work(
        self, executor: Executor, jobs: Iterable[Job], progress: Progress, watch: Watch | None
    ) -> list[Job]:
        """Do jobs, and return those that other processes hold."""
        held = []
        with closing(executor.run(jobs)) as events:
            for event in events:
                progress.note(event)
                match event:
                    case Finished(job, remark=remark):
                        forget_failure(job)
                        if remark is not None:
                            warnings.warn(remark, DamagedStateWarning, stacklevel=4)
                    case Failed(job, error) | Lost(job, error, True):
                        self._record(job, error)
                    case Busy(job):
                        held.append(job)
                    case Blocked(_, reason):
                        raise self._make_blocked_error(reason, progress)
                _tell(watch, progress, event)
        return held

    def _record(self, job: Job, error: str) -> None:
        try:
            record_failure(job, error)
        except StoreError:
            # One run's directory may belong to another user; the other runs continue.
            if find_write_problem(self._store) is not None:
                raise

    def _release_held(self, held: list[Job], progress: Progress) -> list[Job]:
        """Remove from the held runs those that have finished and those that are free again.

        Returns:
            The latter.
        """
        free = []
        for job in list(held):
            if read_status(job.path).state == "finished":
                progress.skipped += 1
            elif not is_locked(job.path / CLAIM_FILE):
                free.append(job)
            else:
                continue
            held.remove(job)
        progress.elsewhere = len(held)
        return free

    def _make_store_error(self, reason: str) -> StoreError:
        return StoreError(f"Cannot write to {self._store}: {reason}.")

    def _make_blocked_error(self, reason: str, progress: Progress) -> StoreError:
        return StoreError(
            f"Cannot write to {self._store}: {reason}. The sweep stopped after {progress.done} of "
            f"{progress.total} runs, which are kept. Fix that, then start the same sweep again."
        )


def _tell(watch: Watch | None, progress: Progress, event: Event | None) -> None:
    if watch is not None:
        progress.look()
        watch(progress, event)
