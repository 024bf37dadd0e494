"""A run in MLflow: one batch of metrics per reading, all with one timestamp of their own.

MLflow keeps every point for ever. Timestamps that only grow put the points of a run in the order of
a journal, so that a point that was voided later can be told.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import CorruptRunError, InputError
from rote.extras import require
from rote.store.nested_tables import leaves
from rote.store.schema import (
    SCHEMA_VERSION,
    Line,
    is_reserved,
    line_of_resume,
    lines_that_count,
    numbers_of,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

    from rote.records import Reading

NAME_TAG = "rote.run"
SCHEMA_TAG = "rote.schema"
NOTE_TAG = "rote.note."
READING = "rote.reading"
RESUMED_AFTER = "rote.resumed_after"
_FLAG = "rote.flag."
_DESCRIPTION_TAG = "rote.description."
_TAG_LENGTH = 4000  # half of what MLflow takes today, less than what it took before
_PARAM_LENGTH = 500
# The second is what would look like a spelled letter.
_FORBIDDEN = re.compile(r"[^\w/.\- :]|_(?=u[0-9a-f]{4,6}(?:_|[^\w/.\- :]))")
_SPELLED = re.compile(r"_u([0-9a-f]{4,6})_")
# An experiment's name may hold an @ of its own; the one before an address separates.
_STORE = re.compile(r"@(?=[A-Za-z][\w+.-]*:/|/|~|\.{1,2}/|[^@]*\.db$|databricks$)")
_RETRIES = "MLFLOW_HTTP_REQUEST_MAX_RETRIES"


def import_mlflow() -> Any:  # noqa: ANN401
    """The package; if it is rote that loads it, without its telemetry.

    Raises:
        MissingExtraError: if it is not installed.
    """
    if "mlflow" not in sys.modules:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    return require("mlflow", extra="mlflow")


def experiment_and_store(place: str) -> tuple[str, str | None]:
    """The two parts of ``EXPERIMENT[@uri]``; the store is None if it is not named.

    Example:
        >>> experiment_and_store("digits@sqlite:///mlflow.db")
        ('digits', 'sqlite:///mlflow.db')

    Raises:
        InputError: if it is a store without an experiment, which would become one of that name.
    """
    name, *uri = _STORE.split(place, maxsplit=1)
    if not uri and "://" in name:
        raise InputError(
            f"Expected mlflow:EXPERIMENT[@uri], got {place!r}, a store without an experiment. "
            f"Write mlflow:NAME@{place}."
        )
    return name, uri[0] if uri else None


def client_of(uri: str | None) -> MlflowClient:
    """A client of its own: nothing about the caller's MLflow is changed.

    Args:
        uri: the store, or the path of an SQLite file; by default what MLflow is set to.
    """
    client: MlflowClient = import_mlflow().MlflowClient(tracking_uri=resolved(uri))
    return client


def resolved(uri: str | None) -> str:
    """The address of a store, as MLflow wants it."""
    if uri is None:
        return str(import_mlflow().get_tracking_uri())
    if "://" in uri or uri.startswith(("databricks", "file:")) or Path(uri).is_dir():
        return uri
    return f"sqlite:///{Path(uri).expanduser().absolute()}"


@contextmanager
def impatience() -> Iterator[None]:
    """A server that is down is seen in seconds, not in MLflow's minutes, unless one is set."""
    if _RETRIES in os.environ:
        yield
        return
    os.environ[_RETRIES] = "2"
    try:
        yield
    finally:
        del os.environ[_RETRIES]


def tags_of(description: Mapping[str, Any]) -> dict[str, str]:
    """A description as tags, in pieces that MLflow takes whole."""
    text = json.dumps(description, allow_nan=False)
    pieces = [text[at : at + _TAG_LENGTH] for at in range(0, len(text), _TAG_LENGTH)]
    tags = {f"{_DESCRIPTION_TAG}{number:02}": piece for number, piece in enumerate(pieces)}
    return {NAME_TAG: str(description["name"]), SCHEMA_TAG: str(SCHEMA_VERSION)} | tags


def params_of(description: Mapping[str, Any]) -> dict[str, str]:
    """What people compare runs by: the plain values of a description, under dotted names."""
    kept = ("seed", "num_classes", "policy", "labels", "holdout", "model", "optimizer")
    found = leaves({name: description.get(name) for name in kept})
    return {
        allowed(f"rote.{name}"): str(value)[:_PARAM_LENGTH]
        for name, value in found
        if value is not None and value != {}
    }


def description_of(run: Run) -> dict[str, Any]:
    """What was run: as rote wrote it, or the parameters that MLflow has.

    Raises:
        CorruptRunError: if what rote wrote is damaged.
    """
    tags = run.data.tags
    pieces = [tags[name] for name in sorted(tags) if name.startswith(_DESCRIPTION_TAG)]
    try:
        described = json.loads("".join(pieces)) if pieces else {"params": dict(run.data.params)}
    except ValueError as error:
        raise CorruptRunError(
            f"Expected MLflow run {run.info.run_id} to have whole tags, got: {error}."
        ) from error
    return {**described, "name": run.info.run_name or run.info.run_id}


def points_of_reading(reading: Reading, row: int) -> dict[str, float]:
    """A reading as metrics."""
    flags = {_FLAG + flag: float(place) for place, flag in enumerate(reading.flags)}
    numbers = numbers_of(reading) | flags | {READING: float(row)}
    return {allowed(name): value for name, value in numbers.items()}


def allowed(name: str) -> str:
    """A name that MLflow takes: a letter that it does not take is spelled by its number.

    Example:
        >>> allowed("a*b"), allowed("a?b"), as_given("a_u002a_b")
        ('a_u002a_b', 'a_u003f_b', 'a*b')
    """
    return _FORBIDDEN.sub(lambda found: f"_u{ord(found[0]):04x}_", name)


def as_given(name: str) -> str:
    """The inverse of ``allowed``."""
    return _SPELLED.sub(lambda found: chr(min(int(found[1], 16), sys.maxunicode)), name)


def lines_of(client: MlflowClient, run: Run) -> list[Line]:
    """The readings that count of a run that rote wrote.

    What others logged into the same run stands beside the reading of the same step.

    Raises:
        CorruptRunError: if it is of a version that is not known.
    """
    run_id = run.info.run_id
    history = {name: client.get_metric_history(run_id, name) for name in run.data.metrics}
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    schema = _whole(run.data.tags.get(SCHEMA_TAG))
    for point in history.pop(RESUMED_AFTER, ()):
        lines[point.timestamp, point.step] = line_of_resume(int(point.value))
    for point in history.pop(READING, ()):
        own = {"schema": schema, "kind": "reading", "step": point.step}
        lines[point.timestamp, point.step] = {**own, "flags": []}
    beside: dict[int, dict[str, float | None]] = defaultdict(dict)
    for name, points in history.items():
        for point in sorted(points, key=lambda point: point.timestamp):
            line = lines.get((point.timestamp, point.step))
            if line is None and not is_reserved(name):
                beside[point.step][name] = value_of(point)
            elif line is not None and name.startswith(_FLAG):
                line["flags"].append((point.value, as_given(name.removeprefix(_FLAG))))
            elif line is not None:
                line[as_given(name)] = value_of(point)
    for line in lines.values():
        line["flags"] = [flag for _, flag in sorted(line.get("flags", ()))]
    in_order = [lines[key] for key in sorted(lines)]
    kept = lines_that_count(in_order, f"MLflow run {run_id}", is_retold=True)
    return [{**beside[line["step"]], **line} for line in kept]


def value_of(point: Metric) -> float | None:
    """A value, or None if it was not finite: MLflow keeps an infinity as the largest number."""
    value = float(point.value)
    return value if math.isfinite(value) and abs(value) < sys.float_info.max else None


def last_timestamp(client: MlflowClient, run: Run) -> int:
    """When rote wrote the last time, in milliseconds."""
    marks = [name for name in (READING, RESUMED_AFTER) if name in run.data.metrics]
    points = [p for name in marks for p in client.get_metric_history(run.info.run_id, name)]
    return max((point.timestamp for point in points), default=0)


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
