"""The work of a worker process: training one job and reporting events."""

import errno
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from traceback import format_exc

from rote.errors import DamagedStateWarning, RoteWarning, RunLockedError
from rote.records import Reading
from rote.sweeps.executor import Blocked, Busy, Event, Failed, Finished, Job

ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
"""The environment of a worker, to be set before torch is loaded: a run computes with one thread."""

_OF_THE_STORE = {errno.ENOSPC, errno.EDQUOT, errno.EROFS}


def run_job(job: Job, progress: Callable[[Reading], object] | None = None) -> Event:
    """Train one run, from its beginning or from where it was cut off.

    Args:
        job: the run.
        progress: called with every reading.

    Returns:
        ``Finished``; ``Busy`` if another process has the run; ``Blocked`` if the store is full or
        cannot be written; ``Failed`` with the traceback for every other error.
    """
    from rote.workloads import train  # brings torch, which the sweep itself does not need

    try:
        with warnings.catch_warnings(record=True) as caught:
            # A warning would break the progress table; the journal has the flags.
            warnings.simplefilter("ignore", RoteWarning)
            warnings.simplefilter("always", DamagedStateWarning)
            run = train(job.spec, job.path, data_dir=job.data_dir, progress=progress)
    except RunLockedError:
        return Busy(job)
    except Exception as error:  # noqa: BLE001  # one failed run must not stop the others
        reason = _find_store_problem(error, job.path.parent)
        return Failed(job, format_exc()) if reason is None else Blocked(job, reason)
    damage = [str(entry.message) for entry in caught if entry.category is DamagedStateWarning]
    return Finished(job, was_over=run.model is None, remark=damage[0] if damage else None)


def _find_store_problem(error: BaseException, store: Path) -> str | None:
    """Return the problem with the store, if it made a run fail."""
    for cause in _iterate_causes(error):
        if isinstance(cause, OSError) and cause.errno in _OF_THE_STORE:
            return os.strerror(cause.errno)
        if os.strerror(errno.ENOSPC) in str(cause):  # writers in other languages only say it
            return os.strerror(errno.ENOSPC)
    return find_write_problem(store)


def _iterate_causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def find_write_problem(path: Path) -> str | None:
    """Return why a directory, made if needed, cannot be written to; None if it can."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path) as file:
            file.write(bytes(4096))
    except OSError as error:
        return error.strerror or str(error)
    return None
