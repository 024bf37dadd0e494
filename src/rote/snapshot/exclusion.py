"""While one thread probes, no other may step the optimizer, or probe."""

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch.optim import Optimizer

from rote.errors import ConcurrentProbeError

_ADVICE = "Call probe in the thread that trains, between two steps."
_GUARDED = ("step", "zero_grad")


class _Turn:
    """Whose turn it is to use an optimizer."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.is_guarding = False


_turns: dict[int, _Turn] = {}


@contextmanager
def exclusive(optimizer: Optimizer) -> Iterator[None]:
    """A block in which only this thread may use an optimizer; blocks may be nested.

    Raises:
        ConcurrentProbeError: if another thread is in such a block; and in another thread, if it
            steps the optimizer or clears its gradients meanwhile.
    """
    mine = _Turn()
    turn = _turns.setdefault(id(optimizer), mine)  # one operation: no two threads get their own
    if not turn.thread.is_alive():
        turn = _turns[id(optimizer)] = mine
    if turn.thread is not mine.thread:
        raise ConcurrentProbeError(
            "Expected one probe of an optimizer at a time, got a second one while thread "
            f"{turn.thread.name!r} was probing. {_ADVICE}"
        )
    if turn.is_guarding:
        yield
        return
    attributes = getattr(optimizer, "__dict__", {})
    before = {name: attributes[name] for name in _GUARDED if name in attributes}
    try:
        turn.is_guarding = True
        for name in _GUARDED:
            if hasattr(optimizer, name):
                attributes[name] = _guarded(getattr(optimizer, name), name, mine.thread)
        yield
    finally:
        for name in _GUARDED:
            attributes.pop(name, None)
        attributes.update(before)
        _turns.pop(id(optimizer), None)


def _guarded(method: Callable[..., Any], name: str, owner: threading.Thread) -> Callable[..., Any]:
    @functools.wraps(method)
    def guarded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = threading.current_thread()
        if thread is not owner:
            raise ConcurrentProbeError(
                f"Expected the model to be left alone while thread {owner.name!r} probes it, got "
                f"optimizer.{name}() in thread {thread.name!r}. {_ADVICE}"
            )
        return method(*args, **kwargs)

    return guarded
