"""Many runs as one table: a row for every reading that counts."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.store.journal_frame import read_journals
from rote.store.predictions import smallest_type
from rote.store.run_directory import JOURNAL_FILE, PREDICTIONS_FILE, RUN_FILE, read_description

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class RunTable:
    """The checkpoints of many runs.

    Attributes:
        frame: one row per reading that counts: ``run`` (a name), ``row`` (which reading of its run
            it is, from 0), the values of the reading, and every metric under its name. A value
            that is missing, or was not finite, is null.
        descriptions: what was run (``run.json``), by the name of the run.
        paths: where it lies, by the name of the run.
    """

    frame: pl.DataFrame
    descriptions: Mapping[str, Mapping[str, Any]]
    paths: Mapping[str, Path] = field(default_factory=dict)

    def predictions(self, run: str) -> np.ndarray | None:
        """The predicted classes of the pool, or None if a run has none; read when looked at.

        Row i belongs to the reading whose ``row`` is i.
        """
        description = self.descriptions.get(run, {})
        shape = (description.get("pool") or {}).get("predictions")
        file = self.paths.get(run, Path()) / PREDICTIONS_FILE
        if shape is None or run not in self.paths or not file.is_file():
            return None
        dtype = np.dtype(smallest_type(int(description["num_classes"])))
        count = file.stat().st_size // (dtype.itemsize * math.prod(shape))
        # An empty file cannot be mapped.
        return np.memmap(file, dtype, "r", shape=(count, *shape)) if count else None


def read_table(runs: Path | str | Sequence[Path | str]) -> RunTable:
    """Read many runs at once, finished or not; what counts is what ``read_run`` would count.

    Args:
        runs: a run directory, a directory with run directories anywhere below it, or a list of
            either.

    Returns:
        The table, ordered by the name of the run. Two runs of the same name are told apart by as
        much of their path as it takes.

    Raises:
        InputError: if there is no run.
        CorruptRunError: if a file is damaged.

    Example:
        >>> read_table("nowhere")
        Traceback (most recent call last):
        rote.errors.InputError: Expected `runs` to be a directory with runs, got nowhere, ...
    """
    roots = [runs] if isinstance(runs, str | Path) else list(runs)
    found = {path: read_description(path) for path in _find_runs(map(Path, roots))}
    named = _unique_names(
        {path: str(entry.get("name", path.name)) for path, entry in found.items()}
    )
    paths = {named[path]: path for path in sorted(found, key=named.__getitem__)}
    import polars as pl

    frame = read_journals([path / JOURNAL_FILE for path in paths.values()])
    names = pl.Series("run", list(paths), dtype=pl.String)
    return RunTable(
        frame=frame.with_columns(names.gather(frame["run"])),
        descriptions={name: found[path] for name, path in paths.items()},
        paths=paths,
    )


def _find_runs(roots: Iterable[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for root in roots:
        real = os.path.realpath(root)
        runs = {real + path[len(str(root)) :]: Path(path) for path in _walk(root)}
        if not runs:
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which has no {RUN_FILE} "
                "in or below it. Check the path."
            )
        found = runs | found
    return list(found.values())


def _walk(root: Path) -> Iterator[str]:
    for directory, below, files in os.walk(root):
        if RUN_FILE in files:
            below.clear()  # a run has no runs inside it, but may have many checkpoints
            yield directory


def _unique_names(names: Mapping[Path, str]) -> dict[Path, str]:
    """The names, with the end of the path behind those that several runs have."""
    unique = dict(names)
    longest = max((len(path.parts) for path in names), default=0)
    for length in range(1, longest + 1):
        counts = Counter(unique.values())
        for path, name in unique.items():
            if counts[name] > 1:
                unique[path] = f"{names[path]} ({Path(*path.parts[-length:])})"
    return unique
