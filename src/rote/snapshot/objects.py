"""Contents of modules, optimizers and scalers: attributes, containers, tensors, generators."""

import operator
from collections import deque
from collections.abc import Collection
from functools import partial
from typing import Any, TypeAlias

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.bindings import rebinders_of
from rote.snapshot.randomness import Restore, restorer_of
from rote.snapshot.reach import reachable
from rote.snapshot.tensors import TensorValues, memory_of

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]


class ObjectState:
    """What some objects contain, all the way down.

    Follows attributes, containers and functions into every module, optimizer, dataclass, tensor,
    array, generator and object of the user's own that can be reached (``reach``). Other objects are
    kept by reference: what they hold inside is not copied.

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
            self._others.extend(rebinders_of(item))
        elif isinstance(item, dict | list | deque | set):
            self._containers.note(item)
            self._others.extend(rebinders_of(item))
        elif isinstance(item, np.ndarray) and item.flags.writeable:
            self._others.append(partial(np.copyto, item, item.copy()))
        elif (put_back := restorer_of(item)) is not None:
            self._others.append(put_back)
        else:
            self._others.extend(rebinders_of(item))


def parameters_of(optimizer: Optimizer) -> list[Tensor]:
    """Every tensor that the optimizer steps, each once."""
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
