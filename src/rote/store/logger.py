"""The interface of loggers, and how one is found by its address, such as ``mlflow:EXPERIMENT``.

The loggers of rote are the files in ``loggers``. Those of other packages have the name of their
entry point in ``rote.loggers``, and any other is ``package.module:Name:PLACE``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from rote.errors import InputError, did_you_mean
from rote.extras import import_named, list_modules
from rote.plugins import list_plugins, load_plugin, load_plugins

if TYPE_CHECKING:
    from rote.store.sinks import Opened
    from rote.store.table import SourceRuns

# Neither the drive of a Windows path nor a time of day; but any `scheme://`.
_PREFIX = re.compile(r"([A-Za-z][A-Za-z-]{2,}(?=:)|\w{2,}(?=://)):(.*)", re.DOTALL)
_OWN = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*):(.*)", re.DOTALL)

_LOGGERS = "rote.store.loggers"

Use: TypeAlias = Literal["open", "read"]


@dataclass(frozen=True)
class Address:
    """Where a logger keeps runs.

    Attributes:
        kind: which logger: a file in ``loggers``, an entry point, or ``package.module:Name``.
        place: an experiment, a directory, a project or a file; may be empty.
    """

    kind: str
    place: str

    def __str__(self) -> str:
        """Return the address as it is written."""
        return f"{self.kind}:{self.place}"

    @property
    def path(self) -> Path:
        """The place, as a path."""
        return Path(self.place).expanduser()


class Open(Protocol):
    """Starts a run, or resumes one."""

    def __call__(self, address: Address, description: Mapping[str, Any], *, resume: bool) -> Opened:
        """Open a place for writing."""


@dataclass(frozen=True)
class Logger:
    """Somewhere that keeps readings: how it is opened for writing, and how it is read back.

    Attributes:
        open: None if it can only be read.
        read: called with the address and the mapping of names; None if it can only be written.
        traces: how much stays when opening is taken back: 0 for nothing, 1 for something that is
            marked as deleted, 2 for more. Of several loggers, the one that leaves most opens last.
        is_table: whether runs and steps are columns, which a mapping may also name.

    Example:
        >>> load_logger("wandb").read is None, load_logger("csv").open is None
        (False, True)
    """

    open: Open | None = None
    read: Callable[[Address, Mapping[str, str]], SourceRuns] | None = None
    traces: int = 2
    is_table: bool = False


@cache
def list_kinds() -> tuple[str, ...]:
    """Return what the loggers of rote are called; none of their packages is imported."""
    return tuple(name for name in list_modules(_LOGGERS) if "_" not in name)


def load_logger(kind: str, argument: str = "save_to") -> Logger:
    """Return the logger of a kind.

    Raises:
        InputError: if a logger of another package cannot be imported, or is not a logger.
    """
    if kind in list_kinds():
        logger: Logger = import_module(f"{_LOGGERS}.{kind}").LOGGER
        return logger
    if ":" not in kind:
        plugin: Logger = load_plugin("loggers", kind, _find_fault)
        return plugin
    found = import_named(kind, argument)
    if not isinstance(found, Logger):
        raise InputError(
            f"Expected `{argument}` to name a rote.store.Logger, got {found!r} at {kind!r}."
        )
    return found


def parse_address(text: str, argument: str, use: Use) -> Address | None:
    """Tell an address from a path; a path that exists is one, whatever it looks like.

    Returns:
        The address, or None if it is a path.

    Raises:
        InputError: if it looks like an address of no logger that there is, or of one that cannot be
            used so.

    Example:
        >>> parse_address("csv:table.csv", "runs", "read")
        Address(kind='csv', place='table.csv')
        >>> parse_address("runs/a", "runs", "read")
    """
    found, own = _PREFIX.fullmatch(text), _OWN.fullmatch(text)
    if (found is None and own is None) or _exists(text):
        return None
    if found is not None and _has_logger(found[1].lower()):
        address = Address(found[1].lower(), found[2])
    elif own is not None and ("." in own[1] or _is_module(own[1])):
        address = Address(f"{own[1]}:{own[2]}", own[3])
    elif found is not None:
        way = did_you_mean(found[1].lower(), _list_usable(use))
        raise _make_refusal(text, argument, use, way or f" A directory of that name is './{text}'.")
    else:
        return None
    if getattr(load_logger(address.kind, argument), use) is None:
        beside = f'give a run directory beside it, save_to=["{address.kind}:…", "runs/a"]'
        only = "read." if use == "open" else f"written: {beside}, or export as CSV."
        raise _make_refusal(text, argument, use, f" It can only be {only}")
    return address


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except OSError:  # such as a name of 300 letters
        return False


def _is_module(name: str) -> bool:
    return name in sys.modules or find_spec(name) is not None


def _has_logger(kind: str) -> bool:
    return kind in list_kinds() or kind in list_plugins("loggers", list_kinds())


def _find_fault(found: object, name: str) -> str | None:
    """Return why what a package installs as a logger is none, or could not be written."""
    if not isinstance(found, Logger):
        return "it is no rote.store.Logger"
    address = _PREFIX.fullmatch(f"{name}:")
    return None if address and name.islower() else "its name is not of three or more small letters"


def _list_usable(use: Use) -> list[str]:
    found = {kind: load_logger(kind) for kind in list_kinds()}
    found |= load_plugins("loggers", list_kinds(), _find_fault)
    return [kind for kind, logger in found.items() if getattr(logger, use) is not None]


def _make_refusal(text: str, argument: str, use: Use, way: str) -> InputError:
    known = ", ".join(f"{kind}:" for kind in _list_usable(use))
    return InputError(
        f"Expected `{argument}` to be a path or to start with one of {known}, got {text!r}.{way}"
    )
