"""From what ``save_to`` says to open sinks."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.records import Reading
from rote.store.address import Address, parse_address
from rote.store.run_directory import check_free
from rote.store.sinks.callable_sink import open_callable
from rote.store.sinks.directory_sink import open_directory
from rote.store.sinks.mlflow_sink import open_mlflow
from rote.store.sinks.patient import PatientSink
from rote.store.sinks.randomness import own_randomness
from rote.store.sinks.several import Sinks
from rote.store.sinks.sink import Opened
from rote.store.sinks.tensorboard_sink import open_tensorboard
from rote.store.sinks.wandb_sink import open_wandb

LOGGERS: dict[str, Callable[..., Opened]] = {
    "tensorboard": open_tensorboard,
    "mlflow": open_mlflow,
    "wandb": open_wandb,
}
"""How to open each logger: called with address, description and ``resume=``; the hardest to take
back comes last."""

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
    functions, directories, loggers = _sorted_by_kind(targets)
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
    told = [open_callable(function) for function in functions]
    return Sinks([*told, *strict, *map(_patient, patient)], [*strict, *patient])


def _opened(target: Path | Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
    if isinstance(target, Path):
        return open_directory(target, description, resume=resume)
    return LOGGERS[target.kind](target, description, resume=resume)


def _how_hard_to_take_back(target: Path | Address) -> tuple[int, bool]:
    """Files can be removed, runs of MLflow deleted; a run of W&B, or of others, keeps something."""
    if isinstance(target, Path):
        return (0, True)
    return (list(LOGGERS).index(target.kind), not target.place)


def _target(entry: object) -> Target:
    if isinstance(entry, str):
        if not entry.strip():
            raise InputError(
                "Expected `save_to` to name a directory or a logger, got an empty text."
            )
        address = parse_address(entry, "save_to", LOGGERS)
        if address is None:
            return Path(entry).expanduser()
        if address.kind not in LOGGERS:
            raise InputError(
                f"Expected `save_to` to be a path, a function, or one of "
                f"{', '.join(f'{name}:' for name in LOGGERS)}, got {entry!r}, which can only be "
                "read."
            )
        return address
    if isinstance(entry, PathLike):
        return Path(entry).expanduser()
    if callable(entry):
        return entry
    raise _refusal(entry)


def _refusal(value: object) -> InputError:
    return InputError(
        f"Expected `save_to` to be a path, a logger such as 'mlflow:EXPERIMENT', a function that "
        f"takes a reading, or a list of them, got {value!r}."
    )


def _sorted_by_kind(
    targets: Iterable[Target],
) -> tuple[list[Callable[[Reading], object]], list[Path], list[Address]]:
    functions, directories, loggers = [], [], []
    for target in targets:
        if isinstance(target, Path):
            directories.append(target)
        elif isinstance(target, Address):
            loggers.append(target)
        else:
            functions.append(target)
    return functions, directories, loggers


def _patient(opened: Opened) -> Opened:
    sink = PatientSink(opened.sink, opened.place)
    return Opened(sink, opened.place, opened.description, opened.held)
