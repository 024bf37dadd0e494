"""An MLflow experiment as a source."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError, RoteError, did_you_mean
from rote.store.formats.mlflow_run import (
    SCHEMA_TAG,
    client_of,
    description_of,
    impatience,
    import_mlflow,
    lines_of,
    resolved,
    value_of,
)
from rote.store.sources.runs import FoundRun, SourceRuns, checkpoint, frame_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Run

    from rote.store.address import Address
    from rote.store.sources.runs import Checkpoint


def read_mlflow(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read every run of an experiment that was not deleted.

    In a run that rote wrote, the readings count as in rote's own store. In any other, there is a
    checkpoint for every step at which some metric was logged; of several values of one metric at
    one step, the last counts.

    Args:
        address: the experiment, by name or number, and the store.
        mapping: not needed here.

    Raises:
        InputError: if the store does not answer, or there is no such experiment, or no run in it.
        CorruptRunError: if a run of rote's is of a version that is not known.
    """
    import_mlflow()
    _check_sqlite(resolved(address.uri))
    try:
        with impatience():
            client = client_of(address.uri)
            runs = _runs(client, _experiment(client, address))
            checkpoints = [_checkpoints(client, run) for run in runs]
            descriptions = [description_of(run) for run in runs]
    except RoteError:
        raise
    except Exception as error:
        raise InputError(
            f"Expected {address} to be in an MLflow store that can be read, got: {error}"
        ) from error
    if not runs:
        raise InputError(f"Expected {address} to hold runs, got none. Check the name.")
    place = Path(f"mlflow:{address.place}")
    found = [
        FoundRun(entry["name"], place / run.info.run_id, entry, identity=run.info.run_id)
        for run, entry in zip(runs, descriptions, strict=True)
    ]
    return SourceRuns(found, frame_of(checkpoints))


def _check_sqlite(uri: str) -> None:
    """To look for a run must not create an empty store."""
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        raise InputError(
            f"Expected `runs` to name an MLflow store that exists, got {path}. Give the store "
            "behind the experiment: mlflow:EXPERIMENT@sqlite:///PATH, or @http://SERVER."
        )


def _experiment(client: MlflowClient, address: Address) -> Experiment:
    found = client.get_experiment_by_name(address.place)
    if found is not None:
        return found
    known = {entry.name: entry for entry in client.search_experiments()}
    by_number = {entry.experiment_id: entry for entry in known.values()}
    if address.place in by_number:
        return by_number[address.place]
    listed = ", ".join(sorted(known)[:20]) + (", …" if len(known) > 20 else "")
    raise InputError(
        f"Expected `runs` to name an MLflow experiment, got {address.place!r}; there are: "
        f"{listed or 'none'}.{did_you_mean(address.place, known)}"
    )


def _runs(client: MlflowClient, experiment: Experiment) -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment.experiment_id], page_token=token)
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
