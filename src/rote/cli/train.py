"""`rote train`: one run from one file, of a spec or of data."""

import shlex
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.command import stoppable
from rote.cli.module_path import find_modules_in
from rote.cli.options import Allowed, DataDir, Label, Quiet, Truth
from rote.cli.output import say, verdict_line
from rote.errors import DataChangedError, InputError

if TYPE_CHECKING:
    from rote.workloads import RunSpec


def train(
    spec: Annotated[
        Path | None, typer.Argument(help="The run, as TOML; not needed with --data.")
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="What to train on, instead of what the spec says: a table (.csv, .tsv, .parquet), "
            "an .npz, a folder with one subfolder per class, or a name of `rote data list`.",
        ),
    ] = None,
    label: Label = None,
    truth: Truth = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="The seed of weights and batches, instead of the spec's. Another one, on the same "
            "data and holdout, is a second opinion."
        ),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The run's directory; runs/NAME-… by default.")
    ] = None,
    allowed: Allowed = None,
    data_dir: DataDir = None,
    quiet: Quiet = False,
) -> None:
    """Train, track and save one run; the same command resumes it if it was cut off.

    It tells you when ζ has doubled, and when wrong labels are being learned.
    """
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rote.interpretation import explain_susceptibility, read_start
    from rote.records import Reading
    from rote.store import read_description
    from rote.sweeps import path_by_name
    from rote.workloads import AllowedImports, locate_errors
    from rote.workloads import train as train_run

    described = _described(spec, data, label, truth, data_dir)
    described = described if seed is None else replace(described, seed=seed)
    where = nullcontext if spec is None else partial(locate_errors, spec)
    with where():
        base = Path.cwd() if spec is None else spec.absolute().parent
        find_modules_in(base)
        AllowedImports(tuple(allowed or ()), base).check(described)
        path = out or path_by_name(Path("runs"), described)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    kept = f"What was done is kept in {path}. The same command goes on from its last saved state."
    with stoppable(kept), Progress(*columns, disable=quiet) as bar, where():
        task = bar.add_task("epoch", total=described.epochs)

        def progress(reading: Reading) -> None:
            share, accuracy = reading.susceptibility_relative, reading.metrics.get("train_accuracy")
            text = f"ζ {reading.susceptibility:.4f} ({share:.1%} of the loss)"
            if accuracy is not None:
                text += f"  train accuracy {accuracy:.1%}"
            bar.update(task, completed=reading.step, description=text)
            if reading.note and not quiet:
                bar.console.print(f"step {reading.step}: {reading.note}", highlight=False)

        start = partial(train_run, described, data_dir=data_dir, progress=progress)
        try:
            done = start(path)
        except DataChangedError as error:
            if out is not None:
                raise
            say(f"{str(error).partition('. ')[0]}.")
            path = path.with_name(f"{path.name}-{error.content[:6]}")
            say(f"Training a new run beside it, in {path}.")
            done = start(path)
    if done.model is None:
        say("This run has already finished on the same data: nothing was trained.")
    for remark in done.description["data"].get("remarks", ()):
        say(f"Note: {remark}")
    say(f"Saved in {path}." + (f" To change it: {path / 'spec.toml'}." if spec is None else ""))
    if (
        meaning := explain_susceptibility(done.readings, read_start(read_description(path)))
    ) and not quiet:
        say(f"ζ {done.readings[-1].susceptibility:.4f}; {meaning}.")
    say(verdict_line(path))
    if spec is None:
        place = shlex.quote(str(path))
        say(f"A page of it: rote report {place}. Labels to look at again: rote suspects {place}.")


def _described(
    spec: Path | None,
    data: str | None,
    label: str | None,
    truth: str | None,
    data_dir: Path | None,
) -> "RunSpec":
    """The run of a file, of some data, or of a file with other data.

    Raises:
        InputError: if there is neither.
    """
    from rote.workloads import RunSpec, make_data_section, suggest_spec

    if data is None:
        if spec is None or label is not None or truth is not None:
            raise InputError(
                "Expected a spec (rote train SPEC.toml) or data (rote train --data FILE), and "
                f"--label and --truth with --data only, got {'no data' if spec else 'neither'}."
            )
        return RunSpec.from_toml(spec)
    if spec is None:
        return suggest_spec(data, label=label, truth=truth, data_dir=data_dir)
    return replace(RunSpec.from_toml(spec), data=make_data_section(data, label=label, truth=truth))
