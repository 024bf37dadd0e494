"""Import by name: an optional package, anything a user names, whatever is in a folder of ours."""

import ast
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

from rote.errors import InputError, MissingExtraError, quote
from rote.plugins import list_plugins

RIVALS = "rote.rivals"
"""The package whose modules are the signals with a name."""


def require(package: str, *, extra: str) -> ModuleType:
    """Import a package that is not among the core dependencies.

    Returns:
        The module.

    Raises:
        MissingExtraError: if it cannot be imported.

    Example:
        >>> require("json", extra="none").dumps([1])
        '[1]'
    """
    try:
        return import_module(package)
    except ImportError as error:
        raise MissingExtraError(
            f"Package `{package}` cannot be imported: {error}. Install it with: pip install "
            f"'rote[{extra}]'."
        ) from error


def import_named(address: str, argument: str) -> Any:  # noqa: ANN401  # whatever a user wrote
    """Return what a user wrote, at ``package.module:name``.

    Raises:
        InputError: if it cannot be imported, or there is nothing of that name.

    Example:
        >>> import_named("json:dumps", "rule")([1])
        '[1]'
    """
    module_name, _, name = address.partition(":")
    if not module_name or not name:
        raise InputError(
            f"Expected `{argument}` to read 'package.module:name', got {quote(address)}."
        )
    try:
        module = import_module(module_name)
    except Exception as error:  # importing a user's module may raise anything
        raise InputError(
            f"Cannot import {quote(address)} (`{argument}`): {type(error).__name__}: {error}. "
            "Install it, or put its folder on PYTHONPATH."
        ) from error
    found = getattr(module, name, None)
    if found is None:
        raise InputError(
            f"Module {quote(module_name)} has no {quote(name)} (`{argument}`). Check the name."
        )
    return found


def list_modules(package: str) -> tuple[str, ...]:
    """List the modules in the folder of a package, in order, without importing them.

    Example:
        >>> list_modules("rote.store.loggers")[0]
        'csv'
    """
    found = find_spec(package)
    places = found.submodule_search_locations if found is not None else None
    return _read_folders(tuple(places or ()))


@cache
def _read_folders(places: tuple[str, ...]) -> tuple[str, ...]:
    """Read folders once: checking 700 specs would read them 11,000 times."""
    return tuple(sorted(module.name for module in iter_modules(places)))


def list_signals() -> list[str]:
    """Return the signals that can be switched on by name: rote's, then those of other packages."""
    own = list_modules(RIVALS)
    return [*own, *list_plugins("signals", own)]


def is_signal(name: str) -> bool:
    """Return whether a signal has this name; other packages are searched only if none of rote's.

    Example:
        >>> is_signal("label_wave"), is_signal("json:dumps")
        (True, False)
    """
    return name in list_modules(RIVALS) or name in list_signals()


def parse_signal(signal: str) -> tuple[str, dict[str, Any]]:
    """Parse ``name`` or ``name(option=value, ...)``; values are numbers, texts and lists.

    Example:
        >>> parse_signal("label_wave(k=3, patience=10)")
        ('label_wave', {'k': 3, 'patience': 10})
    """
    try:
        said = ast.parse(signal, mode="eval").body
        if isinstance(said, ast.Call) and isinstance(said.func, ast.Name) and not said.args:
            found = {entry.arg: ast.literal_eval(entry.value) for entry in said.keywords}
            return said.func.id, {name: value for name, value in found.items() if name is not None}
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        pass  # the caller, which knows the names, says what is wrong
    return signal, {}


def find_classes(package: str, method: str) -> Iterator[type[Any]]:
    """Return the classes with such a method that are written in the files of a package's folder."""
    for name in list_modules(package):
        module = import_module(f"{package}.{name}")
        for found in vars(module).values():
            if getattr(found, "__module__", None) == module.__name__ and hasattr(found, method):
                yield found


def check_docstrings(package: str) -> None:
    """Refuse ``python -OO``, which removes the docstrings that a package is built from.

    Raises:
        MissingExtraError: if Python runs without docstrings.

    Example:
        >>> check_docstrings("altair")
    """
    if sys.flags.optimize > 1:
        raise MissingExtraError(
            f"Package `{package}` cannot be imported by python -OO, which removes docstrings. Use "
            "python -O, or no option."
        )
