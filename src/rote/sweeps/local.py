"""Many runs on this machine: one process per core, one thread each."""

import os
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from traceback import format_exc

from rote.errors import RoteWarning
from rote.workloads import RunSpec, train


@dataclass(frozen=True)
class Outcome:
    """How one run ended.

    Attributes:
        spec: what was run.
        path: its directory.
        error: the traceback, if it failed.
    """

    spec: RunSpec
    path: Path
    error: str | None = None


def run_all(
    specs: Sequence[RunSpec],
    out: Path,
    *,
    workers: int | None = None,
    data_dir: Path | None = None,
    on_done: Callable[[Outcome], object] | None = None,
) -> list[Outcome]:
    """Train every spec, several at a time; a run that was cut off before is taken up again.

    Args:
        specs: what to run.
        out: a directory in which every run gets its own.
        workers: how many at a time; one per core by default.
        data_dir: where datasets lie.
        on_done: called as each run ends.

    Returns:
        How each run ended, in the order of ``specs``.
    """
    count = workers or os.cpu_count() or 1
    # Threads of the parent do not survive a fork, and torch has some: a new interpreter is safe.
    with ProcessPoolExecutor(count, mp_context=get_context("spawn")) as pool:
        jobs = {pool.submit(_run, spec, out / run_name(spec), data_dir): spec for spec in specs}
        try:
            outcomes = {}
            for job in as_completed(jobs):
                outcomes[jobs[job].identity] = job.result()
                if on_done is not None:
                    on_done(job.result())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    return [outcomes[spec.identity] for spec in specs]


def run_name(spec: RunSpec) -> str:
    """The directory of a run: its name for people, its identity for the rest."""
    return spec.identity if spec.name is None else f"{spec.name}-{spec.identity[:8]}"


def _run(spec: RunSpec, path: Path, data_dir: Path | None) -> Outcome:
    # A warning in the middle of a progress bar helps nobody; the flags are in the journal.
    warnings.simplefilter("ignore", RoteWarning)
    try:
        train(spec, path, data_dir=data_dir)
    except Exception:  # noqa: BLE001  # one failed run must not stop the others
        return Outcome(spec, path, error=format_exc())
    return Outcome(spec, path)
