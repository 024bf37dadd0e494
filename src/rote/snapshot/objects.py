"""Contents of modules, optimizers and scalers: attributes, containers, tensors, generators."""

import operator
from collections import deque
from collections.abc import Collection, Iterator
from dataclasses import is_dataclass
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.randomness import Restore, restorer_of
from rote.snapshot.tensors import TensorValues, memory_of

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]

_PLAIN = (str, bytes, int, float, complex, type(None), type)


class ObjectState:
    """What some objects contain, all the way down.

    Follows attributes and containers into every module, optimizer, dataclass, tensor, array and
    generator that can be reached. Other objects are kept by reference: what they hold inside is not
    copied.

    Args:
        roots: the objects to start from.
        without: tensors whose values somebody else keeps, also for what shares their memory.
        spares_unchanged: write only to tensors that changed.

    Attributes:
        tensors: every tensor that was found.
        sharing: those among them that share memory with ``without``.
    """

    def __init__(
        self,
        *roots: object,
        without: Collection[Tensor] = (),
        spares_unchanged: bool = False,
    ) -> None:
        self._containers = Contents()
        self._modes: list[tuple[nn.Module, bool]] = []
        self._others: list[Restore] = []
        self.tensors: list[Tensor] = []
        for item in reachable(roots):
            self._note(item)
        kept = {id(tensor) for tensor in without}
        memory = {place for tensor in without for place in memory_of(tensor)}
        others = [tensor for tensor in self.tensors if id(tensor) not in kept]
        self.sharing = [tensor for tensor in others if memory & memory_of(tensor)]
        shared = {id(tensor) for tensor in self.sharing}
        self._values = TensorValues(
            (tensor for tensor in others if id(tensor) not in shared),
            spares_unchanged=spares_unchanged,
        )

    def restore(self) -> None:
        """Put back every attribute, every entry of every container, and every value."""
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
        elif isinstance(item, dict | list | deque | set):
            self._containers.note(item)
        elif isinstance(item, np.ndarray) and item.flags.writeable:
            self._others.append(partial(np.copyto, item, item.copy()))
        elif (put_back := restorer_of(item)) is not None:
            self._others.append(put_back)


def reachable(roots: Collection[object]) -> Iterator[object]:
    """Everything that can be reached from some objects and is worth a look, each once."""
    stack: list[object] = [entry for root in roots for entry in (vars(root), root)]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if isinstance(item, _PLAIN) or id(item) in seen:
            continue
        seen.add(id(item))
        yield item
        stack.extend(_inside(item))


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Every tensor that the optimizer steps, each once."""
    listed = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return list({id(parameter): parameter for parameter in listed}.values())


def _inside(item: object) -> Collection[object]:
    if isinstance(item, dict):
        return item.values()
    if isinstance(item, list | deque | set | tuple):
        return item
    if isinstance(item, nn.Module):
        # Scripted modules keep their children, parameters and buffers out of Python's sight.
        tensors = [*item.parameters(recurse=False), *item.buffers(recurse=False)]
        return [vars(item), *item.children(), *tensors]
    if isinstance(item, Optimizer) or is_dataclass(item):
        return [vars(item)] if hasattr(item, "__dict__") else []
    if type(item) in (Tensor, nn.Parameter):
        return [vars(item)]  # some libraries hang state on parameters
    return ()


class Contents:
    """The entries of some containers; not what is inside the entries."""

    def __init__(self) -> None:
        self._noted: list[tuple[Container, Container]] = []

    def note(self, container: Container) -> None:
        """Remember what a container holds now."""
        self._noted.append((container, _shallow_copy(container)))

    def restore(self) -> None:
        """Put the very same entries back, in their order."""
        for container, contents in self._noted:
            if not _holds(container, contents):
                _refill(container, contents)


def _shallow_copy(container: Container) -> Container:
    if isinstance(container, dict):
        return dict(container)
    return set(container) if isinstance(container, set) else list(container)


def _holds(container: Container, contents: Container) -> bool:
    """Whether a container holds the very same objects, in the same order."""
    if isinstance(container, set):
        return container == contents
    if isinstance(container, dict) and isinstance(contents, dict):
        return _identical(container, contents) and _identical(container.values(), contents.values())
    return _identical(container, contents)


def _identical(some: Collection[Any], others: Collection[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _refill(container: Container, contents: Container) -> None:
    container.clear()
    if isinstance(container, dict | set):
        container.update(contents)
    else:
        container.extend(contents)
