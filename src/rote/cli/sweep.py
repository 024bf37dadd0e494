"""`rote sweep`: many runs from one file, here or on a Ray cluster."""

import signal
import time
from collections.abc import Callable
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rote.cli.command import INTERRUPTED
from rote.cli.module_path import find_modules_in
from rote.cli.options import Allowed, AsJson, DataDir, Quiet
from rote.cli.output import format_bytes, format_line, say, say_json
from rote.cli.report import get_command_line
from rote.cli.verdict import print_verdict
from rote.errors import InputError, RoteError, quote

if TYPE_CHECKING:
    from rote.sweeps import Event, Executor, Progress, SearchSpace

_SHOWN = 10  # failed runs that are named at the end


Address = Annotated[
    str | None,
    typer.Option(help="Ray: `auto` or host:port; by default a local cluster is started."),
]
GpusPerRun = Annotated[
    float | None, typer.Option(help="Ray: GPUs per run; may be a fraction.", show_default="0")
]


class Place(StrEnum):
    """The executor that trains the runs."""

    local = "local"
    ray = "ray"


def sweep(
    file: Annotated[Path | None, typer.Argument(help="The sweep as a TOML file.")] = None,
    out: Annotated[Path | None, typer.Option(help="The store: a directory for all runs.")] = None,
    executor: Annotated[Place, typer.Option(help="This machine, or a Ray cluster.")] = Place.local,
    workers: Annotated[
        int | None, typer.Option(help="Runs at a time; one per core by default.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Print the number of runs, time and disk space, and exit."),
    ] = False,
    list_store: Annotated[
        Path | None,
        typer.Option("--list", help="Show the status of every run of a store and exit."),
    ] = None,
    allowed: Allowed = None,
    page: Annotated[
        Path | None,
        typer.Option(
            "--report",
            metavar="FILE",
            help="Write a live report to this file while runs are in progress.",
        ),
    ] = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
    data_dir: DataDir = None,
    address: Address = None,
    cpus_per_run: Annotated[
        float | None, typer.Option(help="Ray: CPU cores per run.", show_default="1")
    ] = None,
    gpus_per_run: GpusPerRun = None,
) -> None:
    """Train every combination of a sweep file; the same command resumes it."""
    if list_store is not None:
        if file is not None or out is not None:
            raise InputError(f"--list STORE takes no other arguments. Leave out {file or out}.")
        _list(list_store, as_json=as_json)
        return
    if file is None or out is None:
        missing = "--out STORE" if file is not None else "sweep file"
        raise InputError(
            f"Missing {missing}. Use `rote sweep FILE --out STORE`, or `rote sweep --list STORE`."
        )
    from rote.sweeps import SearchSpace
    from rote.workloads import AllowedImports

    # A dry run imports only modules that are allowed by name.
    imports = AllowedImports(tuple(allowed or ()), None if dry_run else file.absolute().parent)
    find_modules_in(file.absolute().parent)
    space = replace(SearchSpace.from_toml(file), check=imports.check)
    chosen = make_executor(executor, workers, address, cpus_per_run, gpus_per_run)
    if dry_run:
        _estimate(space, out, chosen, data_dir, as_json=as_json)
        return
    _run(space, out, chosen, data_dir, page, quiet=quiet, as_json=as_json)


def make_executor(
    place: Place,
    workers: int | None,
    address: str | None = None,
    cpus: float | None = None,
    gpus: float | None = None,
) -> "Executor":
    """Return the executor of runs.

    Raises:
        InputError: if an option does not apply to this executor.
    """
    choose = _make_ray_executor if place is Place.ray else _make_local_executor
    return choose(workers, address, cpus, gpus)


def _make_ray_executor(
    workers: int | None, address: str | None, cpus: float | None, gpus: float | None
) -> "Executor":
    from rote.sweeps import RayExecutor

    return RayExecutor(
        address,
        workers=workers,
        cpus=1.0 if cpus is None else cpus,
        gpus=0.0 if gpus is None else gpus,
    )


def _make_local_executor(
    workers: int | None, address: str | None, cpus: float | None, gpus: float | None
) -> "Executor":
    from rote.sweeps import LocalExecutor

    of_ray = {"--address": address, "--cpus-per-run": cpus, "--gpus-per-run": gpus}
    for option, value in of_ray.items():
        if value is not None:
            raise InputError(f"{option} {quote(value)} needs --executor ray.")
    return LocalExecutor(workers)


def _run(
    space: "SearchSpace",
    out: Path,
    executor: "Executor",
    data_dir: Path | None,
    page: Path | None,
    *,
    quiet: bool,
    as_json: bool,
) -> None:
    from rote.cli.sweep_view import open_view
    from rote.sweeps import Sweep

    is_interrupted = False
    with open_view(quiet=quiet) as watch:
        live = None if page is None else SweepPage(out, page, watch)
        try:
            Sweep(space, out, data_dir=data_dir).run(executor, live or watch)
        except KeyboardInterrupt:
            is_interrupted = True
            # All workers have stopped: ignore further Ctrl-C until the summary is printed.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
    progress = watch.progress
    if progress is None:  # interrupted before any run started
        say("Stopped before any run started.", err=True)
        raise typer.Exit(INTERRUPTED)
    if live is not None:
        live.leave(progress)
    if as_json:
        summary = {"store": str(out), "interrupted": is_interrupted} | progress.to_dict()
        say_json(summary)
    else:
        _report(progress, out, is_interrupted=is_interrupted)
    if is_interrupted:
        raise typer.Exit(INTERRUPTED)
    if progress.failed:
        raise typer.Exit(1)


def _report(progress: "Progress", out: Path, *, is_interrupted: bool) -> None:
    from rote.cli.sweep_view import format_duration
    from rote.store import FAILURE_FILE

    say(
        f"{progress.done} of {progress.total} runs finished, {progress.finished} of them now, in "
        f"{format_duration(progress.seconds)}. Store: {out}."
    )
    for name, error in list(progress.failed.items())[:_SHOWN]:
        say(
            f"Failed: {format_line(name)} ({progress.paths[name] / FAILURE_FILE}): {error}",
            err=True,
        )
    if len(progress.failed) > _SHOWN:
        say(f"Failed: {len(progress.failed) - _SHOWN} more. rote sweep --list {out}", err=True)
    if is_interrupted:
        say("Stopped; nothing is lost. Run the same command again to resume.", err=True)
    elif progress.failed:
        say("Run the same command again to retry the failed runs.", err=True)
    else:
        print_verdict(out)


def _estimate(
    space: "SearchSpace", out: Path, executor: "Executor", data_dir: Path | None, *, as_json: bool
) -> None:
    from rote.cli.sweep_view import format_duration
    from rote.sweeps import Sweep, estimate_cost

    plan = Sweep(space, out, data_dir=data_dir)
    plan.check_store()
    counts = plan.survey()
    guess = estimate_cost(plan.list_unfinished(), out, data_dir=data_dir)
    seconds = guess.estimate_seconds(_count_at_once(executor))
    if as_json:
        found = {"runs": counts, "workers": executor.workers, "seconds": seconds}
        say_json(found | {"estimate": asdict(guess)})
        return
    total = sum(counts.values())
    say(f"{_format_runs(total)}: {', '.join(f'{n} {state}' for state, n in counts.items() if n)}.")
    if not guess.kinds:
        say("All runs are finished.")
        return
    say(
        f"Left: about {format_duration(seconds)} with {executor.workers} at a time, "
        f"{format_bytes(guess.bytes)} of disk."
    )
    scaled = f", on {guess.samples} samples and scaled up" if guess.is_scaled else ""
    say(
        f"Based on one epoch each of {guess.measured} of {guess.kinds} kinds of run, measured one "
        f"at a time on this machine{scaled}. Nothing was written to {out}."
    )
    for name, error in guess.refused.items():
        say(f"Cannot be measured here: {name}: {error}", err=True)


def _count_at_once(executor: "Executor") -> int:
    """Return the number of runs that can train in parallel without slowing each other down."""
    from rote.sweeps import LocalExecutor, count_cores

    workers = executor.workers
    return min(workers, count_cores()) if isinstance(executor, LocalExecutor) else workers


def _list(store: Path, *, as_json: bool) -> None:
    from rote.store import STATES, list_runs

    runs = list_runs(store)
    counts = {state: sum(run.state == state for run in runs) for state in STATES}
    if as_json:
        rows: list[dict[str, Any]] = [asdict(run) for run in runs]
        say_json({"counts": counts, "runs": rows})
        return
    lines = [
        f"{run.state:9} {format_line(run.path.name)}  {format_line(run.name or '')}".rstrip()
        for run in runs
    ]
    summary = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    say("\n".join([*lines, f"{_format_runs(len(runs))}: {summary or 'none'}."]))


def _format_runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"


_EASE = 20.0
"""Workers wait while the page is written, for at most a twentieth of the time."""


class SweepPage:
    """Passes progress on to a view, and updates the page at intervals.

    Args:
        store: the store of the sweep.
        path: the path of the page.
        view: the view to pass progress on to.
        clock: in seconds.

    Raises:
        InputError: if the page cannot be written.
    """

    def __init__(
        self,
        store: Path,
        path: Path,
        view: Callable[["Progress", "Event | None"], object],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rote.reporting import LivePage
        from rote.reporting.output_file import check_writable

        check_writable(path)
        self._store, self._path = store, path
        self._page = LivePage(store, path, ease=_EASE, command=get_command_line())
        self._view, self._clock, self._next = view, clock, clock()

    def __call__(self, progress: "Progress", event: "Event | None") -> None:
        """Pass on the progress, and update the page if it is due."""
        self._view(progress, event)
        if self._clock() < self._next:
            return
        try:
            wait = self._page.look(progress.total, len(progress.failed)).wait
        except RoteError:  # does not end the sweep; `leave` reports it
            wait = 60.0
        self._next = self._clock() + wait

    def leave(self, progress: "Progress") -> None:
        """Write the page for the last time, and print where it is."""
        from rote.store import find_run_directories

        try:
            written = self._page.leave(progress.total, len(progress.failed))
        except RoteError as error:
            why = format_line(error) if find_run_directories(self._store) else "no run has started."
            say(f"Report: {self._path}, without a verdict: {why}", err=True)
        else:
            say(f"Report: {written.path}", err=True)
