"""The display of a sweep in progress: a live table, or plain lines."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rote.cli.output import format_line, spell_out_controls
from rote.sweeps import (
    Event,
    Failed,
    Finished,
    Job,
    LastReading,
    Lost,
    Progress,
    get_last_line,
    read_last,
)

if TYPE_CHECKING:
    from rich.console import Console, Group
    from rich.live import Live


class View:
    """Records the progress of a sweep and shows nothing.

    Attributes:
        progress: the latest progress.
    """

    progress: Progress | None = None

    def __call__(self, progress: Progress, event: Event | None) -> None:
        """Record and show the progress, after an event or a moment without one."""
        self.progress = progress
        self.show(progress, event)

    def show(self, progress: Progress, event: Event | None) -> None:
        """Show the progress."""


class Lines(View):
    """Prints a line for every run that ends, for files and pipes."""

    def __init__(self, console: "Console") -> None:
        self._console = console

    def show(self, progress: Progress, event: Event | None) -> None:
        """Print a line if a run has ended."""
        over = f"{progress.done + len(progress.failed)}/{progress.total}"
        match event:
            case Finished(job):
                what = f"finished  {_format_reading(read_last(job.path))}"
            case Failed(job, error):
                what = f"failed  {get_last_line(error)}"
            case Lost(job, reason, gives_up):
                what = f"{'given up' if gives_up else 'lost, tried again'}  {reason}"
            case _:
                return
        text = spell_out_controls(f"{over} {_format_name(job)} {what}, {_estimate_left(progress)}")
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class LiveTable(View):
    """Shows a live table of the runs in progress."""

    def __init__(self, live: "Live") -> None:
        self._live = live

    def show(self, progress: Progress, event: Event | None) -> None:  # noqa: ARG002
        """Draw the table."""
        self._live.update(make_table(progress))


def make_table(progress: Progress) -> "Group":
    """Make the table of a sweep in progress."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    counts = [f"{progress.done} of {progress.total} done", f"{len(progress.running)} running"]
    if progress.failed:
        counts.append(f"{len(progress.failed)} failed")
    if progress.elsewhere:
        counts.append(f"{progress.elsewhere} left to another sweep")
    table = Table("running", box=SIMPLE_HEAD)
    for heading in ("epoch", "ζ", "train", "noisy validation"):
        table.add_column(heading, justify="right")
    for run in progress.running.values():
        table.add_row(
            Text(_format_name(run.job)),
            f"{run.last.step}/{run.job.spec.epochs}",
            _format_number(run.last.susceptibility, ".4f"),
            _format_number(run.last.train_accuracy, ".1%"),
            _format_number(run.last.validation_accuracy, ".1%"),
        )
    # Not part of the table, whose width would wrap it.
    return Group(Text(" · ".join([*counts, _estimate_left(progress)])), table)


@contextmanager
def open_view(*, quiet: bool) -> Iterator[View]:
    """Open the view that suits the terminal; progress goes to stderr."""
    from rich.console import Console
    from rich.live import Live

    console = Console(stderr=True)
    if quiet:
        yield View()
    elif not console.is_terminal or console.is_dumb_terminal:
        yield Lines(console)
    else:
        with Live(console=console, transient=True) as live:
            yield LiveTable(live)


def format_duration(seconds: float) -> str:
    """Format a duration.

    Example:
        >>> [format_duration(seconds) for seconds in (42, 750, 9000, 200000)]
        ['42 s', '12 min', '2 h 30 min', '2 d 7 h']
    """
    if seconds < 60:
        return f"{seconds:.0f} s"
    minutes = int(seconds // 60)
    if minutes < 60:
        return f"{minutes} min"
    hours = minutes // 60
    return f"{hours} h {minutes % 60} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def _estimate_left(progress: Progress) -> str:
    left = progress.seconds_left
    return "time left unknown" if left is None else f"about {format_duration(left)} left"


def _format_name(job: Job) -> str:
    return format_line(job.spec.name or job.spec.identity)


def _format_reading(last: LastReading) -> str:
    accuracy = _format_number(last.train_accuracy, ".1%")
    return f"ζ {_format_number(last.susceptibility, '.4f')}  train accuracy {accuracy}"


def _format_number(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)
