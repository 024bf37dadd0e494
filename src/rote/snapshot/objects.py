"""What objects hold, all the way down: a walk over it, and copies that can be restored.

Functions lead to their closures, defaults and attributes. The globals that code names, the
attributes of classes and of plain objects are followed only where they are the user's own: what is
installed (torch, NumPy, a trainer) is large, shared, and keeps its state in modules and tensors.
Optimizers and tensor subclasses keep it in objects of their own packages: those are followed.
"""

import gc
import operator
import sys
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Collection, Iterable, Iterator
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
from typing import Any, TypeAlias
from weakref import ref

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.randomness import Restore, make_restorer
from rote.snapshot.tensors import TensorValues, memory_of

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]

PLAIN = (str, bytes, int, float, complex, type(None))
EMPTY: Any = object()
"""Stands for what a cell, a slot or a name holds when it holds nothing."""

_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARIES = {"rote", "torch", "torchvision", "numpy"}
_HOLDERS = {
    *("types", "collections", "argparse", "queue", "weakref", "functools"),
    "accelerate.hooks",  # which note at every pass where its inputs and weights were
}
"""Installed modules whose objects do little but hold others."""

_CALLED_FROM_OUTSIDE = {"forward", "step"}
_CONTAINERS = (dict, list, deque, set, frozenset, tuple)


class ObjectState:
    """What some objects contain, all the way down.

    Follows attributes, containers and functions into every module, optimizer, dataclass, tensor,
    array, generator and object of the user's own that can be reached. Other objects are
    kept by reference: what they hold inside is not copied.

    Args:
        roots: the objects to start from.
        without: tensors whose values are kept elsewhere, also for what shares their memory.
        spares_unchanged: write only to tensors that changed.
        device: where to keep the copies of tensors; by default on their own device.

    Attributes:
        tensors: every tensor that was found.
        sharing: those among them that share memory with ``without``.
    """

    def __init__(
        self,
        *roots: object,
        without: Collection[Tensor] = (),
        spares_unchanged: bool = False,
        device: str | None = None,
    ) -> None:
        self._containers = Contents()
        self._modes: list[tuple[nn.Module, bool]] = []
        self._others: list[Restore] = []
        self.tensors: list[Tensor] = []
        for item in find_reachable(roots):
            self._note(item)
        kept = {id(tensor) for tensor in without}
        memory = {place for tensor in without for place in memory_of(tensor)}
        others = [tensor for tensor in self.tensors if id(tensor) not in kept]
        self.sharing = [tensor for tensor in others if memory & memory_of(tensor)]
        shared = {id(tensor) for tensor in self.sharing}
        self._values = TensorValues(
            (tensor for tensor in others if id(tensor) not in shared),
            spares_unchanged=spares_unchanged,
            device=device,
        )

    def restore(self) -> None:
        """Restore every attribute, every entry of every container, and every value."""
        self._containers.restore()
        for module, training in self._modes:
            if module.training != training:
                module.training = training
        for put_back in self._others:
            put_back()
        self._values.restore()

    def _note(self, item: object) -> None:
        if isinstance(item, Tensor):
            self.tensors.append(item)
        elif isinstance(item, nn.Module):
            self._modes.append((item, item.training))
            self._others.extend(_rebinders_of(item))
        elif isinstance(item, dict | list | deque | set):
            self._containers.note(item)
            self._others.extend(_rebinders_of(item))
        elif isinstance(item, np.ndarray) and item.flags.writeable:
            self._others.append(partial(np.copyto, item, item.copy()))
        elif (put_back := make_restorer(item)) is not None:
            self._others.append(put_back)
        else:
            self._others.extend(_rebinders_of(item))


def find_parameters(optimizer: Optimizer) -> list[Tensor]:
    """Return every tensor that the optimizer steps, each once."""
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return list({id(parameter): parameter for parameter in listed}.values())


class Contents:
    """The entries of some containers; not what is inside the entries."""

    def __init__(self) -> None:
        self._noted: list[tuple[Container, Container]] = []

    def note(self, container: Container) -> None:
        """Remember what a container holds now."""
        self._noted.append((container, _shallow_copy(container)))

    def restore(self) -> None:
        """Restore the same entries, in their order."""
        for container, contents in self._noted:
            if not _holds(container, contents):
                _refill(container, contents)


def _shallow_copy(container: Container) -> Container:
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _holds(container: Container, contents: Container) -> bool:
    """Whether a container holds the same objects, in the same order."""
    if isinstance(container, set):
        return container == contents
    if isinstance(container, dict) and isinstance(contents, dict):
        return _are_identical(container, contents) and _are_identical(
            container.values(), contents.values()
        )
    return _are_identical(container, contents)


def _are_identical(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _refill(container: Container, contents: Container) -> None:
    """Put entries back without ever emptying the container.

    A signal handler that raises half way must not leave a module without its attributes.
    """
    if isinstance(container, dict) and isinstance(contents, dict):
        # Not `update`, which adds in a Counter, nor a subclass's own way to set an item.
        kind = OrderedDict if isinstance(container, OrderedDict) else dict
        for key, value in contents.items():
            kind.__setitem__(container, key, value)
        for key in [key for key in container if key not in contents]:
            kind.__delitem__(container, key)
        if not _are_identical(container, contents):  # the same keys in another order
            for key, value in contents.items():
                kind.__delitem__(container, key)
                kind.__setitem__(container, key, value)
    elif isinstance(container, set):
        container.update(contents)
        container.intersection_update(contents)
    elif isinstance(container, deque):
        container.extend(contents)
        while len(container) > len(contents):
            container.popleft()
    else:
        container[:] = contents


def _rebinders_of(item: Any) -> Iterator[Callable[[], None]]:  # noqa: ANN401
    """Yield functions that restore what an item binds now."""
    if isinstance(item, CellType):
        yield partial(_refill_cell, item, _content_of(item))
    elif isinstance(item, FunctionType):
        if item.__defaults__:
            yield partial(_reset_defaults, item, item.__defaults__)
        if named := find_named(item):
            yield partial(_rebind, named)
    elif isinstance(item, type):
        if is_users(item.__module__):
            yield partial(_reset_class, item, _list_own_attributes(item))
    elif isinstance(item, bytearray | array):
        yield partial(_refill_bytes, item, item[:])
    elif slots := slots_of(item):
        yield partial(_refill_slots, item, slots)


def _content_of(cell: CellType) -> object:
    """Return what a variable of a closure is bound to."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _refill_cell(cell: CellType, content: object) -> None:
    if _content_of(cell) is content:
        return
    if content is EMPTY:
        del cell.cell_contents
    else:
        cell.cell_contents = content


def _reset_defaults(function: FunctionType, defaults: tuple[object, ...]) -> None:
    if function.__defaults__ is not defaults:
        function.__defaults__ = defaults


def _rebind(named: list[tuple[dict[str, Any], str, object]]) -> None:
    for space, name, value in named:
        if space.get(name, EMPTY) is value:
            continue
        if value is EMPTY:
            del space[name]
        else:
            space[name] = value


def _list_own_attributes(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not is_special(name)}


def _reset_class(kind: type, attributes: dict[str, object]) -> None:
    now = _list_own_attributes(kind)
    for name in now.keys() - attributes.keys():
        type.__delattr__(kind, name)
    for name, value in attributes.items():
        if now.get(name, EMPTY) is not value:
            type.__setattr__(kind, name, value)


def _refill_bytes(item: Any, content: Any) -> None:  # noqa: ANN401
    if item != content:
        item[:] = content


def _refill_slots(item: object, slots: list[tuple[Any, object]]) -> None:
    for (slot, before), (_, now) in zip(slots, slots_of(item), strict=True):
        if before is EMPTY and now is not EMPTY:
            slot.__delete__(item)
        elif before is not now:
            slot.__set__(item, before)


def find_reachable(
    roots: Collection[object],
    parents: dict[int, object] | None = None,
    *,
    opens_all: bool = False,
    longest: int | None = None,
) -> Iterator[object]:
    """Walk over everything that can be reached from some objects and can hold state, each once.

    Args:
        roots: the objects to start from; all their attributes are followed.
        parents: filled with what each object was reached from, by its id.
        opens_all: follow the attributes of foreign objects, too.
        longest: pass over containers with more entries: they hold data.
    """
    stack: list[object] = []
    for root in roots:
        inside = [*find_held(root, known=True)]
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
        if longest is not None and isinstance(item, _CONTAINERS) and len(item) > longest:
            continue
        yield item
        if isinstance(item, Optimizer) or is_tensor_subclass(item):
            homes |= _homes(item)
        is_known = opens_all or (bool(homes) and package_of(type(item)) in homes)
        inside = [*find_held(item, known=is_known), *methods.find_in(item)]
        if parents is not None:
            for entry in inside:
                parents.setdefault(id(entry), item)
        stack.extend(inside)


def is_tensor_subclass(item: object) -> bool:
    """Whether an object is a tensor of a library's own kind, such as a quantized weight."""
    return isinstance(item, Tensor) and type(item) not in (Tensor, nn.Parameter, nn.Buffer)


def _homes(thing: object) -> set[str]:
    """Return the packages that an object's class is built from, without the large ones."""
    packages = {package_of(kind) for kind in type(thing).__mro__}
    return packages - _LIBRARIES - sys.stdlib_module_names


def package_of(kind: type) -> str:
    """Return the package in which a class was defined."""
    return str(kind.__module__).partition(".")[0]


class _Methods:
    """The functions of classes, each from when code that can be reached names it.

    A class may have a method that loads the training set: unless a pass calls it, a probe
    does not have to follow it.
    """

    def __init__(self) -> None:
        self._named = set(_CALLED_FROM_OUTSIDE)
        self._waiting: dict[str, list[object]] = {}

    def find_in(self, item: object) -> list[object]:
        """Return the methods that an item makes worth following."""
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


def find_held(item: object, *, known: bool = False) -> Iterable[object]:
    """Return what an object holds; of a foreign one, only if it is ``known`` to matter."""
    if isinstance(item, dict):
        return [*item.values(), *_find_beside_entries(item)]
    if isinstance(item, list | deque | set | frozenset | tuple):
        return [*item, *_find_beside_entries(item)]
    if isinstance(item, nn.Module):
        # Scripted modules keep their children, parameters and buffers out of Python's sight.
        tensors = [*item.parameters(recurse=False), *item.buffers(recurse=False)]
        return [vars(item), *item.children(), *tensors, *_slots_and_class(item)]
    if isinstance(item, Tensor):
        # Libraries keep state in attributes of parameters: quantized weights their scales.
        return [vars(item)] if type(item).__dictoffset__ else ()
    if isinstance(item, np.ndarray):
        return item.ravel().tolist() if item.dtype == object else ()
    if isinstance(item, type):
        return _find_held_by_class(item)
    if isinstance(item, FunctionType | MethodType | BuiltinMethodType | partial | ref):
        return _find_held_by_function(item)
    if isinstance(item, CellType | MappingProxyType | memoryview):
        return [item.obj] if isinstance(item, memoryview) else gc.get_referents(item)
    is_followed = known or isinstance(item, Optimizer) or is_dataclass(item) or is_open(item)
    if is_followed and not isinstance(item, ModuleType):
        return [*_attributes(item), *_slots_and_class(item)]
    return ()


def _find_held_by_function(item: Any) -> list[object]:  # noqa: ANN401
    if isinstance(item, FunctionType):
        if _home(item).startswith("torch.distributed"):
            return []  # its memory comes and goes; `shards` keeps what is to be kept
        named = [value for _, _, value in find_named(item) if value is not EMPTY]
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


def _find_held_by_class(kind: type) -> list[object]:
    if not is_users(kind.__module__):
        return []
    own = [value for name, value in vars(kind).items() if not is_special(name)]
    values = [value for value in own if not _functions_in(value) and not _is_slot(value)]
    return [*kind.__bases__, *values]


def _functions_in(member: object) -> list[object]:
    """Return the functions of one entry of a class, which stay in waiting until they are named."""
    if isinstance(member, staticmethod | classmethod):
        return [member.__func__]
    if isinstance(member, property):
        return [function for function in (member.fget, member.fset) if function is not None]
    return [member] if isinstance(member, FunctionType) else []


def _find_beside_entries(container: object) -> list[object]:
    """Return what a container of the user's own kind has besides its entries."""
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
    """Return the slots of an object of the user's, and what is in them."""
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


def find_named(function: FunctionType) -> list[tuple[dict[str, Any], str, object]]:
    """Return the globals that a function of the user's names: where they are, and their values.

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
    """Return every global and attribute that code names, also inside its inner functions."""
    inner = [names_in(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)


@lru_cache(maxsize=4096)
def imports_in(code: CodeType) -> frozenset[str]:
    """Return every module that code imports when it runs, also inside its inner functions."""
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
