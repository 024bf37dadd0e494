"""A checksum of everything that training depends on, name by name.

Written apart from the code that saves and restores, so that one can prove the other right.
"""

import ctypes
import random
import warnings
import zlib
from array import array
from collections import deque
from collections.abc import Iterator, Mapping
from types import ModuleType

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.hidden_state import hidden
from rote.snapshot.randomness import uses_cuda
from rote.snapshot.shards import whole_parameters
from rote.snapshot.tensors import is_freed, strided_parts

_PLAIN = (bool, int, float, complex, str, bytes, type(None))
_MODULE_REGISTRIES = {"_parameters", "_buffers", "_modules"}


def fingerprint(model: nn.Module, *others: object) -> dict[str, str]:
    """Name everything that training depends on, and say what it is now.

    Args:
        model: its parameters, gradients, buffers, flags and plain attributes are taken.
        others: optimizers (state, parameter groups, attributes), scalers, functions and whatever
            else has attributes; ``None`` is passed over.

    Returns:
        From name to a text that changes when the thing changes.
    """
    return _Fingerprint(model, others).marks


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names that changed, appeared or vanished between two fingerprints."""
    changed = [name for name, mark in before.items() if name in after and after[name] != mark]
    vanished = [f"{name} (gone)" for name in before if name not in after]
    appeared = [f"{name} (new)" for name in after if name not in before]
    return changed + vanished + appeared


class _Fingerprint:
    """Marks by name; what several names lead to is read once."""

    def __init__(self, model: nn.Module, others: tuple[object, ...]) -> None:
        self._checksums = Checksums()
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self.marks = dict(self._module_marks(model))
        for thing in others:
            kind = type(thing).__name__
            if isinstance(thing, Optimizer):
                kind = "optimizer"
                self.marks |= dict(self._parameter_marks(thing))
            for key, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
                self._spread(f"{kind}.{key}", value)
        roots = {"model": model} | {_name(thing): thing for thing in others if thing is not None}
        marked = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
        for name, thing, parts in hidden(roots):
            if id(thing) not in marked:
                known = self._checksums
                content = mark(thing, 3, known) if parts is None else repr([*map(_brief, parts)])
                self.marks[f"{name} ({type(thing).__name__})"] = content
        self.marks |= dict(self._random_marks())

    def _mark(self, value: object) -> str:
        return mark(value, checksums=self._checksums)

    def _parameter_marks(self, optimizer: Optimizer) -> Iterator[tuple[str, str]]:
        for index, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                place = f"param_groups[{index}][{position}]"
                name = self._names.setdefault(id(parameter), place)
                yield f"optimizer parameter {name}", self._mark(parameter)
                yield f"optimizer gradient of {name}", self._mark(parameter.grad)

    def _module_marks(self, model: nn.Module) -> Iterator[tuple[str, str]]:
        whole = {id(parameter) for parameter in whole_parameters(model)}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            is_settled = id(parameter) not in whole
            yield f"parameter {name}", _tensor_mark(parameter, self._checksums, settled=is_settled)
            yield f"gradient of {name}", self._mark(parameter.grad)
        for name, buffer in model.named_buffers(remove_duplicate=False):
            yield f"buffer {name}", self._mark(buffer)
        for name, module in model.named_modules():
            yield f"mode of module {name or '(root)'}", repr(module.training)
            for key, value in vars(module).items():
                if key not in _MODULE_REGISTRIES:
                    yield f"attribute {key} of module {name or '(root)'}", self._mark(value)

    def _random_marks(self) -> Iterator[tuple[str, str]]:
        yield "random state of Python", self._mark(random.getstate())
        yield "random state of NumPy", self._mark(np.random.get_state(legacy=False))
        yield "random state of torch", _checksum(torch.get_rng_state())
        if uses_cuda():
            yield "random state of CUDA", repr([*map(_checksum, torch.cuda.get_rng_state_all())])

    def _spread(self, name: str, value: object) -> None:
        """One mark per entry of nested dicts and lists, so that a change is named exactly."""
        if isinstance(value, dict):
            for key, entry in value.items():
                self._spread(f"{name}[{self._names.get(id(key), key)}]", entry)
            self.marks[name] = f"keys {[id(key) for key in value]}"
        elif isinstance(value, list):
            for index, entry in enumerate(value):
                self._spread(f"{name}[{index}]", entry)
            self.marks[name] = f"length {len(value)}"
        else:
            self.marks[name] = self._mark(value)


class Checksums:
    """Checksums of the memory of tensors, each place read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], tuple[Tensor, str]] = {}

    def of(self, tensor: Tensor) -> str:
        """The bytes of a tensor, place by place, in a few characters."""
        found = []
        for part in strided_parts(tensor.detach()):
            if is_freed(part):
                continue
            key = (part.data_ptr(), part.dtype, part.shape, part.stride())
            if key not in self._known:
                # With the tensor itself: its memory must not be given to another meanwhile.
                self._known[key] = (part, _checksum(part))
            found.append(self._known[key][1])
        return " ".join(found)


def _checksum(tensor: Tensor) -> str:
    """Of the bytes in the order of the memory: CRC-32, which minds places, and a sum of words."""
    try:
        flat = _flat(tensor).cpu()
    except RuntimeError:
        return "unreadable"  # without values, as on the device "meta"
    size = flat.numel()
    # Read where it lies, and not through NumPy: memory that NumPy has once looked at can never be
    # resized, as FSDP2 does.
    memory = (ctypes.c_char * size).from_address(flat.data_ptr())
    whole = flat[: size - size % 8]
    if whole.data_ptr() % 8:
        whole = whole.clone()
    words = int(whole.view(torch.int64).sum()) if whole.numel() else 0
    return f"{zlib.crc32(memory):08x}.{words & (2**64 - 1):x}"


def _flat(tensor: Tensor) -> Tensor:
    """The bytes of a tensor as one row: of its own memory, where that has no gaps."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    if not torch.ops.aten.is_non_overlapping_and_dense(tensor):
        tensor = tensor.contiguous()
    row = tensor.as_strided((tensor.numel(),), (1,))
    return row.view(torch.uint8)


def _name(thing: object) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__name__))


def _brief(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else f"{id(value)}"


def _tensor_mark(tensor: Tensor, checksums: Checksums, *, settled: bool = True) -> str:
    shape = (tuple(tensor.shape), tensor.dtype, tensor.device)
    parts = strided_parts(tensor.detach())
    memory = [(part.data_ptr() if settled else None, part.stride()) for part in parts]
    hung_on = sorted(vars(tensor)) if type(tensor) in (Tensor, nn.Parameter) else []
    flags = (tensor.requires_grad, id(tensor), memory, hung_on)
    return f"{checksums.of(tensor)} {shape} {flags}"


def mark(value: object, depth: int = 8, checksums: Checksums | None = None) -> str:
    """A text that changes when a thing changes, as deep as it goes."""
    known = Checksums() if checksums is None else checksums
    if isinstance(value, Tensor):
        return _tensor_mark(value, known)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return f"{value.shape} {mark(value.ravel().tolist(), depth, known)}"
    if isinstance(value, np.ndarray):
        return f"{value.shape} {zlib.crc32(value.tobytes()):08x}"
    if isinstance(value, bytearray | array):
        return f"{len(value)} {zlib.crc32(bytes(value)):08x}"
    if isinstance(value, _PLAIN):
        return repr(value)
    if depth == 0 or isinstance(value, type | ModuleType):
        return f"{id(value)}"
    if isinstance(value, list | tuple | deque | set | frozenset):
        return repr([mark(entry, depth - 1, known) for entry in value])
    if isinstance(value, dict):
        items = value.items()
        return repr([(mark(k, depth - 1, known), mark(v, depth - 1, known)) for k, v in items])
    return f"{id(value)} {_inside(value, depth, known)}"


def _inside(value: object, depth: int, known: Checksums) -> str:
    """What an object of any kind holds, as far as it shows."""
    if isinstance(value, torch.Generator):
        return _checksum(value.get_state())
    if isinstance(value, random.Random):
        return mark(value.getstate())
    if isinstance(value, np.random.Generator):
        return mark(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return mark(value.get_state(legacy=False))
    if isinstance(value, np.random.BitGenerator):
        return mark(value.state)
    if hasattr(type(value), "__next__") and (position := _position(value, depth)):
        return position
    if isinstance(value, nn.Module | Optimizer) or callable(value):
        return ""  # modules and functions have marks of their own
    slots = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    held = {name: getattr(value, name) for name in slots if hasattr(value, name)}
    held |= getattr(value, "__dict__", {})
    # Two levels into an unknown object are enough to see a counter tick, and end in good time.
    return repr([(key, mark(entry, min(depth - 1, 2), known)) for key, entry in held.items()])


def _position(iterator: object, depth: int) -> str:
    """How far an iterator has come, as far as it can be asked without moving it."""
    frame = getattr(iterator, "gi_frame", None)
    if frame is not None:
        inside = (dict(frame.f_locals), getattr(iterator, "gi_yieldfrom", None))
        return f"{frame.f_lasti} {mark(inside, depth)}"
    if type(iterator).__module__ not in ("builtins", "itertools", "collections"):
        return ""  # what others are reduced to may be made anew each time
    try:
        with warnings.catch_warnings(action="ignore"):
            return mark(iterator.__reduce__(), depth - 1)
    except TypeError:
        return ""
