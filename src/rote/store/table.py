"""Many runs as one table, from run directories and other sources: a row for every reading."""

from __future__ import annotations

import math
import os
import stat
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from rote.errors import (
    CorruptRunError,
    DamagedRowsWarning,
    InputError,
    RoteError,
    UnreadableRunWarning,
)
from rote.records import Column, find_column
from rote.store.holdout import read_given_labels, read_neighbor_votes
from rote.store.journal import READING_COLUMNS, ROW_CHECK, RUN_DIRECTORY, SYNCED_ROWS
from rote.store.journal_frame import read_journals
from rote.store.logger import Address, load_logger, parse_address
from rote.store.mapping import apply_mapping, check_mapping, name_column
from rote.store.row_file import PREDICTIONS, are_classes, find_damaged_row, get_row_path, map_rows
from rote.store.run_record import (
    JOURNAL_FILE,
    RUN_FILE,
    find_checkpoint,
    make_lost_rows_warning,
    pause_garbage_collection,
    read_description,
    read_row_layouts,
)
from rote.store.run_status import read_workload

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class FoundRun:
    """One run in a source.

    Attributes:
        name: its name for users.
        place: where it lies, such as a directory or an experiment and a number; no two runs have
            the same. Its end tells runs of one name apart.
        description: the description of the run.
        directory: its directory, if it has one.
        identity: the same for one run, however its place is written; by default the place on disk.
        evidence: where its rows per sample, votes and names of checkpoints are, if not there.

    Example:
        >>> from pathlib import Path
        >>> FoundRun("a", Path("runs/a"), {"num_classes": 10}).description["num_classes"]
        10
    """

    name: str
    place: Path
    description: Mapping[str, Any] = field(default_factory=dict)
    directory: Path | None = None
    identity: str | None = None
    evidence: Path | None = None


@dataclass(frozen=True)
class SourceRuns:
    """All runs in one source.

    Attributes:
        runs: the runs.
        frame: a frame as in ``RunTable``, but ``run`` is the position in ``runs``.
        unreadable: why a run is left out, by its place.
        row_checks: ``run``, ``row``, and the checksums of that row in the run's row files.

    Example:
        >>> import polars as pl
        >>> from pathlib import Path
        >>> frame = pl.DataFrame({"run": [0], "row": [0], "step": [1]})
        >>> SourceRuns([FoundRun("a", Path("runs/a"))], frame).runs[0].name
        'a'
    """

    runs: Sequence[FoundRun]
    frame: pl.DataFrame
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    row_checks: pl.DataFrame | None = None

    def take(self, kept: Sequence[int]) -> SourceRuns:
        """Return some of the runs, by position."""
        import polars as pl

        codes = pl.col("run").replace_strict(kept, range(len(kept)), return_dtype=pl.Int64)

        def pick(frame: pl.DataFrame) -> pl.DataFrame:
            rows = frame.filter(pl.col("run").is_in(kept))
            return rows.with_columns(codes) if kept else rows

        checks = None if self.row_checks is None else pick(self.row_checks)
        runs = [self.runs[at] for at in kept]
        return replace(self, runs=runs, frame=pick(self.frame), row_checks=checks)


class UnreadableRuns:
    """The unreadable runs of one source: one bad run must not hide all others."""

    def __init__(self) -> None:
        self.errors: dict[Path, RoteError] = {}

    def add(self, place: Path, error: RoteError) -> None:
        """Note why a run cannot be read."""
        self.errors[place] = error

    @contextmanager
    def catch(self, place: Path) -> Iterator[None]:
        """Record that a run cannot be read if the block fails."""
        try:
            yield
        except CorruptRunError as error:
            self.add(place, error)

    def leave_out(self, source: SourceRuns) -> SourceRuns:
        """Return the source without them, and warn of each.

        Raises:
            RoteError: if there is no other run; what is wrong with the first.
        """
        kept = [at for at, run in enumerate(source.runs) if run.place not in self.errors]
        if self.errors and not kept:
            raise next(iter(self.errors.values()))
        for place, error in self.errors.items():
            warnings.warn(UnreadableRunWarning(f"Left out {place}: {error}"), stacklevel=3)
        reasons = {place: str(error) for place, error in self.errors.items()}
        return replace(source if not reasons else source.take(kept), unreadable=reasons)


Checkpoint = Mapping[str, Any]
"""The values of one checkpoint by name, ``step`` and perhaps ``flags`` among them."""


def make_checkpoint(step: int, metrics: Mapping[str, float | None]) -> Checkpoint:
    """Make a checkpoint of the metrics that another program logged at a step.

    A metric with a name that a table of runs needs for something else has ``metric:`` before it; a
    value that is not finite is None.
    """
    values = {name_column(name): value for name, value in metrics.items()}
    finite = {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()}
    return finite | {"step": step}


def make_row_checks(checkpoints: Sequence[Sequence[Checkpoint]]) -> pl.DataFrame | None:
    """Return the checksums of rows per sample that lines of loggers hold, as a table of runs does.

    Args:
        checkpoints: one sequence per run, ordered by step.
    """
    import polars as pl

    names = sorted(
        {key for lines in checkpoints for line in lines for key in line if _is_check(key)}
    )
    if not names:
        return None
    rows = [
        {"run": run, "row": row, SYNCED_ROWS: line.get(SYNCED_ROWS)}
        | {name: line.get(name) for name in names}
        for run, lines in enumerate(checkpoints)
        for row, line in enumerate(lines)
    ]
    whole = dict.fromkeys(("run", "row", SYNCED_ROWS), pl.Int64)
    return pl.DataFrame(rows, schema=whole | dict.fromkeys(names, pl.Float64))


def _is_check(name: str) -> bool:
    return name.startswith(ROW_CHECK)


def make_frame(checkpoints: Iterable[Sequence[Checkpoint]]) -> pl.DataFrame:
    """Make a frame of checkpoints, run by run.

    Args:
        checkpoints: one sequence per run, ordered by step.

    Returns:
        The columns of a reading, then whatever else there is.

    Example:
        >>> make_frame([]).height
        0
    """
    import polars as pl

    rows = [
        {**line, "run": run, "row": row}
        for run, lines in enumerate(checkpoints)
        for row, line in enumerate(lines)
    ]
    known = ("run", "row", *READING_COLUMNS)
    unwanted = {*known, "schema", "kind", SYNCED_ROWS}
    others = sorted({n for row in rows for n in row if n not in unwanted and not _is_check(n)})
    types = {"flags": pl.List(pl.String)} | dict.fromkeys(("run", "row", "step"), pl.Int64)
    schema = {name: types.get(name, pl.Float64) for name in (*known, *others)}
    return pl.DataFrame([{n: row.get(n) for n in schema} for row in rows], schema=schema)


def make_names_unique(names: Mapping[Path, str]) -> dict[Path, str]:
    """Return the names, with the end of the path behind those that several runs have."""
    unique = dict(names)
    longest = max((len(path.parts) for path in names), default=0)
    for length in range(1, longest + 1):
        counts = Counter(unique.values())
        if len(counts) == len(unique):
            break
        for path, name in unique.items():
            if counts[name] > 1:
                unique[path] = f"{names[path]} ({Path(*path.parts[-length:])})"
    # A directory's name may not be valid text, and tables hold only text.
    return {path: name.encode(errors="backslashreplace").decode() for path, name in unique.items()}


@pause_garbage_collection()
def read_directories(roots: Iterable[Path]) -> SourceRuns:
    """Read run directories, and those anywhere below a directory; ordered by name.

    A run that cannot be read is left out with an ``UnreadableRunWarning``, unless there is no
    other.

    Raises:
        InputError: if there is no run.
        CorruptRunError: if a file is damaged.
    """
    unreadable = UnreadableRuns()
    paths = _find_runs(roots, unreadable)
    found = _read_descriptions(paths, unreadable)
    frame, damaged = read_journals([f"{path}/{JOURNAL_FILE}" for path in paths])
    unreadable.errors |= {paths[run]: error for run, error in damaged.items() if run in found}
    named = {paths[run]: _name_run(paths[run], entry) for run, entry in found.items()}
    unique = make_names_unique(named)
    order = sorted(found, key=lambda run: unique[paths[run]])
    runs = [FoundRun(named[paths[run]], paths[run], found[run], paths[run]) for run in order]
    frame = _put_in_order(frame, len(paths), order)
    checks = [name for name in frame.columns if name.startswith(ROW_CHECK)]
    source = SourceRuns(
        runs,
        frame.drop(SYNCED_ROWS, *checks),
        row_checks=frame.select("run", "row", SYNCED_ROWS, *checks) if checks else None,
    )
    return unreadable.leave_out(source)


def _read_descriptions(
    paths: Iterable[Path], unreadable: UnreadableRuns
) -> dict[int, dict[str, Any]]:
    """Read what was run, by the position of its path."""
    found = {}
    for run, path in enumerate(paths):
        try:
            description = read_description(path)
            read_row_layouts(path, description)
        except CorruptRunError as error:
            unreadable.add(path, error)
        else:
            found[run] = description
    return found


def _put_in_order(frame: pl.DataFrame, count: int, order: list[int]) -> pl.DataFrame:
    """Return the readings of the runs in ``order``, some of ``count`` runs."""
    import polars as pl

    if order == list(range(count)):
        return frame
    places = np.full(count, -1)
    places[order] = np.arange(len(order))
    at = places[frame["run"].to_numpy()]
    moved = frame.with_columns(pl.Series("run", at, dtype=pl.Int64)).filter(pl.col("run") >= 0)
    return moved.sort("run", maintain_order=True)


def _name_run(path: Path, description: Mapping[str, Any]) -> str:
    """Replace characters that cannot be encoded, as tables require."""
    return str(description.get("name", path.name)).encode(errors="replace").decode()


def _find_runs(roots: Iterable[Path], unreadable: UnreadableRuns) -> list[Path]:
    found: dict[str, Path] = {}
    for root in roots:
        real, before = os.path.realpath(root), len(unreadable.errors)
        walked = {path: Path(path) for path in _walk(root, unreadable)}
        runs = {real + path[len(str(root)) :]: place for path, place in walked.items()}
        if root.is_file():
            is_table = root.suffix.lower() in (".csv", ".tsv")
            raise InputError(
                f"{root} is a file, not a directory with runs."
                + (f" Write csv:{root} to read it as a table." if is_table else "")
            )
        if not runs and len(unreadable.errors) == before:
            if not root.exists():
                raise InputError(f"Directory not found: {root} (`runs`). Check the path.")
            raise InputError(
                f"No runs in {root}: there is no {RUN_FILE} in or below it. Check the path."
            )
        found = runs | found
    return [found[real] for real in sorted(found)]


def find_directories(roots: Iterable[Path]) -> list[Path]:
    """List the run directories that are there now, each once; perhaps none."""
    found = (path for root in roots for path in _walk(root, UnreadableRuns()))
    return [Path(path) for path in dict.fromkeys(found)]


def _walk(root: Path, unreadable: UnreadableRuns) -> Iterator[str]:
    waiting = [str(root)]
    while waiting:
        directory = waiting.pop()
        if _is_run(directory):
            yield directory  # a run has no runs inside it, but may have many checkpoints
            continue
        try:
            with os.scandir(directory) as found:
                waiting += [entry.path for entry in found if entry.is_dir(follow_symlinks=False)]
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            why = CorruptRunError(f"Cannot read {directory}: {error}.")
            unreadable.add(Path(directory), why)


def _is_run(directory: str) -> bool:
    for name in (RUN_FILE, JOURNAL_FILE):
        with suppress(OSError):
            if not stat.S_ISDIR(os.lstat(f"{directory}/{name}").st_mode):
                return True
    return False


@dataclass(frozen=True)
class RunTable:
    """A table of the checkpoints of many runs.

    Attributes:
        frame: one row per reading that counts: ``run`` (a name), ``row`` (which row of the run's
            row files is its, from 0), the values of the reading, and every metric under its name. A
            value that is missing, or was not finite, is null.
        descriptions: what was run (``run.json``, or what a logger knows), by the name of the run.
        paths: its directory, if it has one, by the name of the run.
        unreadable: why a run is left out, by its place.
        row_checks: of every run in turn, ``run``, ``row``, and the checksums of that row in its row
            files.
        evidence: where rows per sample, votes and names of checkpoints are, if not in ``paths``.

    Example:
        >>> import polars as pl
        >>> frame = pl.DataFrame({"run": ["a", "a"], "row": [0, 1], "step": [1, 2]})
        >>> RunTable(frame, {"a": {}}).frame["step"].max()
        2
    """

    frame: pl.DataFrame
    descriptions: Mapping[str, Mapping[str, Any]]
    paths: Mapping[str, Path] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    row_checks: pl.DataFrame | None = field(default=None, repr=False)
    evidence: Mapping[str, Path] = field(default_factory=dict, repr=False)
    _workloads: dict[str, Mapping[str, Any]] = field(
        default_factory=dict, repr=False, compare=False
    )
    _are_classes: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _whole_rows: dict[tuple[str, str], int] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def columns(self) -> dict[str, Column]:
        """The meaning of every column of numbers in the frame, by name."""
        described: dict[str, Any] = {}
        for description in self.descriptions.values():
            columns = description.get("columns")
            described |= columns if isinstance(columns, Mapping) else {}
        others = {"run", "row", "step", "flags"}
        names = [name for name in self.frame.columns if name not in others]
        return {name: find_column(name, described) for name in names}

    def read_workload(self, run: str) -> Mapping[str, Any]:
        """Return what ``workload.json`` says of a run; nothing if it cannot be read."""
        if run not in self._workloads:
            path = self.paths.get(run)
            self._workloads[run] = {} if path is None else read_workload(path)
        return self._workloads[run]

    def read_given_labels(self, run: str) -> np.ndarray | None:
        """Return the given labels of the holdout, negative where missing; None if not recorded.

        With a ``DamagedRowsWarning`` if what is there are no labels.
        """
        return read_given_labels(self.descriptions.get(run, {}))

    def read_neighbor_votes(self, run: str) -> np.ndarray | None:
        """Return the share of each class among a holdout sample's nearest neighbors.

        Holdout samples × classes, as the run recorded them (``rote.neighbor_votes``); None if it
        did not, and with a ``DamagedRowsWarning`` if what is there cannot be.
        """
        place = self._locate_evidence(run)
        return None if place is None else read_neighbor_votes(place, self.descriptions.get(run, {}))

    def find_checkpoint(self, run: str, step: int) -> Path | None:
        """Find the weights of a run after a step: a file, or a trainer's folder.

        Args:
            run: the name of the run.
            step: the step of a reading.

        Returns:
            The first that exists of those in the run's directory, those that the run named
            (``Tracker.name_checkpoints``), and those in the directory that was written beside a
            logger; None if there is none.
        """
        beside = self.descriptions.get(run, {}).get(RUN_DIRECTORY)
        places = [self._locate_evidence(run), Path(beside) if isinstance(beside, str) else None]
        found = (find_checkpoint(place, step) for place in places if place is not None)
        return next((file for file in found if file is not None), None)

    def _locate_evidence(self, run: str) -> Path | None:
        return self.evidence.get(run, self.paths.get(run))

    def read_predictions(self, run: str) -> np.ndarray | None:
        """Return the predicted classes of the holdout, or None if a run has none.

        Row i belongs to the reading whose ``row`` is i. Of a run that has predicted what is no
        class of its, there are none, with a ``DamagedRowsWarning``.
        """
        found = self.read_rows(run, PREDICTIONS)
        if found is not None and run not in self._are_classes:
            self._are_classes[run] = self._check_classes(run, found)
        return found if self._are_classes.get(run) else None

    def _check_classes(self, run: str, found: np.ndarray) -> bool:
        import polars as pl

        description = self.descriptions[run]
        if are_classes(found, description):
            return True
        counted = self.frame.filter(pl.col("run") == run)["row"].to_numpy()
        used = found[counted[counted < len(found)]]  # rows that do not count may be incomplete
        if are_classes(used, description):
            return True
        message = (
            f"Left out the predictions of {run!r}: class {used.max()} is none of its "
            f"{description['num_classes']}. Restore "
            f"{get_row_path(self._locate_evidence(run) or Path(), PREDICTIONS)}."
        )
        warnings.warn(DamagedRowsWarning(message), stacklevel=3)
        return False

    def read_rows(self, run: str, name: str) -> np.ndarray | None:
        """Return what was recorded per sample under a name, or None; it is read when looked at.

        Row i belongs to the reading whose ``row`` is i. Where that of a reading is not as it was
        written, there are none of the run, with a ``DamagedRowsWarning``.

        Raises:
            CorruptRunError: if the run's description of its rows is damaged.
        """
        path = self._locate_evidence(run)
        if path is None:
            return None
        layout = read_row_layouts(path, self.descriptions.get(run, {})).get(name)
        if layout is None:
            return None
        found = map_rows(get_row_path(path, name), layout)
        if (run, name) not in self._whole_rows:
            self._whole_rows[run, name] = self._count_whole_rows(run, name, found)
        whole = self._whole_rows[run, name]
        return found[:whole] if found is not None and whole else None

    def _count_whole_rows(self, run: str, name: str, found: np.ndarray | None) -> int:
        """Count the rows before the first damaged one; 0 if it is not the end that was lost."""
        count = 0 if found is None else len(found)
        checks, key = self._checks_by_run.get(run), f"{ROW_CHECK}{name}"
        if checks is None or key not in checks.columns:
            return count
        damaged = find_damaged_row(found, checks["row"].to_list(), checks[key].to_list())
        if damaged is None:
            return count
        file = get_row_path(self._locate_evidence(run) or Path(), name)
        if damaged >= (checks[SYNCED_ROWS][-1] or 0):
            warnings.warn(make_lost_rows_warning(file, damaged), stacklevel=4)
            return damaged
        message = (
            f"Left out `{name}` of {run!r}: row {damaged} of {file} is not as it was written. "
            "Restore the file."
        )
        warnings.warn(DamagedRowsWarning(message), stacklevel=4)
        return 0

    @cached_property
    def _checks_by_run(self) -> dict[str, pl.DataFrame]:
        if self.row_checks is None:
            return {}
        lengths = self.row_checks["run"].rle().struct.unnest()
        ends = lengths["len"].cum_sum()
        starts = zip(lengths["value"], ends - lengths["len"], lengths["len"], strict=True)
        return {run: self.row_checks.slice(start, length) for run, start, length in starts}


def read_table(
    runs: Path | str | Sequence[Path | str], mapping: Mapping[str, str] | None = None
) -> RunTable:
    """Read many runs at once, finished or not; what counts is what ``read_run`` would count.

    Args:
        runs: a run directory, a directory with run directories anywhere below it, a source
            (``mlflow:EXPERIMENT[@uri]``, ``tensorboard:LOGDIR``, ``wandb:DIRECTORY``,
            ``csv:FILE``, or ``package.module:Name:PLACE`` for a ``Logger`` of your own), or a list
            of these.
        mapping: where metrics have other names than rote's: from rote's name to theirs, such as
            ``{"susceptibility": "my_metric"}``.

    Returns:
        The table, ordered by the name of the run. Runs of the same name get as much of
        their path as distinguishes them. A run that is named twice, however its place is written,
        counts once.

    Raises:
        InputError: if there is no run, no such source, or no such metric.
        CorruptRunError: if a file is damaged.
        MissingExtraError: if the package of a source is not installed.

    Example:
        >>> read_table("nowhere")
        Traceback (most recent call last):
        rote.errors.InputError: Directory not found: nowhere (`runs`). Check the path.
    """
    mapping = {} if mapping is None else mapping
    paths, addresses = _parse_places(_list_entries(runs))
    loggers = {address: load_logger(address.kind, "runs") for address in addresses}
    is_table = any(logger.is_table for logger in loggers.values())
    if {"run", "step"} & mapping.keys() and not is_table:
        raise InputError("`mapping` renames run or step in csv: files only. Leave them out.")
    parts = [read_directories(paths)] if paths or not addresses else []
    parts += [logger.read(place, mapping) for place, logger in loggers.items() if logger.read]
    check_mapping(mapping, _list_columns(parts))
    frames = apply_mapping([part.frame for part in parts], mapping)
    return _join_parts(
        _drop_duplicates([replace(p, frame=f) for p, f in zip(parts, frames, strict=True)])
    )


def find_run_directories(runs: Path | str | Sequence[Path | str]) -> list[Path] | None:
    """List the run directories that are there now; None if some runs are in a logger instead.

    Raises:
        InputError: if it names no run, or no such logger.
    """
    paths, addresses = _parse_places(_list_entries(runs))
    return None if addresses else find_directories(paths)


def _list_columns(parts: Iterable[SourceRuns]) -> Iterator[str]:
    """Yield the columns that runs have, or describe."""
    for part in parts:
        yield from part.frame.columns
        for run in part.runs:
            described = run.description.get("columns")
            yield from described if isinstance(described, Mapping) else ()


def _list_entries(runs: object) -> list[Path | str]:
    """Return the entries of ``runs``."""
    is_one = isinstance(runs, str | Path) or not isinstance(runs, Iterable)
    entries = [runs] if is_one else list(cast("Iterable[object]", runs))
    if not entries:
        raise InputError("No runs given. Name at least one.")
    for entry in entries:
        if not isinstance(entry, str | os.PathLike):
            is_tracker = hasattr(entry, "readings")
            way = " Give the directory that it writes: its `save_to`." if is_tracker else ""
            raise InputError(
                "Expected `runs` to be a directory, a source such as 'mlflow:EXPERIMENT', or a "
                f"list of them, got {type(entry).__name__ if is_tracker else repr(entry)}.{way}"
            )
    return cast("list[Path | str]", entries)


def _parse_places(entries: Iterable[Path | str]) -> tuple[list[Path], list[Address]]:
    paths: list[Path] = []
    addresses: dict[Address, None] = {}
    for entry in entries:
        address = parse_address(entry, "runs", "read") if isinstance(entry, str) else None
        if address is None:
            paths.append(Path(entry))
        else:
            addresses[address] = None
    return paths, list(addresses)


def _drop_duplicates(parts: Sequence[SourceRuns]) -> list[SourceRuns]:
    """Return the parts without the runs that an earlier one has."""
    seen: set[str] = set()
    kept = []
    for part in parts if len(parts) > 1 else ():
        identities = [run.identity or os.path.realpath(run.place) for run in part.runs]
        new = [at for at, identity in enumerate(identities) if identity not in seen]
        seen.update(identities)
        if len(new) == len(part.runs):
            kept.append(part)
        elif new:
            kept.append(part.take(new))
    return kept or list(parts)


def _join_parts(parts: Sequence[SourceRuns]) -> RunTable:
    import polars as pl

    found = [run for part in parts for run in part.runs]
    unique = make_names_unique({run.place: run.name for run in found})
    names = pl.Series("run", [unique[run.place] for run in found], dtype=pl.String)
    starts = [sum(len(part.runs) for part in parts[:i]) for i in range(len(parts))]
    frames = [
        part.frame.with_columns(names.slice(start).gather(part.frame["run"]))
        for part, start in zip(parts, starts, strict=True)
    ]
    checks = [
        part.row_checks.with_columns(names.slice(start).gather(part.row_checks["run"]))
        for part, start in zip(parts, starts, strict=True)
        if part.row_checks is not None
    ]
    frame = frames[0]
    if not names.is_sorted():
        frame = pl.concat(frames, how="diagonal").sort("run", maintain_order=True)
    elif len(frames) > 1:
        frame = pl.concat(frames, how="diagonal")
    in_order = sorted(found, key=lambda run: unique[run.place])
    return RunTable(
        frame=frame,
        descriptions={unique[run.place]: run.description for run in in_order},
        paths={unique[run.place]: run.directory for run in in_order if run.directory is not None},
        unreadable={str(at): why for part in parts for at, why in part.unreadable.items()},
        row_checks=pl.concat(checks, how="diagonal").sort("run", maintain_order=True)
        if len(checks) > 1
        else next(iter(checks), None),
        evidence={unique[run.place]: run.evidence for run in found if run.evidence is not None},
    )
