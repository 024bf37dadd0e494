"""What dictionaries, lists, deques and sets hold, put back entry by entry."""

import operator
from collections import deque
from collections.abc import Collection
from typing import Any, TypeAlias

Container: TypeAlias = dict[Any, Any] | list[Any] | deque[Any] | set[Any]


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
