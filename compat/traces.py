"""Everything that training leaves behind, as hashes by name; shares no code with rote."""

import hashlib
import random
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_ATOMS = (int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


def traces(**things: object) -> dict[str, str]:
    """Return a hash for every number, tensor and array in some objects, and for the generators.

    Args:
        things: models, optimizers, whatever has attributes.
    """
    generators = {
        "torch": torch.get_rng_state(),
        "numpy": np.random.get_state(legacy=False)["state"],  # the one that training draws from
        "python": random.getstate(),
    }
    seen: dict[int, object] = {}
    found: dict[str, str] = {}
    for name, thing in {**things, "generator": generators}.items():
        found.update(_walk(thing, name, seen))
    return found


def _walk(thing: Any, name: str, seen: dict[int, object]) -> Iterator[tuple[str, str]]:
    if isinstance(thing, _ATOMS):
        yield name, repr(thing)
        return
    if id(thing) in seen or isinstance(thing, type | ModuleType):
        return
    seen[id(thing)] = thing  # kept, so that no other object gets its address
    if isinstance(thing, Tensor):
        yield name, _hash_of_tensor(thing)
        if thing.is_leaf and thing.grad is not None:
            yield f"{name}.grad", _hash_of_tensor(thing.grad)
    elif isinstance(thing, np.ndarray):
        yield name, hashlib.blake2b(thing.tobytes()).hexdigest()
    else:
        for part, inner in _parts(thing):
            yield from _walk(inner, f"{name}{part}", seen)


def _parts(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        for place, (key, value) in enumerate(thing.items()):
            yield f"[{key!r}]" if isinstance(key, str | int) else f"[#{place}]", value
    elif isinstance(thing, list | tuple):
        yield from ((f"[{place}]", value) for place, value in enumerate(thing))
    elif isinstance(thing, set | frozenset):
        yield "{}", sorted(map(repr, thing)) if all(isinstance(t, _ATOMS) for t in thing) else None
    elif not callable(thing) or isinstance(thing, torch.nn.Module):
        for key, value in getattr(thing, "__dict__", {}).items():
            if "hook" not in key:  # a tracker that listens is no change of the training
                yield f".{key}", value


def _hash_of_tensor(tensor: Tensor) -> str:
    plain = tensor.detach()
    if plain.device.type == "meta":
        return f"meta {tuple(plain.shape)}"
    if plain.layout != torch.strided:
        plain = plain.to_dense()
    raw = plain.cpu().resolve_conj().contiguous().reshape(-1).view(torch.uint8).numpy()
    return f"{plain.dtype} {tuple(plain.shape)} {hashlib.blake2b(raw.tobytes()).hexdigest()}"
