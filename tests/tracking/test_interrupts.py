"""Ctrl-C at every line of a probe, caught by the caller, who goes on: disk and memory agree."""

import itertools
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
import torch
from torch import nn

import rote
from rote.store import read_run
from tests.cases import CLASSES, images

FILES = tuple(
    f"/{name}.py"
    for name in ("tracker", "signals", "random_batch", "sinks", "run_directory", "journal")
)


class Run:
    """A tracker with a new S̃ at every probe, a signal, and a directory."""

    def __init__(self, folder: Path) -> None:
        torch.manual_seed(0)
        self.folder = folder
        self.model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
        self.tracker = rote.track(
            self.model,
            torch.optim.SGD(self.model.parameters(), lr=0.1),
            inputs=images(12, seed=9),
            num_classes=CLASSES,
            given_labels=torch.arange(12) % CLASSES,
            policy=rote.ProbePolicy(batch=6, resample=True),
            save_to=folder,
        )

    def remembered(self) -> list[dict[str, Any]]:
        return [plain(reading) for reading in self.tracker.readings]

    def state(self) -> str:
        return repr(self.tracker.state_dict())

    def on_disk(self) -> list[dict[str, Any]]:
        return [plain(reading) for reading in read_run(self.folder).readings]


def plain(reading: rote.Reading) -> dict[str, Any]:
    return reading.to_dict() | {"seconds": 0}


@contextmanager
def interrupted_at(number: int, event: str) -> Iterator[list[int]]:
    """A real SIGINT at the given line (or bytecode) of the files under test; counts them."""
    count = [0]

    def local(frame: FrameType, happened: str, _: object) -> Callable[..., Any]:
        if happened == event:
            count[0] += 1
            if count[0] == number:
                signal.raise_signal(signal.SIGINT)
        return local

    def trace(frame: FrameType, *_: object) -> Callable[..., Any] | None:
        if not frame.f_code.co_filename.endswith(FILES):
            return None
        frame.f_trace_opcodes = event == "opcode"
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def interrupt_everywhere(run: Run, event: str) -> list[int]:
    """Interrupt a probe at one place after the other, until it has no more of them.

    Returns:
        Where an interrupt came so late that the reading was already taken.
    """
    late = []
    for number in itertools.count(1):
        count, before, was_raised = len(run.tracker.readings), run.state(), False
        try:
            with interrupted_at(number, event) as places:
                run.tracker.probe()
        except KeyboardInterrupt:
            was_raised = True
        assert run.on_disk() == run.remembered(), number
        if len(run.tracker.readings) == count:
            assert run.state() == before, number
        elif was_raised:
            late.append(number)
        elif places[0] < number:
            assert number > 100
            return late
    raise AssertionError


@pytest.mark.parametrize("event", ["line", pytest.param("opcode", marks=pytest.mark.full)])
def test_an_interrupt_anywhere_leaves_disk_and_memory_alike(tmp_path: Path, event: str) -> None:
    run, bare = Run(tmp_path / "run"), Run(tmp_path / "bare")
    run.tracker.probe()
    late = interrupt_everywhere(run, event)
    for _ in run.tracker.readings:
        bare.tracker.probe()
    assert run.remembered() == run.on_disk() == bare.remembered()
    assert event == "opcode" or len(late) < 15  # from when it is remembered, a reading stays


def test_warning_raised_as_error_changes_nothing(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    with pytest.raises(rote.RoteWarning, match="shares from 0 to 1"):
        run.tracker.probe(train_accuracy=50.0)
    assert run.remembered() == run.on_disk() == []
    run.tracker.probe(train_accuracy=0.5)
    assert run.remembered() == run.on_disk()
