"""A logger that fails must not stop the training: its readings wait until it answers again."""

import os
import random
import warnings
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from textwrap import shorten

import numpy as np

from rote.errors import LoggerWarning
from rote.records import Reading
from rote.store.sinks import Sink

_Task = Callable[[], None]


@contextmanager
def own_randomness() -> Iterator[None]:
    """Let a logger draw from a generator of its own, and put the caller's back.

    MLflow makes up names with Python's generator: without this, a run that is logged would go on
    with other random numbers than one that is not, and runs with one seed would have one name.
    """
    python, numpy = random.getstate(), np.random.get_state()
    random.seed()
    try:
        yield
    finally:
        random.setstate(python)
        np.random.set_state(numpy)


class RetryingSink:
    """Hands on to a logger, in order; what it refuses is kept and tried again with the next."""

    def __init__(self, sink: Sink, place: str) -> None:
        self._sink = sink
        self._place = place
        self._waiting: list[_Task] = []
        # Also at the end of a script that never closes its tracker.
        self._finish = weakref.finalize(self, _finish, sink, place, self._waiting, os.getpid())

    def append(self, reading: Reading, row: int) -> None:
        """Log a reading, or keep it."""
        sink, plain = self._sink, replace(reading, predictions=None, sample_rows={})
        self._hand_on(lambda: sink.append(plain, row))

    def resume_after(self, step: int) -> None:
        """Log that later readings are void, or keep it."""
        sink = self._sink
        self._hand_on(lambda: sink.resume_after(step))

    def close(self) -> None:
        """Try once more, and say what is lost if that fails."""
        self._finish()

    def _hand_on(self, task: _Task) -> None:
        self._waiting.append(task)
        try:
            error = _send(self._waiting)
        except BaseException:  # interrupted: the reading will not be taken
            if self._waiting and self._waiting[-1] is task:
                self._waiting.pop()
            raise
        if error is not None and len(self._waiting) == 1:
            message = (
                f"{self._place} did not take a reading: {_brief(error)}. Training goes on; the "
                "reading is kept and tried again with the next one."
            )
            warnings.warn(LoggerWarning(message), stacklevel=2)


def _brief(error: Exception) -> str:
    """Some loggers put a whole request into their message."""
    return shorten(str(error), width=200, placeholder=" …")


def _send(waiting: list[_Task]) -> Exception | None:
    while waiting:
        try:
            with own_randomness():
                waiting[0]()
        except Exception as error:  # noqa: BLE001  # whatever a logger raises
            return error
        waiting.pop(0)
    return None


def _finish(sink: Sink, place: str, waiting: list[_Task], owner: int) -> None:
    if os.getpid() != owner:
        return  # a process that was forked off must not end the run
    error = _send(waiting)
    lost = len(waiting)
    try:
        with own_randomness():
            sink.close()
    except Exception as failure:  # noqa: BLE001
        error = error or failure
    if error is not None:
        message = f"{place} was closed without its last {lost} entries: {_brief(error)}."
        warnings.warn(LoggerWarning(message), stacklevel=2)
