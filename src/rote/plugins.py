"""Extensions that other packages install, found by their entry points.

A package extends rote with an entry point in one of ``GROUPS``. Nothing is read until an extension
is listed or a name is not one of rote's own, so that ``import rote`` and built-in names cost
nothing.
"""

import warnings
from collections.abc import Callable, Iterable
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from rote.errors import InputError, PluginWarning

GROUPS = ("rules", "signals", "loggers", "charts", "trainers", "commands")
"""What can be extended; the entry points of rules are in the group ``rote.rules``."""


def list_plugins(group: str, taken: Iterable[str] = ()) -> list[str]:
    """List the extensions that are installed, without importing them.

    Args:
        group: one of ``GROUPS``.
        taken: the names of rote's own, which no package can replace.

    Returns:
        The names, in order. A warning names every entry point that is ignored, once.

    Example:
        >>> list_plugins("rules")
        []
    """
    own, found = frozenset(taken), _read_entry_points()[group]
    for name, points in found.items():
        if name in own:
            for point in points:
                _warn(f"{_describe(group, point)} is ignored: rote has its own `{name}`.")
        for point in points[1:]:
            first = _get_package(points[0])
            _warn(f"{_describe(group, point)} is ignored: `{first}` has the same name.")
    return [name for name in found if name not in own]


def load_plugin(group: str, name: str, find_fault: Callable[[Any, str], str | None]) -> Any:  # noqa: ANN401
    """Import one extension.

    Args:
        group: one of ``GROUPS``.
        name: one of ``list_plugins``.
        find_fault: takes what was imported and its name; returns why it cannot be used, or None.

    Raises:
        InputError: if it cannot be used; the message names the extension and its package.
    """
    point, cause = _read_entry_points()[group][name][0], None
    try:
        found = point.load()
        fault = find_fault(found, name)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # other people's code
        cause, fault = error, _get_first_line(error)
    if fault is not None:
        raise InputError(
            f"{_describe(group, point)} cannot be used: {fault}. Update or uninstall the package."
        ) from cause
    return found


def load_plugins(
    group: str, taken: Iterable[str], find_fault: Callable[[Any, str], str | None]
) -> dict[str, Any]:
    """Import every extension of a group that can be used.

    Args:
        group: one of ``GROUPS``.
        taken: the names of rote's own, which no package can replace.
        find_fault: see ``load_plugin``.

    Returns:
        The extensions by name. A warning names every one that cannot be used, once.
    """
    found = {}
    for name in list_plugins(group, taken):
        try:
            found[name] = load_plugin(group, name, find_fault)
        except InputError as error:
            _warn(str(error))
    return found


def find_lacking(
    found: object, name: str, needed: Iterable[str], methods: Iterable[str] = ()
) -> str | None:
    """Return why an extension is incomplete or misnamed, or None if it is fine.

    Args:
        found: what was imported.
        name: of its entry point.
        needed: the attributes that it must have.
        methods: those of them that rote calls.

    Example:
        >>> find_lacking(object(), "mine", ["name", "judge"])
        'it has no `name`, `judge`'
    """
    if lacking := [f"`{attribute}`" for attribute in needed if not hasattr(found, attribute)]:
        return f"it has no {', '.join(lacking)}"
    if odd := [f"`{method}`" for method in methods if not callable(getattr(found, method))]:
        return f"its {', '.join(odd)} cannot be called"
    own = getattr(found, "name", name)
    return None if own == name else f"its `name` is {own!r}"


def _describe(group: str, point: EntryPoint) -> str:
    kind = group.removesuffix("s").capitalize()
    return f"{kind} `{point.name}` of package `{_get_package(point)}`"


@cache
def _read_entry_points() -> dict[str, dict[str, list[EntryPoint]]]:
    """Return the entry points of every group by name; of one name, by package."""
    found: dict[str, dict[str, list[EntryPoint]]] = {}
    installed = entry_points()
    for group in GROUPS:
        points = installed.select(group=f"rote.{group}")
        found[group] = {}
        for point in sorted(points, key=lambda point: (point.name, _get_package(point))):
            found[group].setdefault(point.name, []).append(point)
    return found


def _get_package(point: EntryPoint) -> str:
    return point.dist.name if point.dist is not None else point.module


def _get_first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0].rstrip('.')}" if lines else type(error).__name__


@cache
def _warn(sentence: str) -> None:
    """Warn of an extension once per process."""
    warnings.warn(sentence, PluginWarning, stacklevel=4)
