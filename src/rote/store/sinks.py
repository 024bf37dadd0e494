"""The targets of a tracker: run directories, loggers and functions, opened and written as one."""

import os
import random
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from math import isfinite
from os import PathLike
from pathlib import Path
from textwrap import shorten
from typing import Any, Protocol

import numpy as np

from rote.arguments import check_path
from rote.errors import InputError, LoggerWarning
from rote.records import Reading
from rote.store.files import find_absent_folders, remove_folders
from rote.store.journal import RUN_DIRECTORY, SCHEMA_VERSION, collect_numbers
from rote.store.logger import Address, load_logger, parse_address
from rote.store.run_directory import LOCK_FILE, RunDirectory, check_free
from rote.store.run_record import read_description, read_whole_readings


class Sink(Protocol):
    """Keeps the readings of one run."""

    def append(self, reading: Reading, row: int) -> None:
        """Keep one reading; ``row`` counts the readings that came before it."""

    def resume_after(self, step: int) -> None:
        """Declare the readings after ``step`` void: they will be taken again."""

    def close(self) -> None:
        """Close the sink."""


class EvidenceSink(Protocol):
    """A sink that also keeps the data that a verdict needs; these methods are optional."""

    def sync(self) -> None:
        """Wait until everything that was written is on the disk."""

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep the nearest-neighbor votes on the holdout, unless some are there."""

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep where the weights of the run are, by step."""


@dataclass(frozen=True)
class Opened:
    """A sink with the readings that it already holds.

    Attributes:
        sink: open for writing.
        place: its name in messages.
        description: what was run, if an earlier run is resumed and it can be read back.
        held: the readings that it holds; None if it cannot tell.
        undo: closes it and takes back what opening it wrote, if nothing else was written since; by
            default it is only closed.

    Example:
        >>> class Printer:
        ...     def write(self, reading): print(reading.step)
        >>> Opened(Printer(), "standard output").held
        ()
    """

    sink: Sink
    place: str
    description: Mapping[str, Any] | None = None
    held: tuple[Reading, ...] | None = ()
    undo: Callable[[], None] | None = None

    def take_back(self) -> None:
        """Undo the opening, as far as possible."""
        if self.undo is None:
            self.sink.close()
        else:
            self.undo()


CONFIG_KEY = "rote"
"""The key of a logger's settings that holds the description of the run."""

STEP_KEY = "rote/step"


class RowSink:
    """Logs readings as rows of a run that has ``log`` and ``finish``, as those of W&B and Trackio.

    Args:
        run: the run.
        is_own: whether the run is rote's, to be finished with it.
    """

    def __init__(self, run: Any, *, is_own: bool) -> None:  # noqa: ANN401
        self._run = run
        self._is_own = is_own

    def resume_after(self, step: int) -> None:
        """Log that readings after ``step`` do not count."""
        self._log({"rote/resumed_after": step})

    def close(self) -> None:
        """Finish the run, if it is rote's."""
        if self._is_own:
            self._run.finish()

    def _make_row(self, reading: Reading, flags: object) -> dict[str, Any]:
        note = {"rote/note": reading.note} if reading.note else {}
        return {**collect_numbers(reading), STEP_KEY: reading.step, "rote/flags": flags, **note}

    def _log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        self._run.log({"rote/schema": SCHEMA_VERSION, **values}, step=step)


class _Member:
    """One sink, with the readings that it is known to hold."""

    def __init__(self, opened: Opened) -> None:
        self.sink = opened.sink
        held = opened.held
        self.held = None if held is None else [_identify(reading) for reading in held]

    def append(self, reading: Reading, row: int) -> None:
        self.sink.append(reading, row)
        if self.held is not None:
            self.held.append(_identify(reading))

    def resume_from(self, readings: Sequence[Reading]) -> None:
        """Void entries that are not among the readings, and add missing ones."""
        if self.held is None:
            # Without a reading nothing is known yet: a state may still be loaded.
            if readings:
                self.sink.resume_after(readings[-1].step)
            return
        shared = 0
        for mine, theirs in zip(readings, self.held, strict=False):
            if _identify(mine) != theirs:
                break
            shared += 1
        self.sink.resume_after(readings[shared - 1].step if shared else 0)
        del self.held[shared:]
        for row, reading in enumerate(readings[shared:], start=shared):
            self.append(reading, row)


class Sinks:
    """Several sinks as one: a reading is either in all of them or in none.

    Args:
        opened: in the order of writing: those whose failure means that a reading is not taken come
            before those that only wait.
        readable: in the order of trust: whose readings count when an earlier run is resumed.
        directory: the run directory among them, which holds every reading and its rows.
    """

    def __init__(
        self,
        opened: Sequence[Opened] = (),
        readable: Iterable[Opened] = (),
        directory: Path | None = None,
    ) -> None:
        self.directory = directory
        self._members = [_Member(entry) for entry in opened]
        known = [entry.held for entry in readable if entry.held is not None]
        self.earlier: tuple[Reading, ...] = known[0] if known else ()
        """The readings of the run that is resumed."""
        self.found: list[tuple[str, Mapping[str, Any]]] = [
            (entry.place, entry.description) for entry in opened if entry.description is not None
        ]
        """The places and descriptions of earlier runs."""
        self._is_closed = False
        self._is_copy = False

    def detach(self) -> "Sinks":
        """Return the sinks of a copy of the tracker: closed ones, if there are or were any."""
        copy = Sinks(directory=self.directory)
        copy._is_copy = self._is_copy or self._is_closed or bool(self._members)
        return copy

    def check_open(self) -> None:
        """Refuse to continue where a reading would be missed.

        Raises:
            InputError: if there were sinks, and they were closed, or belong to the original.
        """
        if self._is_copy:
            raise InputError(
                "This tracker is a copy, and only the original writes to `save_to`: the same "
                "readings would be written twice. Probe with the original, or make another tracker "
                "with rote.track."
            )
        if self._is_closed:
            raise InputError(
                "The tracker is closed, and its `save_to` would miss this reading. Close it "
                "after the last probe, or resume with rote.track(..., save_to=..., resume=True)."
            )

    def append(self, reading: Reading, row: int) -> None:
        """Write one reading; ``row`` counts the readings that came before it."""
        written: list[Sink] = []
        try:
            for member in self._members:
                member.append(reading, row)
                written.append(member.sink)
        except BaseException:
            # The caller discards the reading, so the sinks that have it must discard it as well.
            for sink in written:
                with suppress(OSError):
                    sink.resume_after(reading.step - 1)
            raise

    def resume_from(self, readings: Sequence[Reading]) -> None:
        """Make every sink hold exactly the readings that the tracker remembers."""
        for member in self._members:
            member.resume_from(readings)

    def sync(self) -> None:
        """Wait until everything is on the disk: a state that is saved next builds on it."""
        self._call("sync")

    def write_votes(self, votes: np.ndarray) -> None:
        """Keep nearest-neighbor votes in all sinks that can."""
        self._call("write_votes", votes)

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Keep the paths of the weights in all sinks that can."""
        self._call("name_checkpoints", files)

    def _call(self, name: str, *arguments: object) -> None:
        for member in self._members:
            method = getattr(member.sink, name, None)
            if method is not None:
                method(*arguments)

    def close(self) -> None:
        """Close all sinks; closing twice is allowed."""
        for member in self._members:
            member.sink.close()
        self._is_closed |= bool(self._members)
        self._members, self.found = [], []


class Writing:
    """One reading that is being written: ``restore`` removes it again unless it is settled."""

    def __init__(self, sinks: Sinks, earlier: Sequence[Reading]) -> None:
        self._sinks = sinks
        self._earlier = earlier
        self.is_settled = False

    def append(self, reading: Reading) -> None:
        """Write it."""
        try:
            self._sinks.append(reading, row=len(self._earlier))
        except Exception:
            self.is_settled = True  # the sinks have taken it back themselves
            raise

    def restore(self) -> None:
        """Take it back."""
        if not self.is_settled:
            with suppress(OSError):
                self._sinks.resume_from(self._earlier)


def _identify(reading: Reading) -> tuple[int, float | None]:
    # In a file every number that is not finite is null.
    return reading.step, reading.drop if isfinite(reading.drop) else None


def open_directory(path: Path, description: Mapping[str, Any], *, resume: bool) -> Opened:
    """Start a run in a new directory, or resume the one in it.

    Raises:
        InputError: if the directory cannot be written, or has no run to resume.
        RunExistsError: if it is in use.
        RunLockedError: if another process is writing it.
        CorruptRunError: if the run to resume is damaged.
    """
    if not resume:
        named = {**description, "name": description.get("name") or path.name}
        folders = find_absent_folders(path)
        created = RunDirectory.create(path, named)
        return Opened(created, str(path), undo=lambda: _remove(created, folders))
    run = RunDirectory.reopen(path)
    try:
        return Opened(run, str(path), read_description(path), read_whole_readings(path))
    except BaseException:
        run.close()
        raise


def _remove(run: RunDirectory, folders: list[Path]) -> None:
    for file in run.files:
        file.unlink(missing_ok=True)
    if run.path in folders:
        (run.path / LOCK_FILE).unlink()
    run.close()
    remove_folders(folders)


_Task = Callable[[], None]


@contextmanager
def isolate_randomness() -> Iterator[None]:
    """Let a logger draw from its own random state, and restore the caller's.

    MLflow makes up names with Python's generator: without this, a run that is logged would
    continue with other random numbers than one that is not, and runs with one seed would share a
    name.
    """
    python, numpy = random.getstate(), np.random.get_state()
    random.seed()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class RetryingSink:
    """Forwards entries to a logger in order; refused entries are kept and tried again later."""

    def __init__(self, sink: Sink, place: str) -> None:
        self._sink = sink
        self._place = place
        self._waiting: list[_Task] = []
        # Also close at the end of a script that never closes its tracker.
        self._finish = weakref.finalize(self, _finish, sink, place, self._waiting, os.getpid())

    def append(self, reading: Reading, row: int) -> None:
        """Log a reading, or keep it."""
        # Rows per training sample are too large to keep while they wait.
        sink, plain = self._sink, replace(reading, sample_rows={})
        self._hand_on(lambda: sink.append(plain, row))

    def resume_after(self, step: int) -> None:
        """Log that later readings are void, or keep it."""
        sink = self._sink
        self._hand_on(lambda: sink.resume_after(step))

    def write_votes(self, votes: np.ndarray) -> None:
        """Forward votes to a logger that can keep them."""
        method = getattr(self._sink, "write_votes", None)
        if method is not None:
            self._hand_on(lambda: method(votes))

    def name_checkpoints(self, files: Mapping[int, Path]) -> None:
        """Forward paths to a logger that can keep them."""
        method = getattr(self._sink, "name_checkpoints", None)
        if method is not None:
            self._hand_on(lambda: method(files))

    def close(self) -> None:
        """Try once more, and warn of lost entries if that fails."""
        self._finish()

    def _hand_on(self, task: _Task) -> None:
        self._waiting.append(task)
        try:
            error = _send(self._waiting)
        except BaseException:  # interrupted: the reading will not be taken
            if self._waiting and self._waiting[-1] is task:
                self._waiting.pop()
            raise
        if error is not None and len(self._waiting) == 1:
            message = (
                f"{self._place} did not take a reading: {_shorten(error)}. Training continues; the "
                "reading is kept and tried again with the next one."
            )
            warnings.warn(LoggerWarning(message), stacklevel=2)


def _shorten(error: Exception) -> str:
    """Shorten a message: some loggers put a whole request into it."""
    return shorten(str(error), width=200, placeholder=" …")


def _send(waiting: list[_Task]) -> Exception | None:
    while waiting:
        try:
            with isolate_randomness():
                waiting[0]()
        except Exception as error:  # noqa: BLE001  # whatever a logger raises
            return error
        waiting.pop(0)
    return None


def _finish(sink: Sink, place: str, waiting: list[_Task], owner: int) -> None:
    if os.getpid() != owner:
        return  # a forked process must not end the run
    error = _send(waiting)
    lost = len(waiting)
    try:
        with isolate_randomness():
            sink.close()
    except Exception as failure:  # noqa: BLE001
        error = error or failure
    if error is not None:
        message = f"{place} was closed without its last {lost} entries: {_shorten(error)}."
        warnings.warn(LoggerWarning(message), stacklevel=2)


OneTarget = str | PathLike[str] | Callable[[Reading], object]
SaveTo = OneTarget | Iterable[OneTarget] | None
Target = Path | Address | Callable[[Reading], object]


def parse_targets(save_to: SaveTo, argument: str = "save_to") -> tuple[Target, ...]:
    """Parse ``save_to``.

    Args:
        save_to: paths, addresses of loggers, functions, or a list of them.
        argument: its name in messages.

    Raises:
        InputError: if it is nothing to write to.
    """
    if save_to is None:
        return ()
    if isinstance(save_to, str | PathLike) or callable(save_to):
        return (_parse_target(save_to, argument),)
    if isinstance(save_to, Mapping) or not isinstance(save_to, Iterable):
        raise _refuse_target(save_to, argument)
    targets = tuple(_parse_target(entry, argument) for entry in save_to)
    if len(set(targets)) < len(targets):
        raise InputError(f"Expected `{argument}` to name each place once, got {save_to!r}.")
    return targets


def get_run_name(targets: Iterable[Target]) -> str | None:
    """Return the name of a run that was given none: that of its directory, if it has one."""
    return next((target.name for target in targets if isinstance(target, Path)), None)


def can_be_read(save_to: str) -> bool:
    """Return whether what is written there can be read back.

    Raises:
        InputError: if it is nothing to write to.
    """
    (target,) = parse_targets(save_to)
    return not isinstance(target, Address) or load_logger(target.kind).read is not None


def open_sinks(targets: Iterable[Target], description: Mapping[str, Any], *, resume: bool) -> Sinks:
    """Open all, or none: if one fails, those before it are taken back.

    Args:
        targets: from ``parse_targets``.
        description: what is run; its name may be None if no target is a directory.
        resume: resume the run that is there.

    Raises:
        InputError: if one cannot be written, or has no run to resume.
        MissingExtraError: if a logger's package is not installed.
        RunExistsError: if one is in use.
        RunLockedError: if another process is writing one.
        CorruptRunError: if the run to resume is damaged.
    """
    targets = tuple(targets)
    directories = [target for target in targets if isinstance(target, Path)]
    loggers = [target for target in targets if isinstance(target, Address)]
    functions = [target for target in targets if not isinstance(target, Path | Address)]
    if not resume:
        for path in directories:
            check_free(path)
    if directories:  # a verdict from a logger then finds the checkpoints, too
        description = {**description, RUN_DIRECTORY: str(directories[0].absolute())}
    places: list[Path | Address] = [*directories, *loggers]
    opened: dict[Path | Address, Opened] = {}
    try:
        for target in sorted(places, key=_rank_undo):
            with isolate_randomness():
                opened[target] = _open_target(target, description, resume=resume)
    except BaseException:
        for entry in reversed(opened.values()):
            with suppress(Exception):  # what went wrong first is what counts
                entry.take_back()
        raise
    strict, patient = [opened[path] for path in directories], [opened[entry] for entry in loggers]
    told = [Opened(_FunctionSink(entry), repr(entry), held=None) for entry in functions]
    retrying = [replace(entry, sink=RetryingSink(entry.sink, entry.place)) for entry in patient]
    directory = directories[0].absolute() if directories else None
    return Sinks([*told, *strict, *retrying], [*strict, *patient], directory)


def _open_target(target: Path | Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    if isinstance(target, Path):
        return open_directory(target, description, resume=resume)
    logger = load_logger(target.kind)
    assert logger.open is not None  # checked by parse_targets
    return logger.open(target, description, resume=resume)


def _rank_undo(target: Path | Address) -> tuple[int, bool]:
    """Return a key that sorts targets: first those whose opening can be undone, such as files."""
    if isinstance(target, Path):
        return (0, True)
    return (load_logger(target.kind).traces, not target.place)


def _parse_target(entry: object, argument: str) -> Target:
    if isinstance(entry, str):
        if not entry.strip():
            raise InputError(
                f"Expected `{argument}` to name a directory or a logger, got an empty string."
            )
        return parse_address(entry, argument, "open") or check_path(argument, entry)
    if isinstance(entry, PathLike):
        return check_path(argument, Path(entry))
    if callable(entry):
        return entry
    raise _refuse_target(entry, argument)


def _refuse_target(value: object, argument: str) -> InputError:
    return InputError(
        f"Expected `{argument}` to be a path, a logger such as 'mlflow:EXPERIMENT', a function "
        f"that takes a reading, or a list of them, got {value!r}."
    )


class _FunctionSink:
    """Calls a function with every new reading; its exceptions reach the caller of the probe."""

    def __init__(self, function: Callable[[Reading], object]) -> None:
        self._function = function

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        self._function(reading)

    def resume_after(self, step: int) -> None:
        """Do nothing: a function cannot undo earlier calls."""

    def close(self) -> None:
        """Do nothing: the function belongs to the caller."""
