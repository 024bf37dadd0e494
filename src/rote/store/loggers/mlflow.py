"""MLflow: a run of its own in an experiment, or the run that the caller has open."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RoteError, RunExistsError, did_you_mean
from rote.store.found_runs import (
    Checkpoint,
    FoundRun,
    SourceRuns,
    UnreadableRuns,
    checkpoint,
    frame_of,
)
from rote.store.logger import Logger
from rote.store.loggers.mlflow_run import (
    NAME_TAG,
    NOTE_TAG,
    RESUMED_AFTER,
    SCHEMA_TAG,
    client_of,
    description_of,
    experiment_and_store,
    impatience,
    import_mlflow,
    last_timestamp,
    lines_of,
    params_of,
    points_of_reading,
    resolved,
    tags_of,
    value_of,
)
from rote.store.schema import reading_of_line
from rote.store.sinks import Opened

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

    from rote.records import Reading
    from rote.store.logger import Address


class MlflowSink:
    """Logs readings as metrics of one MLflow run.

    Args:
        client: of the store.
        run_id: of the run.
        is_own: whether the run is rote's, to be ended with it.
        since: no point may be as old as this, in milliseconds.
    """

    def __init__(self, client: MlflowClient, run_id: str, *, is_own: bool, since: int = 0) -> None:
        self._client = client
        self._run_id = run_id
        self._is_own = is_own
        self._time = since

    def append(self, reading: Reading, row: int) -> None:
        """Log one reading, in one request."""
        self._log(points_of_reading(reading, row), reading.step, reading.note)

    def resume_after(self, step: int) -> None:
        """Log that points after ``step`` up to now do not count."""
        self._log({RESUMED_AFTER: float(step)}, step)

    def close(self) -> None:
        """End the run, if it is rote's."""
        if self._is_own:
            with impatience():
                self._client.set_terminated(self._run_id)

    def _log(self, values: Mapping[str, float], step: int, note: str = "") -> None:
        from mlflow.entities import Metric, RunTag

        self._time = max(self._time + 1, time.time_ns() // 1_000_000)
        points = [Metric(name, value, self._time, step) for name, value in values.items()]
        with impatience():
            tags = [RunTag(f"{NOTE_TAG}{step:06}", note)] if note else []
            self._client.log_batch(self._run_id, metrics=points, tags=tags, synchronous=True)


def open_mlflow(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run, or go on with one.

    Args:
        address: without an experiment, the active run is meant.
        description: what is run; without a name, MLflow gives one.
        resume: go on with the run of that name, or the active one.

    Raises:
        InputError: if the store does not answer, there is no active run, or not exactly one of the
            name.
        RunExistsError: if the active run has a tracker's readings already.
    """
    import_mlflow()
    try:
        with impatience():
            return _open(address, description, resume=resume)
    except RoteError:
        raise
    except Exception as error:
        raise InputError(
            f"Expected {address} to be an MLflow store that can be written, got: {error}"
        ) from error


def _open(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    experiment, uri = experiment_and_store(address.place)
    client, name = client_of(uri), description.get("name")
    if not experiment:
        run = _active(address)
    elif resume:
        run = _run_to_resume(client, address, experiment, name)
    else:
        run = _new_run(client, experiment, name)
    if resume:
        return _resumed(client, run, is_own=bool(experiment))
    return _started(client, run, description, is_own=bool(experiment))


def _started(
    client: MlflowClient, run: Run, description: Mapping[str, Any], *, is_own: bool
) -> Opened:
    place = f"MLflow run {run.info.run_name}"
    if SCHEMA_TAG in run.data.tags:
        raise RunExistsError(
            f"The active {place} already holds a tracker's readings. Start another run.", place
        )
    named = {**description, "name": description.get("name") or run.info.run_name}
    undo = partial(_delete, client, run) if is_own else partial(_clear, client, run, named)
    try:
        _describe(client, run, named)
    except BaseException:
        with suppress(Exception):  # what went wrong first is what counts
            undo()
        raise
    return Opened(MlflowSink(client, run.info.run_id, is_own=is_own), place, undo=undo)


def _resumed(client: MlflowClient, run: Run, *, is_own: bool) -> Opened:
    place = f"MLflow run {run.info.run_name}"
    if SCHEMA_TAG not in run.data.tags:
        raise InputError(
            f"Expected `save_to` to be a run to resume, got the active {place}, which holds no "
            "readings. Pass resume=False to start there."
        )
    since = last_timestamp(client, run)
    held = tuple(reading_of_line(line) for line in lines_of(client, run))
    if is_own:
        client.update_run(run.info.run_id, status="RUNNING")
    sink = MlflowSink(client, run.info.run_id, is_own=is_own, since=since)
    undo = partial(client.update_run, run.info.run_id, status=run.info.status)
    return Opened(sink, place, description_of(run), held, undo=undo if is_own else None)


def _delete(client: MlflowClient, run: Run) -> None:
    """Take a run of rote's back."""
    with impatience():
        client.set_terminated(run.info.run_id, status="FAILED")
        client.delete_run(run.info.run_id)


def _clear(client: MlflowClient, run: Run, description: Mapping[str, Any]) -> None:
    """Take the description out of another's run: the tags, since parameters cannot be deleted."""
    with impatience():
        written = client.get_run(run.info.run_id).data.tags
        for tag in tags_of(description).keys() & written.keys():
            client.delete_tag(run.info.run_id, tag)


def _active(address: Address) -> Run:
    mlflow = import_mlflow()
    active: Run | None = mlflow.active_run()
    if active is None or address.place:
        raise InputError(
            f"Expected `save_to` to be mlflow:EXPERIMENT, or mlflow: inside a `with "
            f"mlflow.start_run()`, got {str(address)!r} and "
            f"{'no active run' if active is None else 'a store without an experiment'}."
        )
    return client_of(None).get_run(active.info.run_id)


def _new_run(client: MlflowClient, experiment: str, name: str | None) -> Run:
    found = client.get_experiment_by_name(experiment)
    number = client.create_experiment(experiment) if found is None else found.experiment_id
    return client.create_run(number, run_name=name)


def _run_to_resume(
    client: MlflowClient, address: Address, experiment: str, name: str | None
) -> Run:
    there = client.get_experiment_by_name(experiment)
    # Names are compared here: one may hold quotes, which the filter cannot.
    ours = [] if there is None else _runs(client, there, f"tags.`{SCHEMA_TAG}` != ''")
    found = [run for run in ours if run.data.tags.get(NAME_TAG) == name]
    if len(found) != 1:
        known = ", ".join(run.info.run_id for run in found) or "none"
        raise InputError(
            f"Expected {address} to hold one run to resume with name = {name!r}, got {known}. "
            "Pass its name; of several with one name, open the one with mlflow.start_run(run_id="
            "...) and pass save_to='mlflow:'."
        )
    return found[0]


def _describe(client: MlflowClient, run: Run, description: Mapping[str, Any]) -> None:
    from mlflow.entities import Param, RunTag

    tags = [RunTag(key, value) for key, value in tags_of(description).items()]
    params = [Param(key, value) for key, value in params_of(description).items()]
    client.log_batch(run.info.run_id, tags=tags, params=params[:100])


def read_mlflow(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read every run of an experiment that was not deleted.

    In a run that rote wrote, the readings count as in rote's own store. In any other, there is a
    checkpoint for every step at which some metric was logged; of several values of one metric at
    one step, the last counts. A run that cannot be read is left out with an
    ``UnreadableRunWarning``, unless there is no other.

    The experiment is given by name or number.

    Raises:
        InputError: if the store does not answer, or there is no such experiment, or no run in it.
        CorruptRunError: if a run of rote's is of a version that is not known.
    """
    import_mlflow()
    experiment, uri = experiment_and_store(address.place)
    _check_sqlite(resolved(uri))
    try:
        with impatience():
            client = client_of(uri)
            source = _read(client, experiment)
    except RoteError:
        raise
    except Exception as error:
        raise InputError(
            f"Expected {address} to be in an MLflow store that can be read, got: {error}"
        ) from error
    if not source.runs:
        raise InputError(f"Expected {address} to hold runs, got none. Check the name.")
    return source


def _read(client: MlflowClient, experiment: str) -> SourceRuns:
    place, unreadable = Path(f"mlflow:{experiment}"), UnreadableRuns()
    found: list[FoundRun] = []
    checkpoints: list[list[Checkpoint]] = []
    for run in _runs(client, _experiment(client, experiment)):
        number = run.info.run_id
        with unreadable.caught(place / number):
            described, lines = description_of(run), _checkpoints(client, run)
            found.append(FoundRun(described["name"], place / number, described, identity=number))
            checkpoints.append(lines)
    return unreadable.left_out_of(SourceRuns(found, frame_of(checkpoints)))


def _check_sqlite(uri: str) -> None:
    """To look for a run must not create an empty store."""
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        raise InputError(
            f"Expected `runs` to name an MLflow store that exists, got {path}. Give the store "
            "behind the experiment: mlflow:EXPERIMENT@sqlite:///PATH, or @http://SERVER."
        )


def _experiment(client: MlflowClient, name: str) -> Experiment:
    found = client.get_experiment_by_name(name)
    if found is not None:
        return found
    known = {entry.name: entry for entry in client.search_experiments()}
    by_number = {entry.experiment_id: entry for entry in known.values()}
    if name in by_number:
        return by_number[name]
    listed = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
    raise InputError(
        f"Expected `runs` to name an MLflow experiment, got {name!r}; there are: "
        f"{listed or 'none'}.{did_you_mean(name, known)}"
    )


def _runs(client: MlflowClient, experiment: Experiment, wanted: str = "") -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment.experiment_id], wanted, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def _checkpoints(client: MlflowClient, run: Run) -> list[Checkpoint]:
    if SCHEMA_TAG in run.data.tags:
        return list(lines_of(client, run))
    rows: dict[int, dict[str, float | None]] = defaultdict(dict)
    for name in run.data.metrics:
        points = client.get_metric_history(run.info.run_id, name)
        for point in sorted(points, key=lambda point: point.timestamp):
            rows[point.step][name] = value_of(point)
    return [checkpoint(step, rows[step]) for step in sorted(rows)]


LOGGER = Logger(open=open_mlflow, read=read_mlflow, traces=1)
