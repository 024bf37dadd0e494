"""`rote select`: which checkpoint of which run to keep, and why."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import AsJson, Column, Renamed, Runs
from rote.cli.output import one_line, printable, say
from rote.errors import InputError

if TYPE_CHECKING:
    from rote.selection import Selection


def select(
    runs: Runs = [],  # noqa: B006  # typer copies it
    rule: Annotated[
        str,
        typer.Option(
            help="The rule; `rote select --rule help` lists them. max:COLUMN or min:COLUMN for any "
            "recorded column; package.module:Name for one of your own."
        ),
    ] = "regions",
    column: Column = "susceptibility",
    renamed: Renamed = None,
    as_json: AsJson = False,
) -> None:
    """Pick a checkpoint without a clean label, and say why."""
    from rote.selection import FAMILIES, RULES, about
    from rote.selection import select as select_from
    from rote.store import parse_mapping

    if rule == "help":
        families = {f"{prefix}:COLUMN": known for prefix, known in FAMILIES.items()}
        for name, known in (RULES | families).items():
            say(f"{name:32} {about(known).explanation}")
        return
    if not runs:
        raise InputError("Expected runs, such as a folder of run directories, got none.")
    mapping = parse_mapping(renamed or ())
    selection = select_from(runs, rule=rule, column=column, mapping=mapping)
    if as_json:
        say(json.dumps(selection.to_json(), indent=2, allow_nan=False))
    else:
        show(selection)


def show(selection: "Selection") -> None:
    """Print a selection for people."""
    from rich.console import Console
    from rich.table import Table

    from rote.selection import REGIONS, as_percent

    def percent(value: float | None) -> str:
        return "–" if value is None else as_percent(value, 1)

    console = Console()
    table = Table("region", "", "checkpoints", "train accuracy", "ζ", "test accuracy")
    for region in selection.regions:
        table.add_row(
            str(region.region),
            REGIONS[region.region],
            str(region.count),
            percent(region.train_accuracy),
            "–" if region.susceptibility is None else f"{region.susceptibility:.4f}",
            percent(region.test_accuracy),
        )
    console.print(table)
    pick = selection.pick
    console.print(f"Keep step [bold]{pick.step}[/bold] of run ", end="")
    console.print(one_line(pick.run), style="bold", markup=False, highlight=False)
    if pick.path is not None:
        console.print(f"  in {one_line(pick.path)}", markup=False, highlight=False, soft_wrap=True)
    for reason in selection.reasons:
        console.print(f"  {printable(reason)}", markup=False, highlight=False)
    for warning in selection.warnings:
        console.print(
            f"  Careful: {printable(warning)}", style="yellow", markup=False, highlight=False
        )
