"""Callbacks for other frameworks, one file each; ``adapter`` has what they share."""

from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from rote.errors import InputError, did_you_mean
from rote.plugins import list_plugins, load_plugin

__all__ = ["find_callback", "list_trainers"]


@cache
def _list_own() -> tuple[str, ...]:
    """List the files of this folder that define a callback, without importing their trainers."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    defines = "\nclass SusceptibilityCallback("
    return tuple(file.stem for file in files if defines in file.read_text(encoding="utf-8"))


def list_trainers() -> list[str]:
    """Return the trainers that have a callback: rote's, then those of other packages.

    Returns:
        Their names.

    Example:
        >>> list_trainers()[:3]
        ['fastai', 'huggingface', 'ignite']
    """
    return [*_list_own(), *list_plugins("trainers", _list_own())]


def find_callback(trainer: str) -> type[Any]:
    """Return the callback of a trainer by name.

    Args:
        trainer: the name of a file in ``rote/integrations``, or of an entry point in
            ``rote.trainers``.

    Returns:
        Its class, mostly a subclass of ``rote.integrations.adapter.TrainerAdapter``.

    Raises:
        InputError: if there is none of that name, or that of another package cannot be used.
        ImportError: if the trainer is not installed.

    Example:
        >>> try:
        ...     find_callback("lightnin")
        ... except InputError as error:
        ...     print(str(error).rpartition(". ")[2])
        Did you mean 'lightning'?
    """
    if trainer in _list_own():
        callback: type[Any] = import_module(f"rote.integrations.{trainer}").SusceptibilityCallback
        return callback
    if trainer in (known := list_trainers()):
        plugin: type[Any] = load_plugin("trainers", trainer, _find_fault)
        return plugin
    raise InputError(
        f"Expected `trainer` to be one of {', '.join(known)}, got {trainer!r}."
        f"{did_you_mean(trainer, known)}"
    )


def _find_fault(callback: object, _: str) -> str | None:
    return None if callable(callback) else "it cannot be called"
