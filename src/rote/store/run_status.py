"""The status of runs: finished, interrupted or failed, from a quick look at their files."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from rote.errors import InputError, StoreError
from rote.store.files import is_locked
from rote.store.run_directory import CLAIM_FILE, FAILURE_FILE, LOCK_FILE
from rote.store.run_record import JOURNAL_FILE, RUN_FILE

WORKLOAD_FILE = "workload.json"
LABELS_FILE = "labels.npz"
STATE_FILE = "resume.pt"

State: TypeAlias = Literal["finished", "running", "interrupted", "failed", "new", "tracked"]
STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True, slots=True)
class RunStatus:
    """The status of one run.

    Attributes:
        path: its directory.
        state: ``finished``; ``running`` if a process has claimed it, or a tracker holds it;
            ``interrupted`` if it began, has not finished, and no process has it; ``failed`` if it
            ended in a recorded error; ``new`` if there is nothing yet; ``tracked`` if it is not
            a run of a spec, so that it is unknown whether it has finished.
        identity: the identity of its spec, if known.
        name: its name, if known.
    """

    path: Path
    state: State
    identity: str | None = None
    name: str | None = None


def read_status(path: Path | str) -> RunStatus:
    """Read the status of a run from its directory, which need not exist, and one small file.

    Raises:
        StoreError: if it cannot be looked at.
    """
    place = os.fspath(path)
    try:
        names = set(os.listdir(place))  # noqa: PTH208  # ten thousand times: Path costs as much
    except (FileNotFoundError, NotADirectoryError):
        names = set()
    except OSError as error:
        raise StoreError(f"Cannot read {place}: {error.strerror}.") from error
    workload = _read_object(f"{place}/{WORKLOAD_FILE}") if WORKLOAD_FILE in names else {}
    identity, spec = workload.get("identity"), workload.get("spec")
    name = spec.get("name") if isinstance(spec, dict) else None
    if workload.get("finished") is True:
        return RunStatus(Path(place), "finished", identity, name)
    if CLAIM_FILE in names and is_locked(Path(place, CLAIM_FILE)):
        return RunStatus(Path(place), "running", identity, name)
    if FAILURE_FILE in names:
        failure = _read_object(f"{place}/{FAILURE_FILE}")
        return RunStatus(
            Path(place), "failed", identity or failure.get("identity"), name or failure.get("name")
        )
    if WORKLOAD_FILE in names:
        return RunStatus(Path(place), "interrupted", identity, name)
    if RUN_FILE in names and LOCK_FILE in names and is_locked(Path(place, LOCK_FILE)):
        return RunStatus(Path(place), "running")
    if RUN_FILE in names:
        journal = Path(place, JOURNAL_FILE)
        is_tracked = JOURNAL_FILE in names and journal.stat().st_size > 0
        return RunStatus(Path(place), "tracked" if is_tracked else "interrupted")
    return RunStatus(Path(place), "new")


def read_workload(path: Path | str) -> dict[str, Any]:
    """Read ``workload.json``; return nothing if there is none, or it cannot be read."""
    return _read_object(f"{path}/{WORKLOAD_FILE}")


def list_runs(store: Path | str) -> list[RunStatus]:
    """Return every run of a store (a directory of run directories), ordered by directory.

    Args:
        store: the directory.

    Returns:
        The status of each run.

    Raises:
        InputError: if there is no such directory.
        StoreError: if one of its directories cannot be looked at.

    Example:
        >>> from tempfile import mkdtemp
        >>> list_runs(mkdtemp())
        []
    """
    try:
        with os.scandir(store) as entries:
            places = sorted(entry.path for entry in entries if entry.is_dir())
    except FileNotFoundError:
        raise InputError(f"Directory not found: {store}. Check the path.") from None
    except OSError as error:
        raise InputError(f"Cannot read {store}: {error.strerror}.") from error
    found = [read_status(place) for place in places]
    return [run for run in found if run.state != "new" or (run.path / CLAIM_FILE).exists()]


def _read_object(file: str) -> dict[str, Any]:
    """Read a JSON file; return nothing if it cannot be read."""
    if not os.path.isfile(file):  # noqa: PTH113  # a pipe would never end
        return {}
    try:
        with open(file, "rb") as opened:  # noqa: PTH123
            contents = json.loads(opened.read())
    except (OSError, ValueError, RecursionError):
        return {}
    return contents if isinstance(contents, dict) else {}
