"""``failure.json`` in the directory of a run: why it is not over, with the traceback."""

import json
from contextlib import suppress
from datetime import UTC, datetime

from rote.errors import StoreError
from rote.store import FAILURE_FILE, write_whole
from rote.sweeps.executor import Job
from rote.version import __version__

_SCHEMA = 1


def record_failure(job: Job, error: str) -> None:
    """Write down why a run failed; it stays until the run is over.

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
        raise StoreError(
            f"Expected {job.path} to be writable, got: {failure.strerror}."
        ) from failure


def forget_failure(job: Job) -> None:
    """The run is over: what went wrong before does not matter any more."""
    with suppress(OSError):  # a run that is over counts as such, whatever lies beside it
        (job.path / FAILURE_FILE).unlink(missing_ok=True)


def last_line(error: str) -> str:
    """The line of a traceback that says what went wrong."""
    lines = error.strip().splitlines()
    return lines[-1].strip() if lines else ""
