"""What reading yields, from wherever: the runs, and one frame with a row for every checkpoint."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import CorruptRunError, RoteError, UnreadableRunWarning
from rote.records import COLUMNS
from rote.store.schema import READING_COLUMNS, is_reserved

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class FoundRun:
    """One run that was found.

    Attributes:
        name: as people call it.
        place: where it lies, such as a directory or an experiment and a number; no two runs have
            the same. Its end tells runs of one name apart.
        description: what was run.
        directory: its directory, if it has one.
        identity: the same for one run, however its place is written; by default the place on disk.
    """

    name: str
    place: Path
    description: Mapping[str, Any] = field(default_factory=dict)
    directory: Path | None = None
    identity: str | None = None


@dataclass(frozen=True)
class SourceRuns:
    """All runs of one source.

    Attributes:
        runs: what was found.
        frame: as that of a ``RunTable``; ``run`` is the position in ``runs``.
        unreadable: why a run is left out, by its place.
        row_checks: ``run``, ``row``, and the checksums of that row in the run's row files.
    """

    runs: Sequence[FoundRun]
    frame: pl.DataFrame
    unreadable: Mapping[Path, str] = field(default_factory=dict)
    row_checks: pl.DataFrame | None = None

    def take(self, kept: Sequence[int]) -> SourceRuns:
        """Some of the runs, by position."""
        import polars as pl

        codes = pl.col("run").replace_strict(kept, range(len(kept)), return_dtype=pl.Int64)

        def taken(frame: pl.DataFrame) -> pl.DataFrame:
            rows = frame.filter(pl.col("run").is_in(kept))
            return rows.with_columns(codes) if kept else rows

        checks = None if self.row_checks is None else taken(self.row_checks)
        runs = [self.runs[at] for at in kept]
        return replace(self, runs=runs, frame=taken(self.frame), row_checks=checks)


class UnreadableRuns:
    """The runs of one source that cannot be read: one bad run must not hide all others."""

    def __init__(self) -> None:
        self.errors: dict[Path, RoteError] = {}

    def add(self, place: Path, error: RoteError) -> None:
        """Note why a run cannot be read."""
        self.errors[place] = error

    @contextmanager
    def caught(self, place: Path) -> Iterator[None]:
        """Note it if the block finds that a run cannot be read."""
        try:
            yield
        except CorruptRunError as error:
            self.add(place, error)

    def left_out_of(self, source: SourceRuns) -> SourceRuns:
        """The source without them, and a warning for each.

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


def column_of(name: str) -> str:
    """The column of somebody else's metric: if a table needs its name, with ``metric:`` before it.

    Example:
        >>> column_of("accuracy"), column_of("score")
        ('accuracy', 'metric:score')
    """
    is_taken = is_reserved(name) and name not in COLUMNS
    return f"metric:{name}" if is_taken else name


def checkpoint(step: int, metrics: Mapping[str, float | None]) -> Checkpoint:
    """A checkpoint from the metrics that somebody else logged at a step.

    A metric with a name that a table of runs needs for something else has ``metric:`` before it; a
    value that is not finite is None.
    """
    values = {column_of(name): value for name, value in metrics.items()}
    finite = {k: v if v is not None and math.isfinite(v) else None for k, v in values.items()}
    return finite | {"step": step}


def frame_of(checkpoints: Iterable[Sequence[Checkpoint]]) -> pl.DataFrame:
    """A frame from checkpoints, run by run.

    Args:
        checkpoints: one sequence per run, ordered by step.

    Returns:
        The columns of a reading, then whatever else there is.
    """
    import polars as pl

    rows = [
        {**line, "run": run, "row": row}
        for run, lines in enumerate(checkpoints)
        for row, line in enumerate(lines)
    ]
    known = ("run", "row", *READING_COLUMNS)
    others = sorted({name for row in rows for name in row} - set(known) - {"schema", "kind"})
    types = {"flags": pl.List(pl.String)} | dict.fromkeys(("run", "row", "step"), pl.Int64)
    schema = {name: types.get(name, pl.Float64) for name in (*known, *others)}
    return pl.DataFrame(rows, schema=schema)


def unique_names(names: Mapping[Path, str]) -> dict[Path, str]:
    """The names, with the end of the path behind those that several runs have."""
    unique = dict(names)
    longest = max((len(path.parts) for path in names), default=0)
    for length in range(1, longest + 1):
        counts = Counter(unique.values())
        if len(counts) == len(unique):
            break
        for path, name in unique.items():
            if counts[name] > 1:
                unique[path] = f"{names[path]} ({Path(*path.parts[-length:])})"
    # A directory's name may be bytes that are no text; tables hold text only.
    return {path: name.encode(errors="backslashreplace").decode() for path, name in unique.items()}
