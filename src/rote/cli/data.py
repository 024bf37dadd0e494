"""`rote data`: which datasets are here, and whether a file can be trained on."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from rote.cli.options import AsJson, DataDir
from rote.cli.output import say

app = typer.Typer(
    help="Which datasets are here, and whether a file can be used.", no_args_is_help=True
)


@app.command("list")
def list_sets(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """Every dataset that rote knows by name, where it is, or how to get it."""
    from rich.console import Console
    from rich.table import Table

    from rote.workloads import list_datasets

    sets = list_datasets(data_dir)
    if as_json:
        say(json.dumps([asdict(entry) for entry in sets], indent=2))
        return
    table = Table("name", "classes", "image")
    for heading in ("found", "or get it"):
        table.add_column(heading, overflow="fold")  # an address that is cut off is of no use
    for entry in sets:
        shape = "×".join(str(side) for side in entry.shape)
        table.add_row(
            entry.name,
            str(entry.classes),
            shape,
            entry.found or "–",
            "" if entry.found else entry.obtain,
        )
    Console().print(table)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="An .npz file, or a folder of .npy files.")],
    as_json: AsJson = False,
) -> None:
    """Whether a file of arrays can be trained on; if not, why."""
    from rote.workloads import check_file

    found = check_file(path)
    if as_json:
        say(json.dumps(asdict(found), indent=2, default=str))
    else:
        for name, what in found.arrays.items():
            say(f"{name:24} {what}")
        for name, value in found.summary.items():
            say(f"{name:24} {value}")
        for problem in found.problems:
            say(f"Problem: {problem}", err=True)
    if found.problems:
        raise typer.Exit(1)
