"""W&B: a run of its own in a project, or the run that the caller has open.

W&B promises no format for what it keeps offline. So everything that a verdict needs is also in the
run's folder of files, as a run directory of rote's, and that is what is read.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import CorruptRunError, InputError, RoteError, RunExistsError, did_you_mean
from rote.extras import require
from rote.store.journal import READING_COLUMNS
from rote.store.logger import Logger
from rote.store.run_names import NAMED_BY_LOGGER, name_by_settings
from rote.store.run_record import RUN_FILE, read_description
from rote.store.sinks import CONFIG_KEY, STEP_KEY, Opened, RowSink, open_directory
from rote.store.table import find_directories, read_directories

if TYPE_CHECKING:
    import numpy as np

    from rote.records import Reading
    from rote.store.logger import Address
    from rote.store.run_directory import RunDirectory
    from rote.store.table import SourceRuns

_FOLDER = "rote"
_PROJECT = "wandb_project"


class WandbSink(RowSink):
    """Logs readings as rows of one W&B run, and keeps them with their evidence among its files.

    Args:
        run: the run.
        is_own: whether the run is rote's, to be finished with it.
        directory: among the files of the run; None if nothing is kept there.
    """

    def __init__(
        self,
        run: Any,  # noqa: ANN401
        *,
        is_own: bool,
        directory: RunDirectory | None,
    ) -> None:
        super().__init__(run, is_own=is_own)
        self._directory = directory
        run.define_metric(STEP_KEY, hidden=True)
        for name in READING_COLUMNS:
            if name not in ("step", "flags"):
                run.define_metric(name, step_metric=STEP_KEY)

    def append(self, reading: Reading, row: int) -> None:
        """Log one reading."""
        # W&B first: if the disk refuses, both are tried again, and W&B can take a row twice.
        # Without a step of W&B's, which the caller's own calls count.
        self._log(self._make_row(reading, list(reading.flags)))
        if self._directory is not None:
            self._directory.append(replace(reading, sample_rows={}), row)

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count."""
        super().resume_after(step)
        if self._directory is not None:
            self._directory.resume_after(step)

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep nearest-neighbor votes among the files of the run."""
        if self._directory is not None:
            self._directory.write_votes(votes)

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep where the weights are among the files of the run."""
        if self._directory is not None:
            self._directory.name_checkpoints(files)

    def close(self) -> None:
        """Finish the run, if it is rote's."""
        if self._directory is not None:
            self._directory.close()
        super().close()


def open_wandb(address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a project, or write to the one that is open.

    Args:
        address: without a project, ``wandb.run`` is meant.
        description: what is run; without a name, W&B gives one.
        resume: resume the open run; its earlier readings are read from its folder of files, if
            that is on this machine.

    Raises:
        InputError: if W&B refuses, no run is open, or a project is to be resumed.
        RunExistsError: if the open run has a tracker's readings already.
        RunLockedError: if another tracker is still writing the run that is resumed.
    """
    wandb = require("wandb", extra="wandb")
    if address.place and resume:
        raise InputError(
            "Only the open run of W&B can be resumed, with save_to='wandb:', not "
            f"{str(address)!r}. Open it with wandb.init(id=..., resume='must') first."
        )
    try:
        run = _create_run(wandb, address, description) if address.place else wandb.run
    except RoteError:
        raise
    except Exception as error:
        raise InputError(f"W&B cannot open {address}: {error}") from error
    if run is None:
        raise InputError(
            "No W&B run is open for save_to='wandb:'. Call wandb.init() first, or pass "
            "wandb:PROJECT."
        )
    place = f"W&B run {run.name or run.id}"
    if resume:
        return _resume_run(run, place, description)
    if CONFIG_KEY in run.config:
        raise RunExistsError(
            f"The open {place} already holds a tracker's readings.", place, "Open another run."
        )
    return _start_run(run, place, description, is_own=bool(address.place))


def _create_run(wandb: Any, address: Address, description: Mapping[str, Any]) -> Any:  # noqa: ANN401
    # A run that the caller has open, or opens later, stays what `wandb.run` is.
    return wandb.init(project=address.place, name=description.get("name"), reinit="create_new")


def _start_run(
    run: Any,  # noqa: ANN401
    place: str,
    description: Mapping[str, Any],
    *,
    is_own: bool,
) -> Opened:
    named = {**description, "name": description.get("name") or run.name or run.id}
    chosen = {name: value for name, value in dict(run.config).items() if _is_plain(value)}
    kept = {name: value for name, value in named.items() if name != "rows"}
    kept |= {_PROJECT: run.project, **({"params": chosen} if chosen else {})}
    kept |= {NAMED_BY_LOGGER: True} if is_own and not description.get("name") else {}
    files = None if run.disabled else Path(run.dir) / _FOLDER
    opened = None if files is None else open_directory(files, kept, resume=False)
    directory: Any = None if opened is None else opened.sink
    run.config.update({CONFIG_KEY: named})

    def undo() -> None:
        if opened is not None:
            opened.take_back()
        if is_own:
            run.finish(exit_code=1)

    return Opened(WandbSink(run, is_own=is_own, directory=directory), place, undo=undo)


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, bool | int | float | str)


def _resume_run(run: Any, place: str, description: Mapping[str, Any]) -> Opened:  # noqa: ANN401
    earlier = _find_files(run)
    if earlier is None:  # on another machine: what it holds cannot be read back
        return Opened(WandbSink(run, is_own=False, directory=None), place, held=None)
    opened = open_directory(earlier, description, resume=True)
    directory: Any = opened.sink
    return replace(opened, sink=WandbSink(run, is_own=False, directory=directory), place=place)


def _find_files(run: Any) -> Path | None:  # noqa: ANN401
    """Find what rote kept of a run when it was last open; W&B begins a new folder each time."""
    files = Path(run.dir)
    earlier = files.parents[1].glob(f"*run-*-{run.id}/{files.name}/{_FOLDER}")
    by_time = sorted(earlier, key=lambda path: path.parts[-3].partition("run-")[2])
    places = [files / _FOLDER, *reversed(by_time)]
    return next((place for place in places if (place / RUN_FILE).is_file()), None)


def read_wandb(address: Address, mapping: Mapping[str, str]) -> SourceRuns:  # noqa: ARG001
    """Read the runs that rote logged to W&B on this machine; W&B itself is not needed.

    The place is a folder that W&B wrote, such as ``wandb``, or a project, which is looked for in
    the folder where W&B keeps runs (``WANDB_DIR``, or the current one).

    Raises:
        InputError: if there is no such folder, or no run of such a project.
        CorruptRunError: if a file is damaged.
    """
    if address.path.is_dir():
        source = read_directories([address.path])
    else:
        source = read_directories(_find_project(address.place))
    return replace(source, runs=name_by_settings(source.runs))


def _find_project(project: str) -> list[Path]:
    folder = Path(os.environ.get("WANDB_DIR", "")).expanduser() / "wandb"
    projects: dict[str, list[Path]] = {}
    for path in find_directories([folder]) if folder.is_dir() else ():
        with suppress(CorruptRunError):
            projects.setdefault(str(read_description(path).get(_PROJECT)), []).append(path)
    if project not in projects:
        known = f" Projects there: {', '.join(sorted(projects))}." if projects else ""
        raise InputError(
            f"No runs of W&B project {project!r} in {folder.absolute()}."
            f"{known}{did_you_mean(project, projects)} To read another folder of W&B, pass "
            "wandb:DIRECTORY."
        )
    return projects[project]


LOGGER = Logger(open=open_wandb, read=read_wandb)
