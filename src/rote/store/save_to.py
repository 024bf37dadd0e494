"""What ``save_to`` says: directories, loggers and functions, and how they are opened."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

from rote.arguments import check_path
from rote.errors import InputError
from rote.records import Reading
from rote.store.directories import open_directory
from rote.store.logger import Address, logger_of, parse_address
from rote.store.retrying_sink import RetryingSink, own_randomness
from rote.store.run_directory import check_free
from rote.store.sinks import Opened, Sinks

OneTarget = str | PathLike[str] | Callable[[Reading], object]
SaveTo = OneTarget | Iterable[OneTarget] | None
Target = Path | Address | Callable[[Reading], object]


def targets_of(save_to: SaveTo) -> tuple[Target, ...]:
    """What ``save_to`` means.

    Raises:
        InputError: if it is nothing to write to.
    """
    if save_to is None:
        return ()
    if isinstance(save_to, str | PathLike) or callable(save_to):
        return (_target(save_to),)
    if isinstance(save_to, Mapping) or not isinstance(save_to, Iterable):
        raise _refusal(save_to)
    targets = tuple(_target(entry) for entry in save_to)
    if len(set(targets)) < len(targets):
        raise InputError(f"Expected `save_to` to name each place once, got {save_to!r}.")
    return targets


def name_of(targets: Iterable[Target]) -> str | None:
    """The name of a run that was given none: that of its directory, if it has one."""
    return next((target.name for target in targets if isinstance(target, Path)), None)


def can_be_read(save_to: str) -> bool:
    """Whether what is written there can be read back.

    Raises:
        InputError: if it is nothing to write to.
    """
    (target,) = targets_of(save_to)
    return not isinstance(target, Address) or logger_of(target.kind).read is not None


def open_sinks(targets: Iterable[Target], description: Mapping[str, Any], *, resume: bool) -> Sinks:
    """Open all, or none: if one fails, those before it are taken back.

    Args:
        targets: from ``targets_of``.
        description: what is run; its name may be None if no target is a directory.
        resume: go on with the run that is there.

    Raises:
        InputError: if one cannot be written, or has no run to go on with.
        MissingExtraError: if a logger's package is not installed.
        RunExistsError: if one is in use.
        RunLockedError: if another process is writing one.
        CorruptRunError: if the run to go on with is damaged.
    """
    targets = tuple(targets)
    directories = [target for target in targets if isinstance(target, Path)]
    loggers = [target for target in targets if isinstance(target, Address)]
    functions = [target for target in targets if not isinstance(target, Path | Address)]
    if not resume:
        for path in directories:
            check_free(path)
    places: list[Path | Address] = [*directories, *loggers]
    opened: dict[Path | Address, Opened] = {}
    try:
        for target in sorted(places, key=_how_hard_to_take_back):
            with own_randomness():
                opened[target] = _opened(target, description, resume=resume)
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


def _opened(target: Path | Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    if isinstance(target, Path):
        return open_directory(target, description, resume=resume)
    logger = logger_of(target.kind)
    assert logger.open is not None  # or it would be no target
    return logger.open(target, description, resume=resume)


def _how_hard_to_take_back(target: Path | Address) -> tuple[int, bool]:
    """Files can be removed, runs of MLflow deleted; a run of W&B, or of others, keeps something."""
    if isinstance(target, Path):
        return (0, True)
    return (logger_of(target.kind).traces, not target.place)


def _target(entry: object) -> Target:
    if isinstance(entry, str):
        if not entry.strip():
            raise InputError(
                "Expected `save_to` to name a directory or a logger, got an empty text."
            )
        return parse_address(entry, "save_to", "open") or check_path("save_to", entry)
    if isinstance(entry, PathLike):
        return check_path("save_to", Path(entry))
    if callable(entry):
        return entry
    raise _refusal(entry)


def _refusal(value: object) -> InputError:
    return InputError(
        f"Expected `save_to` to be a path, a logger such as 'mlflow:EXPERIMENT', a function that "
        f"takes a reading, or a list of them, got {value!r}."
    )


class _FunctionSink:
    """Hands every new reading to a function; what it raises, the probe raises."""

    def __init__(self, function: Callable[[Reading], object]) -> None:
        self._function = function

    def append(self, reading: Reading, row: int) -> None:  # noqa: ARG002
        self._function(reading)

    def resume_after(self, step: int) -> None:
        """Nothing: a function cannot take back what it was told."""

    def close(self) -> None:
        """Nothing: the function is the caller's."""
