"""The objects behind a loss function that may remember something from call to call."""

from collections.abc import Callable
from functools import partial
from types import FunctionType, MethodType
from typing import Any

from torch import nn


def objects_behind(loss_fn: Callable[..., Any]) -> list[object]:
    """What a loss function keeps its state in.

    A module or callable object is one itself; of a bound method it is the object it is bound to; of
    a partial or a closure, the modules among its arguments or the names it closes over.
    """
    if isinstance(loss_fn, MethodType):
        return [loss_fn.__self__] if hasattr(loss_fn.__self__, "__dict__") else []
    if isinstance(loss_fn, partial):
        bound = [*loss_fn.args, *loss_fn.keywords.values()]
        return [*objects_behind(loss_fn.func), *_modules(bound)]
    if isinstance(loss_fn, FunctionType):
        cells = loss_fn.__closure__ or ()
        return _modules([cell.cell_contents for cell in cells if not _is_empty(cell)])
    is_object = hasattr(loss_fn, "__dict__") and not isinstance(loss_fn, type)
    return [loss_fn] if is_object else []


def _modules(things: list[object]) -> list[object]:
    return [thing for thing in things if isinstance(thing, nn.Module)]


def _is_empty(cell: Any) -> bool:  # noqa: ANN401  # types.CellType has no useful stub
    try:
        _ = cell.cell_contents
    except ValueError:
        return True
    return False
