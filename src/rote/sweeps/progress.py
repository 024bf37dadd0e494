"""The progress of a sweep: finished and running runs, their last readings, and the time left."""

import os
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rote.errors import CorruptRunError
from rote.store import JOURNAL_FILE, drop_void_lines, parse_line
from rote.sweeps.executor import (
    Blocked,
    Busy,
    Event,
    Failed,
    Finished,
    Job,
    Lost,
    Started,
    get_last_line,
)

_TAIL = 16_384  # bytes; a line has less than 1,000


@dataclass(frozen=True)
class LastReading:
    """The last reading of a run.

    Attributes:
        step: after which epoch; 0 before the first.
        susceptibility: ζ.
        train_accuracy: on the given labels.
        validation_accuracy: on the given labels of the holdout.
    """

    step: int = 0
    susceptibility: float | None = None
    train_accuracy: float | None = None
    validation_accuracy: float | None = None


def read_last(run: Path) -> LastReading:
    """Read the end of a journal that another process, perhaps on another machine, is writing.

    There may be nothing in the directory yet.
    """
    if not (run / JOURNAL_FILE).is_file():  # a pipe would never end
        return LastReading()
    try:
        with (run / JOURNAL_FILE).open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - _TAIL))
            raw = file.read()
    except OSError:
        return LastReading()
    # The beginning may be cut off, and the end may be being written.
    lines = [line for part in raw.split(b"\n") if (line := parse_line(part)) is not None]
    try:
        counted = drop_void_lines(lines, str(run))
    except CorruptRunError:
        return LastReading()
    if not counted:
        return LastReading()
    last = counted[-1]
    names = ("susceptibility", "train_accuracy", "validation_accuracy")
    return LastReading(last["step"], *(last.get(name) for name in names))


_LOOK_EVERY = 0.5  # seconds


@dataclass
class RunningRun:
    """A run that is being trained.

    Attributes:
        job: the run.
        began_at: the epoch that was its last when this sweep took it up.
        last: its last reading.
    """

    job: Job
    began_at: int
    last: LastReading

    @property
    def share(self) -> float:
        """The share that this sweep has done; 0 for a run that falls back to its last state."""
        return max(0, self.last.step - self.began_at) / self.job.spec.epochs


@dataclass
class Progress:
    """The state of every run of a sweep.

    Attributes:
        total: the number of runs the sweep has.
        skipped: over before the sweep began, or ended elsewhere meanwhile.
        finished: ended by this sweep.
        failed: name and error of every run that failed or was given up.
        paths: where these lie, by name.
        running: by directory.
        elsewhere: the number of runs held by other processes.
    """

    total: int
    skipped: int = 0
    finished: int = 0
    failed: dict[str, str] = field(default_factory=dict)
    paths: dict[str, Path] = field(default_factory=dict)
    running: dict[Path, RunningRun] = field(default_factory=dict)
    elsewhere: int = 0
    _began: float = field(default_factory=time.monotonic)
    _looked: float = 0.0

    @property
    def done(self) -> int:
        """The number of finished runs."""
        return self.skipped + self.finished

    @property
    def seconds(self) -> float:
        """Since the sweep began."""
        return time.monotonic() - self._began

    @property
    def seconds_left(self) -> float | None:
        """An estimate, as if all runs took equally long; None before anything is done."""
        done = self.finished + len(self.failed) + sum(run.share for run in self.running.values())
        left = self.total - self.skipped - done
        return self.seconds * left / done if done > 0 else None

    def note(self, event: Event | None) -> None:
        """Take in what an executor says."""
        match event:
            case Started(job):
                last = read_last(job.path)
                self.running[job.path] = RunningRun(job, last.step, last)
            case Finished(job, was_over):
                self.skipped += was_over
                self.finished += not was_over
                self.running.pop(job.path, None)
            case Busy(job):
                self.elsewhere += 1
                self.running.pop(job.path, None)
            case Failed(job, error):
                self._give_up(job, error)
            case Lost(job, reason, gives_up):
                self.running.pop(job.path, None)
                if gives_up:
                    self._give_up(job, reason)
            case Blocked(job):
                self.running.pop(job.path, None)

    def look(self) -> None:
        """Read the journals of the runs that are being trained, if the last look is long ago."""
        if time.monotonic() - self._looked < _LOOK_EVERY:
            return
        self._looked = time.monotonic()
        for run in self.running.values():
            run.last = read_last(run.job.path)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as plain values for JSON."""
        return {
            "total": self.total,
            "finished": self.finished,
            "skipped": self.skipped,
            "failed": [
                {"name": name, "path": str(self.paths[name]), "error": error}
                for name, error in self.failed.items()
            ],
            "left": self.total - self.done - len(self.failed),
            "seconds": round(self.seconds, 3),
        }

    def _give_up(self, job: Job, error: str) -> None:
        self.running.pop(job.path, None)
        name = job.spec.name or job.spec.identity
        name = f"{name} ({job.spec.identity})" if name in self.failed else name
        self.failed[name] = get_last_line(error)
        self.paths[name] = job.path
