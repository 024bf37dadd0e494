"""What a model or an objective holds and nobody can put back: named, so that it is no surprise."""

import io
import sys
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from types import CellType, CoroutineType, FunctionType, MethodType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.fingerprint import mark
from rote.snapshot.randomness import restorer_of
from rote.snapshot.reach import is_open, is_users, package_of, reachable

_STREAMS = {id(stream) for stream in (sys.stdin, sys.stdout, sys.stderr, sys.__stdout__)}
_HARMLESS = {
    *("_thread", "abc", "array", "builtins", "enum", "functools", "logging", "numpy", "operator"),
    *("re", "threading", "torch", "types", "typing", "weakref"),
}
"""Packages whose objects hold nothing that a pass changes, or that is kept in another way."""


class Uncopied:
    """What cannot be put back, by the path that leads to it.

    Iterators, generator objects, files and foreign objects written in C are known at once. Foreign
    objects written in Python are mostly settings: they are compared before and after a trial.

    Args:
        roots: where to look, by name.
    """

    def __init__(self, roots: Mapping[str, object]) -> None:
        parents: dict[int, object] = {}
        named = {id(root): name for name, root in roots.items()}
        self._hopeless: list[str] = []
        self._foreign: list[tuple[str, object, str]] = []
        for item in list(reachable([*roots.values()], parents)):
            if _cannot_be_copied(item):
                self._hopeless.append(_path(item, parents, named))
            elif _is_foreign(item) and id(item) not in named:
                self._foreign.append((_path(item, parents, named), item, mark(item)))

    def names(self) -> list[str]:
        """What cannot be put back, or was found changed by now."""
        return self._hopeless + [path for path, item, was in self._foreign if mark(item) != was]


def _cannot_be_copied(item: object) -> bool:
    kind = type(item)
    if isinstance(item, io.IOBase):
        return id(item) not in _STREAMS
    if is_open(item) or restorer_of(item) is not None or isinstance(item, type | Tensor):
        return False
    if hasattr(kind, "__next__") or isinstance(item, CoroutineType):
        return True
    is_value = kind.__hash__ not in (None, object.__hash__)
    is_known = package_of(kind) in _HARMLESS or hasattr(item, "__array__")
    return not (is_value or is_known or callable(item) or kind.__dictoffset__)


def _is_foreign(item: object) -> bool:
    if isinstance(item, type | Tensor | nn.Module | Optimizer | np.ndarray | torch.Generator):
        return False
    return bool(type(item).__dictoffset__) and not (
        is_open(item) or callable(item) or package_of(type(item)) in _HARMLESS
    )


def _path(item: object, parents: Mapping[int, object], named: Mapping[int, str]) -> str:
    """How to get to an item, such as ``loss_fn's closure `it` (list_iterator)``."""
    chain = [item]
    while id(chain[-1]) not in named and id(chain[-1]) in parents:
        chain.append(parents[id(chain[-1])])
    chain.reverse()
    path = named.get(id(chain[0]), "model")
    for place, (holder, held) in enumerate(pairwise(chain)):
        path += _label(holder, held, chain[place - 1] if place else None)
    return f"{path} ({type(item).__name__})"


def _label(holder: object, held: object, outer: object) -> str:
    if isinstance(holder, FunctionType):
        return _label_in_function(holder, held)
    if isinstance(holder, CellType | MethodType):
        return ""
    if isinstance(holder, partial):
        return "" if held is not holder.func else ".func"
    if isinstance(holder, dict):
        key = next((key for key, value in holder.items() if value is held), "?")
        is_attributes = getattr(outer, "__dict__", None) is holder
        return f".{key}" if is_attributes else f"[{key!r}]"
    if isinstance(holder, list | tuple):
        return next((f"[{i}]" for i, value in enumerate(holder) if value is held), "")
    return "".join(_named_member(holder, held))


def _label_in_function(function: FunctionType, held: object) -> str:
    cells = zip(function.__code__.co_freevars, function.__closure__ or (), strict=True)
    for name, cell in cells:
        if cell is held:
            return f"'s closure `{name}`"
    if any(value is held for value in function.__defaults__ or ()):
        return "'s default argument"
    if held is function.__kwdefaults__:
        return "'s default arguments"
    names = [name for name, value in function.__globals__.items() if value is held]
    return f"'s global `{names[0]}`" if names else ""


def _named_member(holder: Any, held: object) -> Iterator[str]:  # noqa: ANN401
    """Of a class its attribute, of an object its slot."""
    kinds = holder.__mro__ if isinstance(holder, type) else type(holder).__mro__
    if held in kinds or held is getattr(holder, "__dict__", None):
        return
    for kind in kinds:
        for name, value in vars(kind).items() if is_users(kind.__module__) else ():
            is_slot = hasattr(value, "__get__") and getattr(holder, name, None) is held
            if value is held or is_slot:
                yield f".{name}"
                return
