"""`rote select`: which checkpoint of which run to keep, and why."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import AsJson, Column, Renamed, Runs
from rote.errors import InputError

if TYPE_CHECKING:
    from rote.selection import Selection


def select(
    runs: Runs = [],  # noqa: B006  # typer copies it
    rule: Annotated[
        str, typer.Option(help="The rule; `rote select --rule help` lists them.")
    ] = "regions",
    column: Column = "susceptibility",
    renamed: Renamed = None,
    as_json: AsJson = False,
) -> None:
    """Pick a checkpoint without a clean label, and say why."""
    from rote.selection import RULES
    from rote.selection import select as select_from
    from rote.store import parse_mapping

    if rule == "help":
        for name, known in RULES.items():
            typer.echo(f"{name:32} {(known.__doc__ or '').splitlines()[0]}")
        return
    if not runs:
        raise InputError("Expected runs, such as a folder of run directories, got none.")
    mapping = parse_mapping(renamed or ())
    selection = select_from(runs, rule=rule, column=column, mapping=mapping)
    if as_json:
        typer.echo(json.dumps(selection.to_json(), indent=2, allow_nan=False))
    else:
        show(selection)


def show(selection: "Selection") -> None:
    """Print a selection for people."""
    from rich.console import Console
    from rich.table import Table

    from rote.selection.regions import REGIONS

    console = Console()
    table = Table("region", "", "checkpoints", "train accuracy", "ζ", "test accuracy")
    for region in selection.regions:
        table.add_row(
            str(region.region),
            REGIONS[region.region],
            str(region.count),
            _percent(region.train_accuracy),
            "–" if region.susceptibility is None else f"{region.susceptibility:.4f}",
            _percent(region.test_accuracy),
        )
    console.print(table)
    pick = selection.pick
    console.print(f"Keep step [bold]{pick.step}[/bold] of run ", end="")
    console.print(pick.run, style="bold", markup=False, highlight=False)
    if pick.path is not None:
        console.print(f"  in {pick.path}", markup=False, highlight=False, soft_wrap=True)
    for reason in selection.reasons:
        console.print(f"  {reason}", markup=False, highlight=False)
    for warning in selection.warnings:
        console.print(f"  Careful: {warning}", style="yellow", markup=False, highlight=False)


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{value:.1%}"
