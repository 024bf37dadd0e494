"""`rote train`: one run from one file."""

from pathlib import Path
from typing import Annotated

import typer

from rote.cli.options import Allowed, DataDir
from rote.cli.output import say


def train(
    spec: Annotated[Path, typer.Argument(help="The run, as TOML.")],
    out: Annotated[Path | None, typer.Option(help="The run's directory.")] = None,
    allowed: Allowed = None,
    data_dir: DataDir = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="No progress bar.")] = False,
) -> None:
    """Train, track and save one run; running it again goes on where it was cut off."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    from rote.records import Reading
    from rote.sweeps import path_by_name
    from rote.workloads import AllowedImports, RunSpec, located
    from rote.workloads import train as train_run

    described = RunSpec.from_toml(spec)
    with located(spec):
        AllowedImports(tuple(allowed or ()), spec.absolute().parent).check(described)
        path = out or path_by_name(Path("runs"), described)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with Progress(*columns, disable=quiet) as bar, located(spec):
        task = bar.add_task("epoch", total=described.epochs)

        def progress(reading: Reading) -> None:
            text = f"ζ {reading.susceptibility:.4f}"
            accuracy = reading.metrics.get("train_accuracy")
            if accuracy is not None:
                text += f"  train accuracy {accuracy:.1%}"
            bar.update(task, completed=reading.step, description=text)

        train_run(described, path, data_dir=data_dir, progress=progress)
    say(f"Saved in {path}. Choose a checkpoint: rote select {path} --rule before-rise")
