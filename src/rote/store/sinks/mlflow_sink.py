"""MLflow as a sink: a run of its own in an experiment, or the run that the caller has open."""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, RoteError, RunExistsError
from rote.store.formats.lines import readings_of
from rote.store.formats.mlflow_run import (
    NAME_TAG,
    RESUMED_AFTER,
    SCHEMA_TAG,
    client_of,
    description_of,
    impatience,
    import_mlflow,
    last_timestamp,
    lines_of,
    params_of,
    points_of_reading,
    tags_of,
)
from rote.store.sinks.sink import Opened

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run

    from rote.records import Reading
    from rote.store.address import Address


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
        self._log(points_of_reading(reading, row), reading.step)

    def resume_after(self, step: int) -> None:
        """Log that points after ``step`` up to now do not count."""
        self._log({RESUMED_AFTER: float(step)}, step)

    def close(self) -> None:
        """End the run, if it is rote's."""
        if self._is_own:
            with impatience():
                self._client.set_terminated(self._run_id)

    def _log(self, values: Mapping[str, float], step: int) -> None:
        from mlflow.entities import Metric

        self._time = max(self._time + 1, time.time_ns() // 1_000_000)
        points = [Metric(name, value, self._time, step) for name, value in values.items()]
        with impatience():
            self._client.log_batch(self._run_id, metrics=points, synchronous=True)


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
    client = client_of(address.uri)
    is_own = bool(address.place)
    run = _named_run(client, address, description, resume=resume) if is_own else _active(address)
    is_tracked = SCHEMA_TAG in run.data.tags
    place = f"MLflow run {run.info.run_name}"
    if is_tracked and not resume:
        raise RunExistsError(
            f"Expected the active {place} to be free for a tracker, got one with readings. Start "
            "another run, or pass resume=True to go on with it."
        )
    if resume and not is_tracked:
        raise InputError(
            f"Expected `save_to` to be a run to resume, got the active {place}, which holds no "
            "readings. Pass resume=False to start there."
        )
    if not resume:
        named = {**description, "name": description.get("name") or run.info.run_name}
        undo = partial(_delete, client, run) if is_own else partial(_clear, client, run, named)
        try:
            _describe(client, run, named)
        except BaseException:
            with suppress(Exception):  # what went wrong first is what counts
                undo()
            raise
        return Opened(MlflowSink(client, run.info.run_id, is_own=is_own), place, undo=undo)
    since = last_timestamp(client, run)
    held = readings_of(lines_of(client, run))
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
    if active is None or address.uri is not None:
        raise InputError(
            f"Expected `save_to` to be mlflow:EXPERIMENT, or mlflow: inside a `with "
            f"mlflow.start_run()`, got {str(address)!r} and "
            f"{'no active run' if active is None else 'a store without an experiment'}."
        )
    return client_of(None).get_run(active.info.run_id)


def _named_run(
    client: MlflowClient, address: Address, description: Mapping[str, Any], *, resume: bool
) -> Run:
    name = description.get("name")
    experiment = client.get_experiment_by_name(address.place)
    if not resume:
        number = (
            client.create_experiment(address.place)
            if experiment is None
            else experiment.experiment_id
        )
        return client.create_run(number, run_name=name)
    found = [] if experiment is None else _runs_of_name(client, experiment.experiment_id, name)
    if len(found) != 1:
        known = ", ".join(run.info.run_id for run in found) or "none"
        raise InputError(
            f"Expected {address} to hold one run to resume with name = {name!r}, got {known}. "
            "Pass its name; of several with one name, open the one with mlflow.start_run(run_id="
            "...) and pass save_to='mlflow:'."
        )
    return found[0]


def _runs_of_name(client: MlflowClient, experiment: str, name: str | None) -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        # Compared here: a name may hold quotes, which the filter cannot.
        page = client.search_runs([experiment], f"tags.`{SCHEMA_TAG}` != ''", page_token=token)
        found += [run for run in page if run.data.tags.get(NAME_TAG) == name]
        token = page.token
        if not token:
            return found


def _describe(client: MlflowClient, run: Run, description: Mapping[str, Any]) -> None:
    from mlflow.entities import Param, RunTag

    tags = [RunTag(key, value) for key, value in tags_of(description).items()]
    params = [Param(key, value) for key, value in params_of(description).items()]
    client.log_batch(run.info.run_id, tags=tags, params=params[:100])
