"""Blocks that signal handlers and other threads cannot disturb."""

import functools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Any, TypeAlias

from torch.optim import Optimizer

from rote.errors import ConcurrentProbeError

_ADVICE = "Call probe in the thread that trains, between two steps."
_GUARDED = ("step", "zero_grad")
_SIGNALS = sorted(signal.valid_signals())

Handler: TypeAlias = Callable[[int, FrameType | None], Any]


class HeldSignals:
    """Signals that wait for the end of a block instead of running their Python handlers.

    A handler that raises would leave a half-restored network behind. Signals without a Python
    handler are not held: they end the process, or do nothing.
    """

    def __init__(self) -> None:
        self.handlers: dict[int, Handler] = {}
        self._arrived: list[int] = []
        self._is_holding = True

    def hold(self) -> None:
        """Replace every Python handler by one that only notes the signal."""
        for number in _SIGNALS:
            handler = _get_own_handler(number)
            if callable(handler):
                self.handlers[number] = handler
                signal.signal(number, self.receive)

    def receive(self, number: int, frame: FrameType | None) -> None:
        """Note a signal that arrives in the block; after the block, run its own handler."""
        if self._is_holding:
            self._arrived.append(number)
        else:
            # Another handler raised before this one was put back.
            self.handlers[number](number, frame)

    def act(self) -> None:
        """Run the handler of every signal that has arrived, even if one of them raises."""
        arrived, self._arrived = self._arrived, []
        with ExitStack() as stack:
            for number in reversed(dict.fromkeys(arrived)):
                stack.callback(self.handlers[number], number, sys._getframe())

    def release(self) -> None:
        """Put the handlers back and act on what has arrived."""
        self._is_holding = False
        try:
            for number, handler in self.handlers.items():
                # The block may have installed a handler of its own.
                if signal.getsignal(number) == self.receive:
                    signal.signal(number, handler)
        finally:
            self.act()


_holding: list[HeldSignals] = []
"""The block of the main thread that holds signals now, if there is one."""


@contextmanager
def hold_signals() -> Iterator[HeldSignals]:
    """Let a block finish before the Python handlers of signals that arrive during it run.

    Python runs signal handlers in the main thread only, so in other threads there is nothing to do.
    In a block inside another one, signals wait for the end of the outer block.

    Yields:
        The signals, for blocks that can act on them at a moment of their own.
    """
    held = HeldSignals()
    if _holding or threading.current_thread() is not threading.main_thread():
        yield held
        return
    try:
        held.hold()
        _holding.append(held)
        yield held
    finally:
        _holding.clear()
        try:
            held.release()
        finally:
            held.release()  # what is left if a signal's own handler raised in between


def _get_own_handler(number: int) -> Any:  # noqa: ANN401  # a function, or one of Python's constants
    handler = signal.getsignal(number)
    owner = getattr(handler, "__self__", None)
    return owner.handlers[number] if isinstance(owner, HeldSignals) else handler


class _Turn:
    """The thread whose turn it is to use an optimizer."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self.is_guarding = False


_turns: dict[int, _Turn] = {}


@contextmanager
def exclude_other_threads(optimizer: Optimizer) -> Iterator[None]:
    """Allow only this thread to use an optimizer in a block; blocks may be nested.

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
            f"Thread {turn.thread.name!r} is probing this optimizer: there can be one probe of an "
            f"optimizer at a time. {_ADVICE}"
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
                attributes[name] = _guard(getattr(optimizer, name), name, mine.thread)
        yield
    finally:
        for name in _GUARDED:
            attributes.pop(name, None)
        attributes.update(before)
        _turns.pop(id(optimizer), None)


def _guard(method: Callable[..., Any], name: str, owner: threading.Thread) -> Callable[..., Any]:
    @functools.wraps(method)
    def refuse_other_threads(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        thread = threading.current_thread()
        if thread is not owner:
            raise ConcurrentProbeError(
                f"optimizer.{name}() was called in thread {thread.name!r} while thread "
                f"{owner.name!r} probes the model. {_ADVICE}"
            )
        return method(*args, **kwargs)

    return refuse_other_threads
