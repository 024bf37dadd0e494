"""A walk over everything that objects hold, and copies of it that can be restored.

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
from rote.snapshot.tensors import TensorValues, find_addresses

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]

PLAIN = (str, bytes, int, float, complex, type(None))
EMPTY: Any = object()
"""A marker for an empty cell, an empty slot or an undefined name."""

_INSTALLED = {"site-packages", "dist-packages"}
_LIBRARIES = {"rote", "torch", "torchvision", "numpy"}
_HOLDERS = {
    *("types", "collections", "argparse", "queue", "weakref", "functools"),
    "accelerate.hooks",  # which record the devices of inputs and weights at every pass
}
"""Installed modules whose objects mainly hold other objects."""

_CALLED_FROM_OUTSIDE = {"forward", "step"}
_CONTAINERS = (dict, list, deque, set, frozenset, tuple)


class ObjectState:
    """A copy of everything that some objects contain.

    Follows attributes, containers and functions into every module, optimizer, dataclass, tensor,
    array, generator and object of the user's own classes that can be reached. Other objects are
    kept by reference, and their contents are not copied.

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
        self._containers = ContainerCopies()
        self._modes: list[tuple[nn.Module, bool]] = []
        self._others: list[Restore] = []
        self.tensors: list[Tensor] = []
        for item in find_reachable(roots):
            self._note(item)
        kept = {id(tensor) for tensor in without}
        memory = {place for tensor in without for place in find_addresses(tensor)}
        others = [tensor for tensor in self.tensors if id(tensor) not in kept]
        self.sharing = [tensor for tensor in others if memory & find_addresses(tensor)]
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
            self._others.extend(_make_rebinders(item))
        elif isinstance(item, dict | list | deque | set):
            self._containers.note(item)
            self._others.extend(_make_rebinders(item))
        elif isinstance(item, np.ndarray) and item.flags.writeable:
            self._others.append(partial(np.copyto, item, item.copy()))
        elif (put_back := make_restorer(item)) is not None:
            self._others.append(put_back)
        else:
            self._others.extend(_make_rebinders(item))


def find_parameters(optimizer: Optimizer) -> list[Tensor]:
    """Return every tensor that the optimizer steps, each once."""
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return list({id(parameter): parameter for parameter in listed}.values())


class ContainerCopies:
    """Shallow copies of some containers."""

    def __init__(self) -> None:
        self._noted: list[tuple[Container, Container]] = []

    def note(self, container: Container) -> None:
        """Store the current entries of a container."""
        self._noted.append((container, _copy_entries(container)))

    def restore(self) -> None:
        """Restore the entries, in their order."""
        for container, contents in self._noted:
            if not _holds(container, contents):
                _refill(container, contents)


def _copy_entries(container: Container) -> Container:
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _holds(container: Container, contents: Container) -> bool:
    """Return whether a container holds the same objects, in the same order."""
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
    """Restore the entries without ever emptying the container.

    A signal handler that raises midway must not leave a module without its attributes.
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


def _make_rebinders(item: Any) -> Iterator[Callable[[], None]]:  # noqa: ANN401
    """Yield functions that restore the present bindings of an item."""
    if isinstance(item, CellType):
        yield partial(_refill_cell, item, _read_cell(item))
    elif isinstance(item, FunctionType):
        if item.__defaults__:
            yield partial(_reset_defaults, item, item.__defaults__)
        if named := find_named_globals(item):
            yield partial(_rebind, named)
    elif isinstance(item, type):
        if is_user_module(item.__module__):
            yield partial(_reset_class, item, _list_own_attributes(item))
    elif isinstance(item, bytearray | array):
        yield partial(_refill_bytes, item, item[:])
    elif slots := read_slots(item):
        yield partial(_refill_slots, item, slots)


def _read_cell(cell: CellType) -> object:
    """Return the value of a variable of a closure."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _refill_cell(cell: CellType, content: object) -> None:
    if _read_cell(cell) is content:
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
    for (slot, before), (_, now) in zip(slots, read_slots(item), strict=True):
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
        opens_all: also follow the attributes of foreign objects.
        longest: skip containers with more entries, which hold data.
    """
    stack: list[object] = []
    for root in roots:
        inside = [*find_held(root, known=True)]
        stack += [*inside, root]
        if parents is not None:
            parents |= {id(entry): root for entry in inside if id(entry) not in parents}
    seen: set[int] = set()
    methods = _Methods()
    homes = {
        home for root in roots if hasattr(root, "param_groups") for home in _list_packages(root)
    }
    while stack:
        item = stack.pop()
        if isinstance(item, PLAIN) or id(item) in seen:
            continue
        seen.add(id(item))
        if longest is not None and isinstance(item, _CONTAINERS) and len(item) > longest:
            continue
        yield item
        if isinstance(item, Optimizer) or is_tensor_subclass(item):
            homes |= _list_packages(item)
        is_known = opens_all or (bool(homes) and get_package(type(item)) in homes)
        inside = [*find_held(item, known=is_known), *methods.find_in(item)]
        if parents is not None:
            for entry in inside:
                parents.setdefault(id(entry), item)
        stack.extend(inside)


def is_tensor_subclass(item: object) -> bool:
    """Return whether an object is a tensor of a library's own class, such as a quantized weight."""
    return isinstance(item, Tensor) and type(item) not in (Tensor, nn.Parameter, nn.Buffer)


def _list_packages(thing: object) -> set[str]:
    """Return the packages of an object's class and its bases, without large libraries."""
    packages = {get_package(kind) for kind in type(thing).__mro__}
    return packages - _LIBRARIES - sys.stdlib_module_names


def get_package(kind: type) -> str:
    """Return the package in which a class was defined."""
    return str(kind.__module__).partition(".")[0]


class _Methods:
    """Methods of the user's classes, each followed only once reachable code names it.

    A method that loads the training set, for instance, need not be followed unless a pass calls it.
    """

    def __init__(self) -> None:
        self._named = set(_CALLED_FROM_OUTSIDE)
        self._waiting: dict[str, list[object]] = {}

    def find_in(self, item: object) -> list[object]:
        """Return the methods to follow because of an item."""
        if isinstance(item, FunctionType):
            new = find_names(item.__code__) - self._named
            self._named |= new
            return [method for name in new for method in self._waiting.pop(name, ())]
        found: list[object] = []
        if isinstance(item, type) and is_user_module(item.__module__):
            for name, value in vars(item).items():
                if is_special(name) or name in self._named:
                    found.extend(_find_functions(value))
                else:
                    self._waiting.setdefault(name, []).extend(_find_functions(value))
        return found


def find_held(item: object, *, known: bool = False) -> Iterable[object]:
    """Return the contents of an object; of unknown classes, only if ``known`` to matter."""
    if isinstance(item, dict):
        return [*item.values(), *_find_beside_entries(item)]
    if isinstance(item, list | deque | set | frozenset | tuple):
        return [*item, *_find_beside_entries(item)]
    if isinstance(item, nn.Module):
        # Scripted modules keep their children, parameters and buffers outside of Python.
        tensors = [*item.parameters(recurse=False), *item.buffers(recurse=False)]
        return [vars(item), *item.children(), *tensors, *_find_slots_and_class(item)]
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
    is_followed = known or isinstance(item, Optimizer) or is_dataclass(item) or is_inspectable(item)
    if is_followed and not isinstance(item, ModuleType):
        return [*_get_attributes(item), *_find_slots_and_class(item)]
    return ()


def _find_held_by_function(item: Any) -> list[object]:  # noqa: ANN401
    if isinstance(item, FunctionType):
        if _get_module_name(item).startswith("torch.distributed"):
            return []  # its memory is freed between passes; `shards` keeps the state
        named = [value for _, _, value in find_named_globals(item) if value is not EMPTY]
        # torch keeps caches in attributes of its own functions.
        attributes = [vars(item)] if is_user_module(_get_module_name(item)) else vars(item).values()
        return [
            *(item.__closure__ or ()),
            *(item.__defaults__ or ()),
            *([item.__kwdefaults__] if item.__kwdefaults__ else ()),
            *attributes,
            *named,
        ]
    if isinstance(item, ref):
        return [target for target in [item()] if is_inspectable(target)]
    if isinstance(item, MethodType):
        return [item.__self__, item.__func__]
    if isinstance(item, BuiltinMethodType):
        return [item.__self__]
    return [item.func, item.args, item.keywords, vars(item)]


def _find_held_by_class(kind: type) -> list[object]:
    if not is_user_module(kind.__module__):
        return []
    own = [value for name, value in vars(kind).items() if not is_special(name)]
    values = [value for value in own if not _find_functions(value) and not _is_slot(value)]
    return [*kind.__bases__, *values]


def _find_functions(member: object) -> list[object]:
    """Return the functions in one entry of a class."""
    if isinstance(member, staticmethod | classmethod):
        return [member.__func__]
    if isinstance(member, property):
        return [function for function in (member.fget, member.fset) if function is not None]
    return [member] if isinstance(member, FunctionType) else []


def _find_beside_entries(container: object) -> list[object]:
    """Return the attributes and slots of a container of the user's own class."""
    is_own = is_user_module(type(container).__module__)
    return [*_get_attributes(container), *_find_slots_and_class(container)] if is_own else []


def _get_attributes(item: object) -> list[object]:
    # Not `vars`: a proxy would return the attributes of another object.
    return [object.__getattribute__(item, "__dict__")] if type(item).__dictoffset__ else []


def _find_slots_and_class(item: object) -> list[object]:
    if not is_user_module(type(item).__module__):
        return []
    return [*(value for _, value in read_slots(item) if value is not EMPTY), type(item)]


def read_slots(item: object) -> list[tuple[Any, object]]:
    """Return the slots of an object of the user's own class, and their values."""
    if not is_user_module(type(item).__module__):
        return []
    kinds = [kind for kind in type(item).__mro__ if is_user_module(kind.__module__)]
    slots: list[Any] = [e for kind in kinds for e in vars(kind).values() if _is_slot(e)]
    return [(slot, _read_slot(slot, item)) for slot in slots]


def _is_slot(entry: object) -> bool:
    return isinstance(entry, MemberDescriptorType)


def _read_slot(slot: Any, item: object) -> object:  # noqa: ANN401
    try:
        return slot.__get__(item)
    except AttributeError:
        return EMPTY


def find_named_globals(function: FunctionType) -> list[tuple[dict[str, Any], str, object]]:
    """Return the globals that a function of the user's names, as (namespace, name, value).

    The names are also looked up in the user's modules that the function refers to or imports.
    """
    if not is_user_module(_get_module_name(function)):
        return []
    space = function.__globals__
    names = find_names(function.__code__)
    found = [(space, name, space.get(name, EMPTY)) for name in names]
    cells = [cell for cell in function.__closure__ or () if gc.get_referents(cell)]
    held: list[object] = [value for _, _, value in found]
    held += [cell.cell_contents for cell in cells] + [*(function.__defaults__ or ())]
    held += [sys.modules.get(name) for name in find_imports(function.__code__)]
    modules: set[int] = set()
    while held:
        module = held.pop()
        is_new = isinstance(module, ModuleType) and id(module) not in modules
        if isinstance(module, ModuleType) and is_new and is_user_module(module.__name__):
            modules.add(id(module))
            inside = vars(module)
            named = [(inside, name, inside[name]) for name in names if name in inside]
            found += named
            held += [value for _, _, value in named]
    return [entry for entry in found if not is_special(entry[1])]


def _get_module_name(function: FunctionType) -> str:
    # Not `__module__`, which a decorator copies from the function that it wraps.
    return str(function.__globals__.get("__name__", "__main__"))


@lru_cache(maxsize=4096)
def find_names(code: CodeType) -> frozenset[str]:
    """Return every global and attribute that code names, also inside its inner functions."""
    inner = [find_names(constant) for constant in code.co_consts if isinstance(constant, CodeType)]
    return frozenset(code.co_names).union(*inner)


@lru_cache(maxsize=4096)
def find_imports(code: CodeType) -> frozenset[str]:
    """Return every module that code imports when it runs, also inside its inner functions."""
    inner = [
        find_imports(constant) for constant in code.co_consts if isinstance(constant, CodeType)
    ]
    own = (entry.argval for entry in get_instructions(code) if entry.opname == "IMPORT_NAME")
    return frozenset(own).union(*inner)


def is_special(name: str) -> bool:
    """Return whether a name is special to Python, as ``__init__``."""
    return name.startswith("__") and name.endswith("__")


def is_inspectable(item: object) -> bool:
    """Return whether to look into an object: a user's class, or one that holds other objects."""
    return is_user_module(type(item).__module__) or type(item).__module__ in _HOLDERS


@lru_cache(maxsize=4096)
def is_user_module(module: object) -> bool:
    """Return whether a module is the user's: not Python's, not installed, not rote's."""
    if not isinstance(module, str):
        return False  # types of Cython have a descriptor there
    package = module.partition(".")[0]
    if package in sys.stdlib_module_names or package in _LIBRARIES:
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    return file is None or not _INSTALLED & set(Path(file).parts)
