"""Where training can hide state: behind functions, in slots, classes and objects of any kind.

Shares nothing with the walk that copies and puts back (``reach``), and takes every method of a
class, so that a fingerprint sees at least what that walk can miss.
"""

import sys
import sysconfig
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

Parts: TypeAlias = dict[str, object]

_SCALARS = (bool, int, float, complex, str, bytes, type(None))
_WRAPPERS: dict[type, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset"),
}
_HOMES = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_HOMES.append(str(Path(__file__).parents[1]))


def hidden(roots: Mapping[str, object]) -> Iterator[tuple[str, object, list[object] | None]]:
    """Everything that can be reached from some objects, each once, with the way to it.

    Yields:
        The way, the thing, and its parts; None for a thing that is not looked into.
    """
    stack = list(roots.items())
    seen: set[int] = set()
    steppers = [root for root in roots.values() if hasattr(root, "param_groups")]
    near = {kind.__module__.split(".")[0] for root in steppers for kind in type(root).__mro__}
    near -= {"builtins", "torch", "typing", "abc"}
    while stack:
        name, item = stack.pop()
        if isinstance(item, _SCALARS) or id(item) in seen:
            continue
        seen.add(id(item))
        parts = _parts(item)
        if parts is None and str(type(item).__module__).split(".")[0] in near:
            parts = {f".{name}": value for name, value in getattr(item, "__dict__", {}).items()}
        yield name, item, None if parts is None else list(parts.values())
        stack.extend((f"{name}{label}", part) for label, part in (parts or {}).items())


def _parts(item: Any) -> Parts | None:  # noqa: ANN401
    entries: Parts | None = None
    if isinstance(item, dict):
        entries = {f"[{_key(key)}]": value for key, value in item.items()}
    elif isinstance(item, list | tuple | deque):
        entries = {f"[{place}]": value for place, value in enumerate(item)}
    elif isinstance(item, set | frozenset):
        entries = {f"{{{_key(value)}}}": value for value in item}
    if entries is not None:
        return entries | (_parts_of_object(item) or {})
    if isinstance(item, FunctionType):
        return _parts_of_function(item)
    for kind, names in _WRAPPERS.items():
        if isinstance(item, kind):
            return {f".{name}": getattr(item, name) for name in names}
    if isinstance(item, type):
        return _attributes(item) if _is_own(item.__module__) else {}
    if isinstance(item, Tensor | np.ndarray | ModuleType):
        return {} if isinstance(item, ModuleType) else None
    return _parts_of_object(item)


def _key(key: object) -> str:
    return repr(key) if isinstance(key, _SCALARS) else f"{type(key).__name__} {id(key)}"


def _parts_of_function(function: FunctionType) -> Parts:
    known = function.__globals__
    if str(known.get("__name__")).startswith("torch.distributed"):
        return {}  # leads to tensors whose memory is freed between passes
    is_own = _is_own(known.get("__name__", "__main__"))
    parts: Parts = {}
    if is_own:
        parts |= {f".{name}": value for name, value in vars(function).items()}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            parts[f"'s closure {name}"] = cell.cell_contents
        except ValueError:
            parts[f"'s closure {name}"] = None
    for place, value in enumerate(function.__defaults__ or ()):
        parts[f"'s default {place}"] = value
    for name, value in (function.__kwdefaults__ or {}).items():
        parts[f"'s default {name}"] = value
    return parts | _parts_by_name(function, parts) if is_own else parts


def _parts_by_name(function: FunctionType, held: Parts) -> Parts:
    """The globals that code names, and the same in every module of the user's that it has."""
    names = set(_names(function.__code__))
    known = function.__globals__
    parts: Parts = {f"'s global {name}": known[name] for name in names & known.keys()}
    # What code imports is among the names in it; a module of another use than that does no harm.
    imported = {f"'s import {name}": sys.modules[name] for name in names & sys.modules.keys()}
    stack, seen = [*held.items(), *parts.items(), *imported.items()], set()
    while stack:
        way, module = stack.pop()
        if isinstance(module, ModuleType) and _is_own(module.__name__) and id(module) not in seen:
            seen.add(id(module))
            inside = {f"{way}.{name}": vars(module)[name] for name in names & vars(module).keys()}
            parts |= inside
            stack.extend(inside.items())
    return parts


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _attributes(item: object) -> Parts:
    named = {f".{name}": value for name, value in vars(item).items() if name[:2] != "__"}
    if isinstance(item, type):
        special = {name: value for name, value in vars(item).items() if callable(value)}
        named |= {f".{name}": value for name, value in special.items()}
    return named


def _parts_of_object(item: object) -> Parts | None:
    if isinstance(item, weakref.ref):
        return {"'s target": item()} if _is_own(type(item()).__module__) else None
    kind = type(item)
    is_own = _is_own(kind.__module__)
    if not is_own and not isinstance(item, nn.Module | Optimizer):
        return None
    parts = {f".{name}": value for name, value in getattr(item, "__dict__", {}).items()}
    for base in kind.__mro__ if is_own else ():
        slots = base.__dict__.get("__slots__", ())
        for slot in [slots] if isinstance(slots, str) else slots:
            private = slot.startswith("__") and not slot.endswith("__")
            name = f"_{base.__name__.lstrip('_')}{slot}" if private else slot
            if hasattr(item, name):
                parts[f".{name}"] = getattr(item, name)
    return parts | ({"'s class": kind} if is_own else {})


def _is_own(module: object) -> bool:
    """Whether code is neither Python's nor installed nor rote's."""
    if not isinstance(module, str):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if file is None:
        return module.partition(".")[0] not in sys.stdlib_module_names
    return not any(str(file).startswith(home) for home in _HOMES)
