"""Work done in a copy of this process, which can be killed and leaves nothing behind."""

import json
import os
import random
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any


class ForkError(Exception):
    """The copy raised an error, died or was killed.

    Args:
        error: what it said, one line.
        trace: the traceback in the copy, if there is one.
    """

    def __init__(self, error: str, trace: str = "") -> None:
        super().__init__(error)
        self.trace = trace


def in_fork(work: Callable[[], Any], *, seconds: float | None = None) -> Any:
    """Return what ``work`` returns, as JSON carries it, done in a copy of this process.

    Both start from the same memory, so that two copies of one process are the same training twice.

    Args:
        work: takes nothing and returns plain values.
        seconds: after which the copy, with all its own copies, is killed.

    Raises:
        ForkError: if it failed.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    reading, writing = os.pipe()
    draws = random.getstate()
    child = os.fork()
    if child == 0:
        os.close(reading)
        random.setstate(draws)  # Python gives every fork a new seed
        _answer(work, writing, leads=seconds is not None)
    os.close(writing)
    answer, in_time = _read(reading, seconds)
    if not in_time:
        os.killpg(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    if not in_time:
        raise ForkError(f"no answer within {seconds:g} s")
    if not answer:
        raise ForkError(f"died of signal {os.waitstatus_to_exitcode(status)}")
    found = json.loads(answer)
    if "error" in found:
        raise ForkError(found["error"], found["trace"])
    return found["value"]


def _answer(work: Callable[[], Any], writing: int, *, leads: bool) -> None:
    if leads:
        os.setpgid(0, 0)
        # Libraries talk while they build; the terminal is for one line each.
        silent = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(silent, stream)
    try:
        answer = {"value": work()}
    except BaseException as error:  # whatever it is, the parent is told
        answer = {"error": one_line(error), "trace": traceback.format_exc()}
    with os.fdopen(writing, "w") as pipe:
        json.dump(answer, pipe)
    os._exit(0)


def one_line(error: BaseException) -> str:
    """Return the kind of an error and the first of its words."""
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words}"[:400]


def _read(pipe: int, seconds: float | None) -> tuple[bytes, bool]:
    """All that comes before the pipe closes, and whether it closed in time."""
    end = None if seconds is None else time.monotonic() + seconds
    pieces: list[bytes] = []
    with os.fdopen(pipe, "rb", buffering=0) as source:
        while True:
            left = None if end is None else max(end - time.monotonic(), 0)
            if not select.select([source], [], [], left)[0]:
                return b"", False
            piece = source.read(1 << 16)
            if not piece:
                return b"".join(pieces), True
            pieces.append(piece)
