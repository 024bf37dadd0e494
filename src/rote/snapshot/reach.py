"""What can be reached from a model, a loss or an optimizer: attributes, containers, functions.

Functions lead to their closures, defaults and attributes. The globals that code names, the
attributes of classes and of plain objects are followed only where they are the user's own: what is
installed (torch, NumPy, a trainer) is large, shared, and keeps its state in modules and tensors.
Only optimizers keep it in objects of their own: those of the packages that an optimizer's class is
from are followed, too.
"""

import gc
import sys
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from dataclasses import is_dataclass
from dis import get_instructions
from functools import lru_cache, partial
from pathlib import Path
from types import (
    BuiltinMethodType,
    CellType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any
from weakref import ref

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

PLAIN = (str, bytes, int, float, complex, type(None))
EMPTY: Any = object()
"""Stands for what a cell, a slot or a name holds when it holds nothing."""

_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARIES = {"rote", "torch", "torchvision", "numpy"}
_HOLDERS = {"types", "collections", "argparse", "queue", "weakref", "functools"}
"""Modules of Python's own whose objects do nothing but hold others."""

_CALLED_FROM_OUTSIDE = {"forward", "step"}


def reachable(
    roots: Collection[object], parents: dict[int, object] | None = None
) -> Iterator[object]:
    """Everything that can be reached from some objects and is worth a look, each once.

    Args:
        roots: the objects to start from; attributes of theirs are followed whatever they are.
        parents: filled with what each object was reached from, by its id.
    """
    stack: list[object] = []
    for root in roots:
        inside = [*held_by(root, known=True)]
        stack += [*inside, root]
        if parents is not None:
            parents |= {id(entry): root for entry in inside if id(entry) not in parents}
    seen: set[int] = set()
    methods = _Methods()
    homes = {home for root in roots if hasattr(root, "param_groups") for home in _homes(root)}
    while stack:
        item = stack.pop()
        if isinstance(item, PLAIN) or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, Optimizer):
            homes |= _homes(item)
        is_known = bool(homes) and package_of(type(item)) in homes
        inside = [*held_by(item, known=is_known), *methods.found_in(item)]
        if parents is not None:
            for entry in inside:
                parents.setdefault(id(entry), item)
        stack.extend(inside)


def _homes(optimizer: object) -> set[str]:
    """The packages from which an optimizer's class is built, but for the large ones."""
    packages = {package_of(kind) for kind in type(optimizer).__mro__}
    return packages - _LIBRARIES - sys.stdlib_module_names


def package_of(kind: type) -> str:
    """The package in which a class was defined."""
    return str(kind.__module__).partition(".")[0]


class _Methods:
    """The functions of classes, each from when code that can be reached names it.

    A class may have a method that loads the training set: if nobody calls it in a pass, what it
    leads to is none of a probe's business.
    """

    def __init__(self) -> None:
        self._named = set(_CALLED_FROM_OUTSIDE)
        self._waiting: dict[str, list[object]] = {}

    def found_in(self, item: object) -> list[object]:
        """The methods that an item makes worth a look."""
        if isinstance(item, FunctionType):
            new = names_in(item.__code__) - self._named
            self._named |= new
            return [method for name in new for method in self._waiting.pop(name, ())]
        found: list[object] = []
        if isinstance(item, type) and is_users(item.__module__):
            for name, value in vars(item).items():
                if is_special(name) or name in self._named:
                    found.extend(_functions_in(value))
                else:
                    self._waiting.setdefault(name, []).extend(_functions_in(value))
        return found


def held_by(item: object, *, known: bool = False) -> Iterable[object]:
    """What an object holds; of a foreign one, only if it is ``known`` to matter."""
    if isinstance(item, dict):
        return [*item.values(), *_beside_entries(item)]
    if isinstance(item, list | deque | set | frozenset | tuple):
        return [*item, *_beside_entries(item)]
    if isinstance(item, nn.Module):
        # Scripted modules keep their children, parameters and buffers out of Python's sight.
        tensors = [*item.parameters(recurse=False), *item.buffers(recurse=False)]
        return [vars(item), *item.children(), *tensors, *_slots_and_class(item)]
    if isinstance(item, Tensor):
        # Some libraries hang state on parameters.
        return [vars(item)] if type(item) in (Tensor, nn.Parameter) else ()
    if isinstance(item, np.ndarray):
        return item.ravel().tolist() if item.dtype == object else ()
    if isinstance(item, type):
        return _held_by_class(item)
    if isinstance(item, FunctionType | MethodType | BuiltinMethodType | partial | ref):
        return _held_by_function(item)
    if isinstance(item, CellType | MappingProxyType | memoryview):
        return [item.obj] if isinstance(item, memoryview) else gc.get_referents(item)
    if known or isinstance(item, Optimizer) or is_dataclass(item) or is_open(item):
        return [*_attributes(item), *_slots_and_class(item)]
    return ()


def _held_by_function(item: Any) -> list[object]:  # noqa: ANN401
    if isinstance(item, FunctionType):
        if _home(item).startswith("torch.distributed"):
            return []  # its memory comes and goes; `shards` keeps what is to be kept
        named = [value for _, _, value in named_by(item) if value is not EMPTY]
        # torch hangs caches of its own on functions of its own.
        attributes = [vars(item)] if is_users(_home(item)) else vars(item).values()
        return [
            *(item.__closure__ or ()),
            *(item.__defaults__ or ()),
            *([item.__kwdefaults__] if item.__kwdefaults__ else ()),
            *attributes,
            *named,
        ]
    if isinstance(item, ref):
        return [target for target in [item()] if is_open(target)]
    if isinstance(item, MethodType):
        return [item.__self__, item.__func__]
    if isinstance(item, BuiltinMethodType):
        return [item.__self__]
    return [item.func, item.args, item.keywords, vars(item)]


def _held_by_class(kind: type) -> list[object]:
    if not is_users(kind.__module__):
        return []
    own = [value for name, value in vars(kind).items() if not is_special(name)]
    values = [value for value in own if not _functions_in(value) and not _is_slot(value)]
    return [*kind.__bases__, *values]


def _functions_in(member: object) -> list[object]:
    """The functions of one entry of a class, which stay in waiting until they are named."""
    if isinstance(member, staticmethod | classmethod):
        return [member.__func__]
    if isinstance(member, property):
        return [function for function in (member.fget, member.fset) if function is not None]
    return [member] if isinstance(member, FunctionType) else []


def _beside_entries(container: object) -> list[object]:
    """What a container of the user's own kind has besides its entries."""
    is_own = is_users(type(container).__module__)
    return [*_attributes(container), *_slots_and_class(container)] if is_own else []


def _attributes(item: object) -> list[object]:
    # Not `vars`: an object that passes its attributes on would be asked for another's.
    return [object.__getattribute__(item, "__dict__")] if type(item).__dictoffset__ else []


def _slots_and_class(item: object) -> list[object]:
    if not is_users(type(item).__module__):
        return []
    return [*(value for _, value in slots_of(item) if value is not EMPTY), type(item)]


def slots_of(item: object) -> list[tuple[Any, object]]:
    """The slots of an object of the user's, and what is in them."""
    if not is_users(type(item).__module__):
        return []
    kinds = [kind for kind in type(item).__mro__ if is_users(kind.__module__)]
    slots: list[Any] = [e for kind in kinds for e in vars(kind).values() if _is_slot(e)]
    return [(slot, _content(slot, item)) for slot in slots]


def _is_slot(entry: object) -> bool:
    return isinstance(entry, MemberDescriptorType)


def _content(slot: Any, item: object) -> object:  # noqa: ANN401
    try:
        return slot.__get__(item)
    except AttributeError:
        return EMPTY


def named_by(function: FunctionType) -> list[tuple[dict[str, Any], str, object]]:
    """The globals that a function of the user's names: where they are, and what they are now.

    Also those of the user's modules that it has as globals, in its closure or defaults, or imports.
    """
    if not is_users(_home(function)):
        return []
    space = function.__globals__
    names = names_in(function.__code__)
    found = [(space, name, space.get(name, EMPTY)) for name in names]
    cells = [cell for cell in function.__closure__ or () if gc.get_referents(cell)]
    held: list[object] = [value for _, _, value in found]
    held += [cell.cell_contents for cell in cells] + [*(function.__defaults__ or ())]
    held += [sys.modules.get(name) for name in imports_in(function.__code__)]
    modules: set[int] = set()
    while held:
        module = held.pop()
        is_new = isinstance(module, ModuleType) and id(module) not in modules
        if isinstance(module, ModuleType) and is_new and is_users(module.__name__):
            modules.add(id(module))
            inside = vars(module)
            named = [(inside, name, inside[name]) for name in names if name in inside]
            found += named
            held += [value for _, _, value in named]
    return [entry for entry in found if not is_special(entry[1])]


def _home(function: FunctionType) -> str:
    # Not `__module__`, which a decorator copies from the function that it wraps.
    return str(function.__globals__.get("__name__", "__main__"))


@lru_cache(maxsize=4096)
def names_in(code: CodeType) -> frozenset[str]:
    """Every global and attribute that code names, also inside its inner functions."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)


@lru_cache(maxsize=4096)
def imports_in(code: CodeType) -> frozenset[str]:
    """Every module that code imports when it runs, also inside its inner functions."""
    inner = [imports_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    own = (entry.argval for entry in get_instructions(code) if entry.opname == "IMPORT_NAME")
    return frozenset(own).union(*inner)


def is_special(name: str) -> bool:
    """Whether a name is one of Python's own, as ``__init__``."""
    return name.startswith("__") and name.endswith("__")


def is_open(item: object) -> bool:
    """Whether an object may be looked into: it is the user's own, or does nothing but hold."""
    return is_users(type(item).__module__) or type(item).__module__ in _HOLDERS


@lru_cache(maxsize=4096)
def is_users(module: object) -> bool:
    """Whether a module, by its name, is the user's own: not Python's, installed, or rote's."""
    if not isinstance(module, str):
        return False  # types of Cython have a descriptor there
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package in _LIBRARIES:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not _INSTALLED & set(Path(file).parts)
