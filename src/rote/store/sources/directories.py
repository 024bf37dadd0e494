"""Run directories as a source: rote's own store."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from rote.errors import InputError
from rote.store.journal_frame import read_journals
from rote.store.run_directory import JOURNAL_FILE, RUN_FILE, read_description
from rote.store.sources.runs import FoundRun, SourceRuns


def read_directories(roots: Iterable[Path]) -> SourceRuns:
    """Read run directories, and those anywhere below a directory.

    Args:
        roots: where to look.

    Returns:
        The runs, ordered by name.

    Raises:
        InputError: if there is no run.
        CorruptRunError: if a file is damaged.
    """
    found = {path: read_description(path) for path in _find_runs(roots)}
    named = {path: str(entry.get("name", path.name)) for path, entry in found.items()}
    order = sorted(found, key=unique_names(named).__getitem__)
    return SourceRuns(
        [FoundRun(named[path], path, found[path], path) for path in order],
        read_journals([path / JOURNAL_FILE for path in order]),
    )


def unique_names(names: Mapping[Path, str]) -> dict[Path, str]:
    """The names, with the end of the path behind those that several runs have."""
    unique = dict(names)
    longest = max((len(path.parts) for path in names), default=0)
    for length in range(1, longest + 1):
        counts = Counter(unique.values())
        for path, name in unique.items():
            if counts[name] > 1:
                unique[path] = f"{names[path]} ({Path(*path.parts[-length:])})"
    return unique


def _find_runs(roots: Iterable[Path]) -> list[Path]:
    found: dict[str, Path] = {}
    for root in roots:
        real = os.path.realpath(root)
        runs = {real + path[len(str(root)) :]: Path(path) for path in _walk(root)}
        if root.is_file():
            is_table = root.suffix.lower() in (".csv", ".tsv")
            raise InputError(
                f"Expected `runs` to be a directory with runs, got {root}, which is a file."
                + (f" Write csv:{root} to read it as a table." if is_table else "")
            )
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
