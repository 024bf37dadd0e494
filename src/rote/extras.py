"""Import an optional package, or name the extra that brings it."""

from importlib import import_module
from types import ModuleType

from rote.errors import MissingExtraError


def require(package: str, *, extra: str) -> ModuleType:
    """Import a package that is not among the core dependencies.

    Args:
        package: the name under which it is imported.
        extra: the extra of rote that installs it.

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
            f"Expected package `{package}` to be installed, got: {error}. "
            f"Install it with: pip install 'rote[{extra}]'."
        ) from error
