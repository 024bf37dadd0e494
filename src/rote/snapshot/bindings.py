"""What names are bound to: cells of closures, slots, class attributes, globals, defaults."""

from array import array
from collections.abc import Callable, Iterator
from functools import partial
from types import CellType, FunctionType
from typing import Any

from rote.snapshot.reach import EMPTY, is_special, is_users, named_by, slots_of


def rebinders_of(item: Any) -> Iterator[Callable[[], None]]:  # noqa: ANN401
    """Functions that bind anew, where it has changed, what an item binds now."""
    if isinstance(item, CellType):
        yield partial(_refill_cell, item, content_of(item))
    elif isinstance(item, FunctionType):
        if item.__defaults__:
            yield partial(_reset_defaults, item, item.__defaults__)
        if named := named_by(item):
            yield partial(_rebind, named)
    elif isinstance(item, type):
        if is_users(item.__module__):
            yield partial(_reset_class, item, _own_attributes(item))
    elif isinstance(item, bytearray | array):
        yield partial(_refill_bytes, item, item[:])
    elif slots := slots_of(item):
        yield partial(_refill_slots, item, slots)


def content_of(cell: CellType) -> object:
    """What a variable of a closure is bound to."""
    try:
        return cell.cell_contents
    except ValueError:
        return EMPTY


def _refill_cell(cell: CellType, content: object) -> None:
    if content_of(cell) is content:
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


def _own_attributes(kind: type) -> dict[str, object]:
    return {name: value for name, value in vars(kind).items() if not is_special(name)}


def _reset_class(kind: type, attributes: dict[str, object]) -> None:
    now = _own_attributes(kind)
    for name in now.keys() - attributes.keys():
        type.__delattr__(kind, name)
    for name, value in attributes.items():
        if now.get(name, EMPTY) is not value:
            type.__setattr__(kind, name, value)


def _refill_bytes(item: Any, content: Any) -> None:  # noqa: ANN401
    if item != content:
        item[:] = content


def _refill_slots(item: object, slots: list[tuple[Any, object]]) -> None:
    for (slot, before), (_, now) in zip(slots, slots_of(item), strict=True):
        if before is EMPTY and now is not EMPTY:
            slot.__delete__(item)
        elif before is not now:
            slot.__set__(item, before)
