"""Runs that W&B wrote offline as a source."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.store.formats.wandb_file import CONFIG_KEY, WandbRun, read_wandb_file
from rote.store.sources.runs import FoundRun, SourceRuns, checkpoint, frame_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rote.store.address import Address
    from rote.store.sources.runs import Checkpoint


def read_wandb_offline(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read every ``run-*.wandb`` in or below a directory, such as ``wandb``.

    In a run that rote wrote, the readings count as in rote's own store. In any other, there is a
    checkpoint for every step of W&B's.

    Args:
        address: the directory, or one file.
        mapping: not needed here.

    Raises:
        InputError: if there is no such file, or it cannot be read.
        CorruptRunError: if a file is damaged, or not as this version of rote knows them.
        MissingExtraError: if W&B is not installed.
    """
    root = address.path
    files = (
        [root]
        if root.is_file()
        else sorted(
            # `latest-run` is a link to one of the others.
            {path.resolve(): path for path in sorted(root.rglob("run-*.wandb"))}.values()
        )
    )
    if not address.place or not files:
        raise InputError(
            f"Expected `runs` to be wandb-offline:DIR with files run-*.wandb in or below it, got "
            f"{address.place!r}. Runs that W&B keeps online can be exported as CSV: csv:FILE."
        )
    try:
        read = [read_wandb_file(path) for path in files]
    except OSError as error:
        raise InputError(f"Expected {address} to be readable, got: {error}.") from error
    found = [_found(path, run) for path, run in zip(files, read, strict=True)]
    return SourceRuns(found, frame_of(map(_checkpoints, read)))


def _found(path: Path, run: WandbRun) -> FoundRun:
    ours = run.config.get(CONFIG_KEY)
    description = ours if isinstance(ours, dict) else {"params": dict(run.config)}
    name = str(description.get("name") or run.name)
    return FoundRun(name, path, {**description, "name": name})


def _checkpoints(run: WandbRun) -> list[Checkpoint]:
    if run.lines is not None:
        return list(run.lines)
    rows: dict[int, dict[str, float | None]] = defaultdict(dict)
    for row in run.rows:
        rows[int(row.get("_step", 0))] |= {
            name: float(value)
            for name, value in row.items()
            if isinstance(value, int | float) and not name.startswith("_")
        }
    return [checkpoint(step, rows[step]) for step in sorted(rows)]
