"""Contents of modules, optimizers and scalers: attributes, containers and tensors."""

from collections import deque
from collections.abc import Collection, Iterator
from typing import Any, TypeAlias

from torch import Tensor, nn
from torch.optim import Optimizer

from rote.snapshot.values import TensorValues

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]


class ObjectState:
    """What some objects contain, all the way down.

    Follows attributes and containers into every module, optimizer and tensor that can be reached.
    Other objects are kept by reference: what they hold inside is not copied.

    Args:
        roots: the objects to start from.
        without: tensors whose values somebody else keeps.
    """

    def __init__(self, *roots: object, without: Collection[Tensor] = ()) -> None:
        kept_elsewhere = {id(tensor) for tensor in without}
        self._containers: list[tuple[Container, Container]] = []
        self.tensors: list[Tensor] = []
        for item in _reachable(roots):
            if isinstance(item, Tensor):
                self.tensors.append(item)
            else:
                self._containers.append((item, _shallow_copy(item)))
        self._values = TensorValues(t for t in self.tensors if id(t) not in kept_elsewhere)

    def restore(self) -> None:
        """Put back every attribute, every entry of every container, and every value."""
        for container, contents in self._containers:
            if not _holds(container, contents):
                _refill(container, contents)
        self._values.restore()


def _reachable(roots: tuple[object, ...]) -> Iterator[Container | Tensor]:
    stack: list[object] = [vars(root) for root in roots]
    seen: set[int] = set()
    while stack:
        item = stack.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        if isinstance(item, nn.Module | Optimizer):
            stack.append(vars(item))
        elif isinstance(item, dict):
            yield item
            stack.extend(item.values())
        elif isinstance(item, list | deque | set):
            yield item
            stack.extend(item)
        elif isinstance(item, tuple):
            stack.extend(item)
        elif isinstance(item, Tensor):
            yield item
            if type(item) in (Tensor, nn.Parameter):
                stack.append(vars(item))  # some libraries hang state on parameters


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
    return len(some) == len(others) and all(a is b for a, b in zip(some, others, strict=True))


def _refill(container: Container, contents: Container) -> None:
    container.clear()
    if isinstance(container, dict | set):
        container.update(contents)
    else:
        container.extend(contents)
