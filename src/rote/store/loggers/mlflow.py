"""MLflow: a run of its own in an experiment, or the run that the caller has open.

MLflow keeps every point for ever. Every reading is one batch of metrics with a timestamp of its
own. Timestamps that only grow put the points of a run in the order of a journal, so that a point
that was voided later can be told.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import CorruptRunError, InputError, RoteError, RunExistsError, did_you_mean
from rote.extras import require
from rote.store.holdout import NEIGHBORS_FILE, encode_votes
from rote.store.journal import (
    SCHEMA_VERSION,
    Line,
    collect_numbers,
    decode_reading,
    drop_void_lines,
    encode_resume,
    is_reserved,
)
from rote.store.logger import Logger
from rote.store.nested_tables import flatten_tables
from rote.store.row_file import PREDICTIONS, RowFile, RowLayout, get_row_path, parse_row_layouts
from rote.store.run_names import NAMED_BY_LOGGER, name_by_settings
from rote.store.run_record import CHECKPOINTS_FILE, name_checkpoints
from rote.store.sinks import Opened
from rote.store.table import (
    Checkpoint,
    FoundRun,
    SourceRuns,
    UnreadableRuns,
    make_checkpoint,
    make_frame,
)

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Experiment, Metric, Run

    from rote.records import Reading
    from rote.store.logger import Address


_ARTIFACTS = "rote"
_ROWS = f"{_ARTIFACTS}/predictions"
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
    """Import MLflow; if it is rote that loads it, without its telemetry.

    Raises:
        MissingExtraError: if it is not installed.
    """
    if "mlflow" not in sys.modules:
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
    return require("mlflow", extra="mlflow")


def split_place(place: str) -> tuple[str, str | None]:
    """Split ``EXPERIMENT[@uri]``; the store is None if it is not named.

    Example:
        >>> split_place("digits@sqlite:///mlflow.db")
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


def make_client(uri: str | None) -> MlflowClient:
    """Make a separate client: nothing about the caller's MLflow is changed.

    Args:
        uri: the store, or the path of an SQLite file; by default what MLflow is set to.
    """
    client: MlflowClient = import_mlflow().MlflowClient(tracking_uri=resolve_uri(uri))
    return client


def resolve_uri(uri: str | None) -> str:
    """Return the address of a store, as MLflow wants it."""
    if uri is None:
        return str(import_mlflow().get_tracking_uri())
    if "://" in uri or uri.startswith(("databricks", "file:")) or Path(uri).is_dir():
        return uri
    return f"sqlite:///{Path(uri).expanduser().absolute()}"


@contextmanager
def limit_retries() -> Iterator[None]:
    """Give up on a server that is down in seconds, not MLflow's minutes, unless retries are set."""
    if _RETRIES in os.environ:
        yield
        return
    os.environ[_RETRIES] = "2"
    try:
        yield
    finally:
        del os.environ[_RETRIES]


def make_tags(description: Mapping[str, Any]) -> dict[str, str]:
    """Convert a description to tags, in pieces that MLflow takes whole."""
    text = json.dumps(description, allow_nan=False)
    pieces = [text[at : at + _TAG_LENGTH] for at in range(0, len(text), _TAG_LENGTH)]
    tags = {f"{_DESCRIPTION_TAG}{number:02}": piece for number, piece in enumerate(pieces)}
    return {NAME_TAG: str(description["name"]), SCHEMA_TAG: str(SCHEMA_VERSION)} | tags


def make_params(description: Mapping[str, Any]) -> dict[str, str]:
    """Return what people compare runs by: plain values of a description, under dotted names."""
    kept = ("seed", "num_classes", "policy", "labels", "holdout", "model", "optimizer")
    found = flatten_tables({name: description.get(name) for name in kept})
    return {
        escape_name(f"rote.{name}"): str(value)[:_PARAM_LENGTH]
        for name, value in found
        if value is not None and value != {}
    }


def read_run_description(run: Run) -> dict[str, Any]:
    """Return what was run: as rote wrote it, or the parameters that MLflow has.

    Raises:
        CorruptRunError: if what rote wrote is damaged.
    """
    tags = run.data.tags
    pieces = [tags[name] for name in sorted(tags) if name.startswith(_DESCRIPTION_TAG)]
    try:
        described = json.loads("".join(pieces)) if pieces else {"params": dict(run.data.params)}
    except ValueError as error:
        raise CorruptRunError(
            f"The tags of MLflow run {run.info.run_id} are damaged: {error}."
        ) from error
    own = {k: v for k, v in run.data.params.items() if not k.startswith("rote.")}
    others = {"params": own} if own else {}
    return {**others, **described, "name": run.info.run_name or run.info.run_id}


def make_points(reading: Reading, row: int) -> dict[str, float]:
    """Convert a reading to metrics."""
    flags = {_FLAG + flag: float(place) for place, flag in enumerate(reading.flags)}
    numbers = collect_numbers(reading) | flags | {READING: float(row)}
    return {escape_name(name): value for name, value in numbers.items()}


def escape_name(name: str) -> str:
    """Return a name that MLflow takes: other letters are spelled by their numbers.

    Example:
        >>> escape_name("a*b"), escape_name("a?b"), unescape_name("a_u002a_b")
        ('a_u002a_b', 'a_u003f_b', 'a*b')
    """
    return _FORBIDDEN.sub(lambda found: f"_u{ord(found[0]):04x}_", name)


def unescape_name(name: str) -> str:
    """Undo what ``escape_name`` does."""
    return _SPELLED.sub(lambda found: chr(min(int(found[1], 16), sys.maxunicode)), name)


def read_lines(client: MlflowClient, run: Run) -> list[Line]:
    """Return the readings that count of a run that rote wrote.

    What others logged into the same run stands beside the reading of the same step.

    Raises:
        CorruptRunError: if it is of a version that is not known.
    """
    run_id = run.info.run_id
    history = {name: client.get_metric_history(run_id, name) for name in run.data.metrics}
    lines: dict[tuple[int, int], dict[str, Any]] = {}
    schema = _parse_integer(run.data.tags.get(SCHEMA_TAG))
    for point in history.pop(RESUMED_AFTER, ()):
        lines[point.timestamp, point.step] = encode_resume(int(point.value))
    for point in history.pop(READING, ()):
        own = {"schema": schema, "kind": "reading", "step": point.step}
        lines[point.timestamp, point.step] = {**own, "flags": []}
    beside: dict[int, dict[str, float | None]] = defaultdict(dict)
    for name, points in history.items():
        for point in sorted(points, key=lambda point: point.timestamp):
            line = lines.get((point.timestamp, point.step))
            if line is None and not is_reserved(name):
                beside[point.step][name] = read_value(point)
            elif line is not None and name.startswith(_FLAG):
                line["flags"].append((point.value, unescape_name(name.removeprefix(_FLAG))))
            elif line is not None:
                line[unescape_name(name)] = read_value(point)
    for line in lines.values():
        line["flags"] = [flag for _, flag in sorted(line.get("flags", ()))]
    in_order = [lines[key] for key in sorted(lines)]
    kept = drop_void_lines(in_order, f"MLflow run {run_id}", is_retold=True)
    return [{**beside[line["step"]], **line} for line in kept]


def read_value(point: Metric) -> float | None:
    """Return a value, or None if it was not finite: MLflow keeps infinity as the largest number."""
    value = float(point.value)
    return value if math.isfinite(value) and abs(value) < sys.float_info.max else None


def find_last_timestamp(client: MlflowClient, run: Run) -> int:
    """Return the time of rote's last write, in milliseconds."""
    marks = [name for name in (READING, RESUMED_AFTER) if name in run.data.metrics]
    points = [p for name in marks for p in client.get_metric_history(run.info.run_id, name)]
    return max((point.timestamp for point in points), default=0)


def _parse_integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


class MlflowSink:
    """Logs readings as metrics of one MLflow run.

    Args:
        client: of the store.
        run_id: of the run.
        is_own: whether the run is rote's, to be ended with it.
        layout: of the predictions, if the run predicts.
        since: no point may be as old as this, in milliseconds.
    """

    def __init__(
        self,
        client: MlflowClient,
        run_id: str,
        *,
        is_own: bool,
        layout: RowLayout | None = None,
        since: int = 0,
    ) -> None:
        self._client = client
        self._run_id = run_id
        self._is_own = is_own
        self._layout = layout
        self._time = since

    def append(self, reading: Reading, row: int) -> None:
        """Log one reading in one request, and its predictions as an artifact."""
        if reading.predictions is not None and self._layout is not None:
            values = np.ascontiguousarray(reading.predictions, dtype=self._layout.dtype)
            self._keep(f"{_ROWS}/{row:08d}.bin", values.tobytes())
        self._log(make_points(reading, row), reading.step, reading.note)

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep nearest-neighbor votes as an artifact."""
        self._keep(f"{_ARTIFACTS}/{NEIGHBORS_FILE}", encode_votes(votes))

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep where the weights are as an artifact."""
        with tempfile.TemporaryDirectory() as folder:
            name_checkpoints(Path(folder), files)
            content = Path(folder, CHECKPOINTS_FILE).read_bytes()
        self._keep(f"{_ARTIFACTS}/{CHECKPOINTS_FILE}", content)

    def _keep(self, name: str, content: bytes) -> None:
        place, _, file = name.rpartition("/")
        with tempfile.TemporaryDirectory() as folder, limit_retries():
            Path(folder, file).write_bytes(content)
            self._client.log_artifact(self._run_id, f"{folder}/{file}", place)

    def resume_after(self, step: int) -> None:
        """Log that points after ``step`` up to now do not count."""
        self._log({RESUMED_AFTER: float(step)}, step)

    def close(self) -> None:
        """End the run, if it is rote's."""
        if self._is_own:
            with limit_retries():
                self._client.set_terminated(self._run_id)

    def _log(self, values: Mapping[str, float], step: int, note: str = "") -> None:
        from mlflow.entities import Metric, RunTag

        self._time = max(self._time + 1, time.time_ns() // 1_000_000)
        points = [Metric(name, value, self._time, step) for name, value in values.items()]
        with limit_retries():
            tags = [RunTag(f"{NOTE_TAG}{step:06}", note)] if note else []
            self._client.log_batch(self._run_id, metrics=points, tags=tags, synchronous=True)


def open_mlflow(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run, or resume one.

    Args:
        address: without an experiment, the active run is meant.
        description: what is run; without a name, MLflow gives one.
        resume: resume the run of that name, or the active one.

    Raises:
        InputError: if the store does not answer, there is no active run, or not exactly one of the
            name.
        RunExistsError: if the active run has a tracker's readings already.
    """
    import_mlflow()
    try:
        with limit_retries():
            return _open(address, description, resume=resume)
    except RoteError:
        raise
    except Exception as error:
        raise InputError(f"Cannot write to the MLflow store of {address}: {error}") from error


def _open(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    experiment, uri = split_place(address.place)
    client, name = make_client(uri), description.get("name")
    if not experiment:
        run = _find_active(address)
    elif resume:
        run = _find_run(client, address, experiment, name)
    else:
        run = _create_run(client, experiment, name)
    if resume:
        return _resume_run(client, run, is_own=bool(experiment))
    return _start_run(client, run, description, is_own=bool(experiment))


def _start_run(
    client: MlflowClient, run: Run, description: Mapping[str, Any], *, is_own: bool
) -> Opened:
    place = f"MLflow run {run.info.run_name}"
    if SCHEMA_TAG in run.data.tags:
        raise RunExistsError(
            f"The active {place} already holds readings.", place, "Start another run."
        )
    named = {**description, "name": description.get("name") or run.info.run_name}
    if is_own and not description.get("name"):
        named[NAMED_BY_LOGGER] = True
    undo = partial(_delete, client, run) if is_own else partial(_clear, client, run, named)
    try:
        _describe(client, run, named)
    except BaseException:
        with suppress(Exception):  # what went wrong first is what counts
            undo()
        raise
    layout = _parse_layout(description)
    sink = MlflowSink(client, run.info.run_id, is_own=is_own, layout=layout)
    return Opened(sink, place, undo=undo)


def _resume_run(client: MlflowClient, run: Run, *, is_own: bool) -> Opened:
    place = f"MLflow run {run.info.run_name}"
    if SCHEMA_TAG not in run.data.tags:
        raise InputError(
            f"No run to resume: the active {place} has no readings. Pass resume=False to start "
            "there."
        )
    since = find_last_timestamp(client, run)
    held = tuple(decode_reading(line) for line in read_lines(client, run))
    if is_own:
        client.update_run(run.info.run_id, status="RUNNING")
    described = read_run_description(run)
    layout = _parse_layout(described)
    sink = MlflowSink(client, run.info.run_id, is_own=is_own, layout=layout, since=since)
    undo = partial(client.update_run, run.info.run_id, status=run.info.status)
    return Opened(sink, place, described, held, undo=undo if is_own else None)


def _delete(client: MlflowClient, run: Run) -> None:
    """Take a run of rote's back."""
    with limit_retries():
        client.set_terminated(run.info.run_id, status="FAILED")
        client.delete_run(run.info.run_id)


def _clear(client: MlflowClient, run: Run, description: Mapping[str, Any]) -> None:
    """Take the description out of another's run: the tags, since parameters cannot be deleted."""
    with limit_retries():
        written = client.get_run(run.info.run_id).data.tags
        for tag in make_tags(description).keys() & written.keys():
            client.delete_tag(run.info.run_id, tag)


def _find_active(address: Address) -> Run:
    mlflow = import_mlflow()
    active: Run | None = mlflow.active_run()
    if active is None or address.place:
        lacking = "an active run" if active is None else "an experiment"
        raise InputError(
            f"{str(address)!r} lacks {lacking}. Write mlflow:EXPERIMENT, or mlflow: inside a `with "
            "mlflow.start_run()`."
        )
    return make_client(None).get_run(active.info.run_id)


def _create_run(client: MlflowClient, experiment: str, name: str | None) -> Run:
    found = client.get_experiment_by_name(experiment)
    if found is None:
        place = _locate_artifacts(client.tracking_uri)
        number = client.create_experiment(experiment, artifact_location=place)
    else:
        number = found.experiment_id
    return client.create_run(number, run_name=name)


def _locate_artifacts(uri: str) -> str | None:
    """Return the place of artifacts: beside an SQLite file; None if the store chooses it.

    MLflow itself would write them below the current directory, wherever the store is.
    """
    if not uri.startswith("sqlite:///"):
        return None
    file = uri.removeprefix("sqlite:///").partition("?")[0]
    return (Path(file).absolute().parent / "mlruns").as_uri()


def _find_run(client: MlflowClient, address: Address, experiment: str, name: str | None) -> Run:
    there = client.get_experiment_by_name(experiment)
    # Names are compared here: one may hold quotes, which the filter cannot.
    ours = [] if there is None else _search_runs(client, there, f"tags.`{SCHEMA_TAG}` != ''")
    found = [run for run in ours if run.data.tags.get(NAME_TAG) == name]
    if len(found) != 1:
        known = ", ".join(run.info.run_id for run in found) or "none"
        raise InputError(
            f"No single run to resume in {address} with name = {name!r} (found: {known}). Pass "
            "its name. If several have one name, open one with mlflow.start_run(run_id=...) and "
            "pass save_to='mlflow:'."
        )
    return found[0]


def _describe(client: MlflowClient, run: Run, description: Mapping[str, Any]) -> None:
    from mlflow.entities import Param, RunTag

    tags = [RunTag(key, value) for key, value in make_tags(description).items()]
    params = [Param(key, value) for key, value in make_params(description).items()]
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
    experiment, uri = split_place(address.place)
    _check_sqlite(resolve_uri(uri))
    try:
        with limit_retries():
            client = make_client(uri)
            source = _read(client, experiment)
    except RoteError:
        raise
    except Exception as error:
        raise InputError(f"Cannot read the MLflow store of {address}: {error}") from error
    if not source.runs:
        raise InputError(f"{address} has no runs. Check the name.")
    return source


def _read(client: MlflowClient, experiment: str) -> SourceRuns:
    place, unreadable = Path(f"mlflow:{experiment}"), UnreadableRuns()
    found: list[FoundRun] = []
    checkpoints: list[list[Checkpoint]] = []
    for run in _search_runs(client, _find_experiment(client, experiment)):
        number = run.info.run_id
        with unreadable.catch(place / number):
            described, lines = read_run_description(run), _read_checkpoints(client, run)
            evidence = _download_evidence(client, run, described)
            found.append(
                FoundRun(
                    described["name"],
                    place / number,
                    described,
                    identity=number,
                    evidence=evidence,
                )
            )
            checkpoints.append(lines)
    found = name_by_settings(found)
    return unreadable.leave_out(SourceRuns(found, make_frame(checkpoints)))


def _parse_layout(description: Mapping[str, Any]) -> RowLayout | None:
    return parse_row_layouts({**description, "rows": None}).get(PREDICTIONS)


def _download_evidence(
    client: MlflowClient, run: Run, description: Mapping[str, Any]
) -> Path | None:
    """Download predictions, votes and names of checkpoints into a folder like a run directory.

    Returns:
        The folder, which is removed when the process ends; None if the run has no such artifacts.
    """
    if SCHEMA_TAG not in run.data.tags or not client.list_artifacts(run.info.run_id, _ARTIFACTS):
        return None
    holder = tempfile.TemporaryDirectory(prefix="rote-mlflow-", ignore_cleanup_errors=True)
    _downloads.append(holder)
    folder = Path(client.download_artifacts(run.info.run_id, _ARTIFACTS, holder.name))
    layout, pieces = _parse_layout(description), sorted((folder / "predictions").glob("*.bin"))
    if layout is not None and pieces:
        rows = RowFile(get_row_path(folder, PREDICTIONS), layout)
        for piece in pieces:
            content = piece.read_bytes()
            if piece.stem.isdigit() and len(content) == layout.size:
                rows.write(
                    int(piece.stem), np.frombuffer(content, layout.dtype).reshape(layout.shape)
                )
        rows.close()
    return folder


_downloads: list[tempfile.TemporaryDirectory[str]] = []
"""Folders that tables of runs still read from."""


def _check_sqlite(uri: str) -> None:
    """Refuse a store that does not exist: reading must not create an empty one."""
    path = Path(uri.removeprefix("sqlite:///"))
    if uri.startswith("sqlite:///") and not path.is_file():
        raise InputError(
            f"MLflow store not found: {path}. Name the store of the experiment: "
            "mlflow:EXPERIMENT@sqlite:///PATH, or @http://SERVER."
        )


def _find_experiment(client: MlflowClient, name: str) -> Experiment:
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


def _search_runs(client: MlflowClient, experiment: Experiment, wanted: str = "") -> list[Run]:
    found: list[Run] = []
    token = None
    while True:
        page = client.search_runs([experiment.experiment_id], wanted, page_token=token)
        found += page
        token = page.token
        if not token:
            return found


def _read_checkpoints(client: MlflowClient, run: Run) -> list[Checkpoint]:
    if SCHEMA_TAG in run.data.tags:
        return list(read_lines(client, run))
    rows: dict[int, dict[str, float | None]] = defaultdict(dict)
    for name in run.data.metrics:
        points = client.get_metric_history(run.info.run_id, name)
        for point in sorted(points, key=lambda point: point.timestamp):
            rows[point.step][name] = read_value(point)
    return [make_checkpoint(step, rows[step]) for step in sorted(rows)]


LOGGER = Logger(open=open_mlflow, read=read_mlflow, traces=1)
