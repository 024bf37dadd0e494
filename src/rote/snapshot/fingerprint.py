"""A checksum of everything that training depends on, name by name.

Written apart from the code that saves and restores, so that one can prove the other right.
"""

import hashlib
import random
from collections import deque
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.randomness import uses_cuda
from rote.snapshot.values import strided_parts

_MODULE_REGISTRIES = {"_parameters", "_buffers", "_modules"}


def fingerprint(
    model: nn.Module, optimizer: Optimizer | None = None, scaler: object | None = None
) -> dict[str, str]:
    """Name everything that training depends on, and say what it is now.

    Args:
        model: its parameters, gradients, buffers, flags and plain attributes are taken.
        optimizer: its state, parameter groups and plain attributes are taken.
        scaler: a GradScaler, all of whose attributes are taken.

    Returns:
        From name to a text that changes when the thing changes.
    """
    names = {id(parameter): name for name, parameter in model.named_parameters()}
    marks = dict(_module_marks(model))
    if optimizer is not None:
        for index, group in enumerate(optimizer.param_groups):
            for position, parameter in enumerate(group["params"]):
                name = names.setdefault(id(parameter), f"param_groups[{index}][{position}]")
                marks[f"optimizer parameter {name}"] = _tensor_mark(parameter)
                marks[f"optimizer gradient of {name}"] = _mark(parameter.grad)
        for key, value in vars(optimizer).items():
            _spread(marks, f"optimizer.{key}", value, names)
    if scaler is not None:
        for key, value in vars(scaler).items():
            _spread(marks, f"scaler.{key}", value, names)
    marks |= dict(_random_marks())
    return marks


def differences(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Names that changed, appeared or vanished between two fingerprints."""
    changed = [name for name, mark in before.items() if name in after and after[name] != mark]
    vanished = [f"{name} (gone)" for name in before if name not in after]
    appeared = [f"{name} (new)" for name in after if name not in before]
    return changed + vanished + appeared


def _module_marks(model: nn.Module) -> Iterator[tuple[str, str]]:
    for name, parameter in model.named_parameters(remove_duplicate=False):
        yield f"parameter {name}", _tensor_mark(parameter)
        yield f"gradient of {name}", _mark(parameter.grad)
    for name, buffer in model.named_buffers(remove_duplicate=False):
        yield f"buffer {name}", _tensor_mark(buffer)
    for name, module in model.named_modules():
        for key, value in vars(module).items():
            if key not in _MODULE_REGISTRIES:
                yield f"attribute {key} of module {name or '(root)'}", _mark(value)


def _random_marks() -> Iterator[tuple[str, str]]:
    yield "random state of Python", _mark(random.getstate())
    yield "random state of NumPy", _mark(np.random.get_state(legacy=False))
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
        marks[name] = _mark(value)


def _digest(tensor: Tensor) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for part in strided_parts(tensor.detach()):
        raw = part.cpu().contiguous().reshape(-1).view(torch.uint8)
        digest.update(raw.numpy().tobytes())
    return digest.hexdigest()


def _tensor_mark(tensor: Tensor) -> str:
    shape = (tuple(tensor.shape), tensor.dtype, tensor.device)
    memory = [(part.data_ptr(), part.stride()) for part in strided_parts(tensor.detach())]
    hung_on = sorted(vars(tensor)) if type(tensor) in (Tensor, nn.Parameter) else []
    flags = (tensor.requires_grad, id(tensor), memory, hung_on)
    return f"{_digest(tensor)} {shape} {flags}"


def _mark(value: object, depth: int = 8) -> str:
    if isinstance(value, Tensor):
        return _tensor_mark(value)
    if isinstance(value, np.ndarray):
        return f"{value.shape} {hashlib.blake2b(value.tobytes(), digest_size=16).hexdigest()}"
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return repr(value)
    if depth > 0 and isinstance(value, list | tuple | deque | set | frozenset):
        return (
            f"{id(value) if isinstance(value, list) else ''}{[_mark(v, depth - 1) for v in value]}"
        )
    if depth > 0 and isinstance(value, dict):
        return repr([(_mark(k, depth - 1), _mark(v, depth - 1)) for k, v in value.items()])
    # Inside an unknown object we look one level deep: far enough to see a counter tick.
    inside = vars(value) if depth > 0 and hasattr(value, "__dict__") else {}
    if isinstance(value, nn.Module | Optimizer | type):
        inside = {}
    return f"{id(value)} {[(key, _mark(entry, 0)) for key, entry in inside.items()]}"
