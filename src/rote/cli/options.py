"""Options that several commands have."""

from pathlib import Path
from typing import Annotated

import typer

Runs = Annotated[
    list[str],
    typer.Argument(
        help="Run directories, folders of them, mlflow:EXPERIMENT\\[@uri], tensorboard:LOGDIR, "
        "csv:FILE, package.module:Name:PLACE."
    ),
]
Column = Annotated[
    str, typer.Option(help="Which ζ: susceptibility, or _relative, _plain, _plain_relative.")
]
Renamed = Annotated[
    list[str] | None,
    typer.Option(
        "--map", metavar="NAME=METRIC", help="Where a metric has another name; repeatable."
    ),
]
DataDir = Annotated[Path | None, typer.Option(help="Where datasets lie (ROTE_DATA).")]
Allowed = Annotated[
    list[str] | None,
    typer.Option(
        "--allow-import",
        metavar="MODULE",
        help="A module that the file may name (package.module:name runs its code), besides those "
        "in the file's own folder; repeatable.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
