"""A checksum of everything that training depends on, name by name.

It walks and compares on its own, apart from the code that saves and restores, so that each can
prove the other wrong.
"""

import ctypes
import random
import sys
import sysconfig
import warnings
import weakref
import zlib
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.randomness import get_accelerator_states
from rote.snapshot.shards import find_whole_parameters
from rote.snapshot.tensors import holds_quantized, is_freed, split_into_strided

_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.device, torch.dtype)
_MODULE_REGISTRIES = {"_parameters", "_buffers", "_modules"}
Parts: TypeAlias = dict[str, object]

_WRAPPERS: dict[type, tuple[str, ...]] = {
    MethodType: ("__self__", "__func__"),
    partial: ("func", "args", "keywords"),
    staticmethod: ("__func__",),
    classmethod: ("__func__",),
    property: ("fget", "fset"),
}
_HOMES = [sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib")]
_HOMES.append(str(Path(__file__).parents[1]))


def take_fingerprint(model: nn.Module, *others: object) -> dict[str, str]:
    """Describe everything that training depends on, by name.

    Args:
        model: its parameters, gradients, buffers, flags and plain attributes are described.
        others: optimizers (state, parameter groups, attributes), scalers, functions and whatever
            else has attributes; ``None`` is ignored.

    Returns:
        By name, a text that changes if and when the object changes.
    """
    return _Fingerprint(model, others).descriptions


def find_differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names that changed, appeared or vanished between two fingerprints."""
    changed = [name for name, mark in before.items() if name in after and after[name] != mark]
    vanished = [f"{name} (gone)" for name in before if name not in after]
    appeared = [f"{name} (new)" for name in after if name not in before]
    return changed + vanished + appeared


class _Fingerprint:
    """Descriptions by name. Memory that several names share is read once."""

    def __init__(self, model: nn.Module, others: tuple[object, ...]) -> None:
        self._checksums = Checksums()
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.descriptions = dict(self._describe_module(model))
        for thing in others:
            kind = type(thing).__name__
            if isinstance(thing, Optimizer):
                kind = "optimizer"
                self.descriptions |= dict(self._describe_parameters(thing))
            for key, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
                self._describe_entries(f"{kind}.{key}", value)
        roots = {"model": model} | {
            _get_name(thing): thing for thing in others if thing is not None
        }
        marked = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        for name, thing, parts in _find_hidden(roots):
            if id(thing) not in marked:
                known = self._checksums
                content = (
                    describe(thing, 3, known)
                    if parts is None
                    else repr([*map(_describe_briefly, parts)])
                )
                self.descriptions[f"{name} ({type(thing).__name__})"] = content
        self.descriptions |= dict(self._describe_generators())

    def _describe(self, value: object) -> str:
        return describe(value, checksums=self._checksums)

    def _describe_parameters(self, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
        for index, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                place = f"param_groups[{index}][{position}]"
                name = self._names.setdefault(id(parameter), place)
                yield f"optimizer parameter {name}", self._describe(parameter)
                yield f"optimizer gradient of {name}", self._describe(parameter.grad)

    def _describe_module(self, model: nn.Module) -> Iterator[tuple[str, str]]:
        whole = {id(parameter) for parameter in find_whole_parameters(model)}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            is_settled = id(parameter) not in whole
            yield (
                f"parameter {name}",
                _describe_tensor(parameter, self._checksums, settled=is_settled),
            )
            yield f"gradient of {name}", self._describe(parameter.grad)
        for name, buffer in model.named_buffers(remove_duplicate=False):
            yield f"buffer {name}", self._describe(buffer)
        for name, module in model.named_modules():
            yield f"mode of module {name or '(root)'}", repr(module.training)
            for key, value in vars(module).items():
                if key not in _MODULE_REGISTRIES:
                    yield f"attribute {key} of module {name or '(root)'}", self._describe(value)

    def _describe_generators(self) -> Iterator[tuple[str, str]]:
        yield "random state of Python", self._describe(random.getstate())
        yield "random state of NumPy", self._describe(np.random.get_state(legacy=False))
        yield "random state of torch", _compute_checksum(torch.get_rng_state())
        if states := get_accelerator_states():
            yield "random state of the accelerator", repr([*map(_compute_checksum, states)])

    def _describe_entries(self, name: str, value: object) -> None:
        """Describe each entry of nested dicts and lists, so that a change is named exactly."""
        if isinstance(value, dict):
            for key, entry in value.items():
                self._describe_entries(f"{name}[{self._names.get(id(key), key)}]", entry)
            self.descriptions[name] = f"keys {[id(key) for key in value]}"
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                self._describe_entries(f"{name}[{index}]", entry)
            self.descriptions[name] = f"length {len(value)}"
        else:
            self.descriptions[name] = self._describe(value)


class Checksums:
    """Checksums of the memory of tensors; shared memory is read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Tensor, str]] = {}

    def compute(self, tensor: Tensor) -> str:
        """Return the checksums of the parts of a tensor."""
        # Frozen and quantized weights are most of a network that is fine-tuned, and torch counts
        # writes to them: the sum of their words is enough, and ten times as fast.
        is_frozen = isinstance(tensor, nn.Parameter) and not tensor.requires_grad
        found = []
        for part in split_into_strided(tensor):
            if is_freed(part):
                continue
            read = _sum_words if is_frozen or holds_quantized(part) else _compute_checksum
            key = (part.data_ptr(), part.dtype, part.shape, part.stride(), read)
            if key not in self._known:
                # Keep the tensor itself, so that its memory is not given to another meanwhile.
                self._known[key] = (part, read(part))
            found.append(self._known[key][1])
        return " ".join(found)


def _compute_checksum(tensor: Tensor) -> str:
    """Return the CRC-32 of the bytes in the order of the memory, and the sum of their words."""
    try:
        flat = _flatten(tensor).cpu()
    except RuntimeError:
        return "unreadable"  # without values, as on the device "meta"
    # Read where it lies, and not through NumPy: memory that NumPy has once looked at can never be
    # resized, as FSDP2 does.
    memory = (ctypes.c_char * flat.numel()).from_address(flat.data_ptr())
    return f"{zlib.crc32(memory):08x}.{_sum_words(flat)}"


def _sum_words(tensor: Tensor) -> str:
    """Return the sum of the bytes, taken as integers of eight bytes, on the tensor's device."""
    try:
        flat = _flatten(tensor)
        size = flat.numel()
        whole, rest = flat[: size - size % 8], flat[size - size % 8 :]
        if whole.data_ptr() % 8:
            whole = whole.clone()
        words = int(whole.view(torch.int64).sum()) if whole.numel() else 0
        last = rest.tolist() if rest.numel() else ""
    except RuntimeError:
        return "unreadable"
    return f"{words & (2**64 - 1):x}{last}"


def _flatten(tensor: Tensor) -> Tensor:
    """Return the bytes of a tensor as one row, of its own memory if that has no gaps."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        tensor = tensor.contiguous()
    row = tensor.as_strided((tensor.numel(),), (1,))
    return row.view(torch.uint8)


def _get_name(thing: object) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__name__))


def _describe_briefly(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else f"{id(value)}"


def _describe_tensor(
    tensor: Tensor, checksums: Checksums, *, settled: bool = True, depth: int = 3
) -> str:
    shape = (tuple(tensor.shape), tensor.dtype, tensor.device)
    # Not of `tensor.detach()`: quantized tensors of torchao copy a part when they are detached.
    parts = split_into_strided(tensor)
    memory = [(_locate_memory(part) if settled else None, part.stride()) for part in parts]
    attributes = vars(tensor) if depth and type(tensor).__dictoffset__ else {}
    held = [(name, describe(attributes[name], depth - 1, checksums)) for name in sorted(attributes)]
    flags = (tensor.requires_grad, id(tensor), memory, held)
    return f"{checksums.compute(tensor)} {shape} {flags}"


def _locate_memory(tensor: Tensor) -> tuple[int, int]:
    """Return the storage of a tensor and its place there, also if the storage was resized."""
    try:
        return int(tensor.untyped_storage()._cdata), int(tensor.storage_offset())
    except RuntimeError:
        return tensor.data_ptr(), 0  # without a storage of its own


def describe(value: object, depth: int = 8, checksums: Checksums | None = None) -> str:
    """Return a text that changes when a value changes, down to some depth."""
    known = Checksums() if checksums is None else checksums
    if isinstance(value, Tensor):
        return _describe_tensor(value, known, depth=min(depth, 3))
    if isinstance(value, np.ndarray) and value.dtype == object:
        return f"{value.shape} {describe(value.ravel().tolist(), depth, known)}"
    if isinstance(value, np.ndarray):
        return f"{value.shape} {zlib.crc32(np.asarray(value).tobytes()):08x}"
    if isinstance(value, bytearray | array):
        return f"{len(value)} {zlib.crc32(bytes(value)):08x}"
    if isinstance(value, _PLAIN):
        return repr(value)
    if isinstance(value, type | ModuleType):
        return f"{id(value)}"
    if depth == 0:
        is_empty = isinstance(value, list | tuple | set | frozenset | dict) and not value
        return repr(value) if is_empty else f"{id(value)}"
    if isinstance(value, list | tuple | deque | set | frozenset):
        return repr([describe(entry, depth - 1, known) for entry in value])
    if isinstance(value, dict):
        items = value.items()
        return repr(
            [(describe(k, depth - 1, known), describe(v, depth - 1, known)) for k, v in items]
        )
    return f"{id(value)} {_describe_contents(value, depth, known)}"


def _describe_contents(value: object, depth: int, known: Checksums) -> str:
    """Describe what an object of any class holds, as far as it can be read."""
    if isinstance(value, torch.Generator):
        return _compute_checksum(value.get_state())
    if isinstance(value, random.Random):
        return describe(value.getstate())
    if isinstance(value, np.random.Generator):
        return describe(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return describe(value.get_state(legacy=False))
    if isinstance(value, np.random.BitGenerator):
        return describe(value.state)
    if hasattr(type(value), "__next__") and (position := _describe_position(value, depth)):
        return position
    if isinstance(value, nn.Module | Optimizer) or callable(value):
        return ""  # modules and functions are described by name
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    # Two levels into an unknown object show a changed counter, and take little time.
    return repr([(key, describe(entry, min(depth - 1, 2), known)) for key, entry in held.items()])


def _describe_position(iterator: object, depth: int) -> str:
    """Return the position of an iterator, if it can be read without advancing it."""
    frame = getattr(iterator, "gi_frame", None)
    if frame is not None:
        inside = (dict(frame.f_locals), getattr(iterator, "gi_yieldfrom", None))
        return f"{frame.f_lasti} {describe(inside, depth)}"
    if type(iterator).__module__ not in ("builtins", "itertools", "collections"):
        return ""  # other iterators may reduce to a new object each time
    try:
        with warnings.catch_warnings(action="ignore"):
            return describe(iterator.__reduce__(), depth - 1)
    except TypeError:
        return ""


def _find_hidden(roots: Mapping[str, object]) -> Iterator[tuple[str, object, list[object] | None]]:
    """Yield everything that can be reached from some objects, each once, with the path to it.

    Yields:
        The path, the thing, and its parts; None for a thing whose parts are not followed.
    """
    stack = list(roots.items())
    seen: set[int] = set()
    steppers = [root for root in roots.values() if hasattr(root, "param_groups")]
    near = {kind.__module__.split(".")[0] for root in steppers for kind in type(root).__mro__}
    near -= {"builtins", "torch", "typing", "abc"}
    while stack:
        name, item = stack.pop()
        if isinstance(item, _PLAIN) or id(item) in seen:
            continue
        seen.add(id(item))
        parts = _find_parts(item)
        if parts is None and str(type(item).__module__).split(".")[0] in near:
            parts = {f".{name}": value for name, value in getattr(item, "__dict__", {}).items()}
        yield name, item, None if parts is None else list(parts.values())
        stack.extend((f"{name}{label}", part) for label, part in (parts or {}).items())


def _find_parts(item: Any) -> Parts | None:  # noqa: ANN401
    entries: Parts | None = None
    if isinstance(item, dict):
        entries = {f"[{_describe_key(key)}]": value for key, value in item.items()}
    elif isinstance(item, list | tuple | deque):
        entries = {f"[{place}]": value for place, value in enumerate(item)}
    elif isinstance(item, set | frozenset):
        entries = {f"{{{_describe_key(value)}}}": value for value in item}
    if entries is not None:
        return entries | (_find_object_parts(item) or {})
    if isinstance(item, FunctionType):
        return _find_function_parts(item)
    for kind, names in _WRAPPERS.items():
        if isinstance(item, kind):
            return {f".{name}": getattr(item, name) for name in names}
    if isinstance(item, type):
        return _find_attributes(item) if _is_own(item.__module__) else {}
    if isinstance(item, Tensor | np.ndarray | ModuleType):
        return {} if isinstance(item, ModuleType) else None
    return _find_object_parts(item)


def _describe_key(key: object) -> str:
    return repr(key) if isinstance(key, _PLAIN) else f"{type(key).__name__} {id(key)}"


def _find_function_parts(function: FunctionType) -> Parts:
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
    return parts | _find_named_parts(function, parts) if is_own else parts


def _find_named_parts(function: FunctionType, held: Parts) -> Parts:
    """Return the globals that a function names, also in the user's modules that it refers to."""
    names = set(_list_names(function.__code__))
    known = function.__globals__
    parts: Parts = {f"'s global {name}": known[name] for name in names & known.keys()}
    # Imported modules are among the names. One that only shares a name does no harm.
    imported = {f"'s import {name}": sys.modules[name] for name in names & sys.modules.keys()}
    stack, seen = [*held.items(), *parts.items(), *imported.items()], set()
    while stack:
        path, module = stack.pop()
        if isinstance(module, ModuleType) and _is_own(module.__name__) and id(module) not in seen:
            seen.add(id(module))
            inside = {f"{path}.{name}": vars(module)[name] for name in names & vars(module).keys()}
            parts |= inside
            stack.extend(inside.items())
    return parts


def _list_names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_names(constant)


def _find_attributes(item: object) -> Parts:
    named = {f".{name}": value for name, value in vars(item).items() if name[:2] != "__"}
    if isinstance(item, type):
        special = {name: value for name, value in vars(item).items() if callable(value)}
        named |= {f".{name}": value for name, value in special.items()}
    return named


def _find_object_parts(item: object) -> Parts | None:
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
    """Return whether a module is the user's own: not Python's, installed or rote's."""
    if not isinstance(module, str):
        return False
    file = getattr(sys.modules.get(module), "__file__", None)
    if not isinstance(file, str):
        return module.partition(".")[0] not in sys.stdlib_module_names
    # Packages may lie outside of this environment, as in the user's site-packages.
    is_installed = "/site-packages/" in file or "/dist-packages/" in file
    return not is_installed and not any(file.startswith(home) for home in _HOMES)
