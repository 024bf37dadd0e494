"""A checksum of everything that training depends on, name by name.

Written apart from the code that saves and restores, so that one can prove the other right.
"""

import hashlib
import random
import warnings
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
from rote.snapshot.tensors import as_bytes, is_freed, strided_parts

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
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    marks = dict(_module_marks(model))
    for thing in others:
        kind = type(thing).__name__
        if isinstance(thing, Optimizer):
            kind = "optimizer"
            marks |= dict(_parameter_marks(thing, names))
        for key, value in vars(thing).items() if hasattr(thing, "__dict__") else ():
            _spread(marks, f"{kind}.{key}", value, names)
    roots = {"model": model} | {_name(thing): thing for thing in others if thing is not None}
    marked = {id(tensor) for tensor in (*model.parameters(), *model.buffers())}
    for name, thing, parts in hidden(roots):
        if id(thing) not in marked:
            content = mark(thing, depth=3) if parts is None else repr([*map(_brief, parts)])
            marks[f"{name} ({type(thing).__name__})"] = content
    marks |= dict(_random_marks())
    return marks


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names that changed, appeared or vanished between two fingerprints."""
    changed = [name for name, mark in before.items() if name in after and after[name] != mark]
    vanished = [f"{name} (gone)" for name in before if name not in after]
    appeared = [f"{name} (new)" for name in after if name not in before]
    return changed + vanished + appeared


def _name(thing: object) -> str:
    return str(getattr(thing, "__qualname__", type(thing).__name__))


def _brief(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else f"{id(value)}"


def _parameter_marks(optimizer: Optimizer, names: dict[int, str]) -> Iterator[tuple[str, str]]:
    for index, group in enumerate(optimizer.param_groups):
        for position, parameter in enumerate(group["params"]):
            name = names.setdefault(id(parameter), f"param_groups[{index}][{position}]")
            yield f"optimizer parameter {name}", _tensor_mark(parameter)
            yield f"optimizer gradient of {name}", mark(parameter.grad)


def _module_marks(model: nn.Module) -> Iterator[tuple[str, str]]:
    whole = {id(parameter) for parameter in whole_parameters(model)}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield f"parameter {name}", _tensor_mark(parameter, settled=id(parameter) not in whole)
        yield f"gradient of {name}", mark(parameter.grad)
    for name, buffer in model.named_buffers(remove_duplicate=False):
        yield f"buffer {name}", _tensor_mark(buffer)
    for name, module in model.named_modules():
        yield f"mode of module {name or '(root)'}", repr(module.training)
        for key, value in vars(module).items():
            if key not in _MODULE_REGISTRIES:
                yield f"attribute {key} of module {name or '(root)'}", mark(value)


def _random_marks() -> Iterator[tuple[str, str]]:
    yield "random state of Python", mark(random.getstate())
    yield "random state of NumPy", mark(np.random.get_state(legacy=False))
    yield "random state of torch", _digest(torch.get_rng_state())
    if uses_cuda():
        yield "random state of CUDA", repr([_digest(s) for s in torch.cuda.get_rng_state_all()])


def _spread(marks: dict[str, str], name: str, value: object, names: Mapping[int, str]) -> None:
    """One mark per entry of nested dicts and lists, so that a change is named exactly."""
    if isinstance(value, dict):
        for key, entry in value.items():
            _spread(marks, f"{name}[{names.get(id(key), key)}]", entry, names)
        marks[name] = f"keys {[id(key) for key in value]}"
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            _spread(marks, f"{name}[{index}]", entry, names)
        marks[name] = f"length {len(value)}"
    else:
        marks[name] = mark(value)


def _digest(tensor: Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in strided_parts(tensor.detach()):
        if is_freed(part):
            continue
        # Of a copy: memory that NumPy has once looked at can never be resized, as FSDP2 does.
        digest.update(as_bytes(part).clone().cpu().numpy().tobytes())
    return digest.hexdigest()


def _tensor_mark(tensor: Tensor, *, settled: bool = True) -> str:
    shape = (tuple(tensor.shape), tensor.dtype, tensor.device)
    parts = strided_parts(tensor.detach())
    memory = [(part.data_ptr() if settled else None, part.stride()) for part in parts]
    hung_on = sorted(vars(tensor)) if type(tensor) in (Tensor, nn.Parameter) else []
    flags = (tensor.requires_grad, id(tensor), memory, hung_on)
    return f"{_digest(tensor)} {shape} {flags}"


def mark(value: object, depth: int = 8) -> str:
    """A text that changes when a thing changes, as deep as it goes."""
    if isinstance(value, Tensor):
        return _tensor_mark(value)
    if isinstance(value, np.ndarray) and value.dtype == object:
        return f"{value.shape} {mark(value.ravel().tolist(), depth)}"
    if isinstance(value, np.ndarray):
        return f"{value.shape} {hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()}"
    if isinstance(value, bytearray | array):
        return hashlib.blake2b(bytes(value), digest_size=16).hexdigest()
    if isinstance(value, _PLAIN):
        return repr(value)
    if depth == 0 or isinstance(value, type | ModuleType):
        return f"{id(value)}"
    if isinstance(value, list | tuple | deque | set | frozenset):
        return repr([mark(entry, depth - 1) for entry in value])
    if isinstance(value, dict):
        return repr([(mark(k, depth - 1), mark(v, depth - 1)) for k, v in value.items()])
    return f"{id(value)} {_inside(value, depth)}"


def _inside(value: object, depth: int) -> str:
    """What an object of any kind holds, as far as it shows."""
    if isinstance(value, torch.Generator):
        return _digest(value.get_state())
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
    return repr([(key, mark(entry, min(depth - 1, 2))) for key, entry in held.items()])


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
