"""`rote select`: which checkpoint of which run to keep, and why."""

from dataclasses import astuple, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.module_path import find_named
from rote.cli.options import AsJson, Question, asking
from rote.cli.output import naming_new_folders, one_line, say, say_json
from rote.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rote.selection import Selection

_MOST_LISTED = 5


@asking
def select(
    asked: Question,
    suspects: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.csv",
            help="Where to write the samples of the holdout whose label is probably wrong, for "
            "rules that tell.",
        ),
    ] = None,
    copy_to: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Copy the weights of the pick into this folder."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Also print why, and how sure that is.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Select the checkpoint to keep without clean labels."""
    from rote.selection import DEFAULT_RULE, select_groups
    from rote.selection import select as select_from

    find_named(asked.rule)
    runs, group_by = asked.named_runs(), asked.group_by
    chosen = {"rule": asked.rule or DEFAULT_RULE, **asked.reading(), **asked.rule_options()}
    if group_by is None:
        selection = select_from(runs, **chosen)
        try:  # a reader that closes early, as `head` does, keeps nothing from being written
            with naming_new_folders(suspects and suspects.parent, copy_to):
                notes = _write(selection, suspects, copy_to)
        finally:  # it stands, whatever cannot be written
            _tell(selection, as_json=as_json, explain=explain)
        for note in notes:  # beside an object for machines they go where errors go
            say(one_line(note), err=as_json)
        return
    if suspects is not None:
        raise InputError("Expected --suspects without --group-by, got both. Choose with --where.")
    found = select_groups(runs, group_by, **chosen)
    if as_json:
        groups = {value: entry.to_json() for value, entry in found.items()}
        say_json({"group_by": group_by, "groups": groups})
    for value, entry in found.items():
        try:
            with naming_new_folders(copy_to):
                notes = _write(entry, None, copy_to)
        finally:
            if not as_json:
                say(f"{group_by} = {one_line(value)}")
                show(entry, explain=explain)
        for note in notes:
            say(one_line(note), err=as_json)


def _tell(selection: "Selection", *, as_json: bool, explain: bool) -> None:
    if as_json:
        say_json(selection.to_json())
    else:
        show(selection, explain=explain)


def _write(selection: "Selection", suspects: Path | None, copy_to: Path | None) -> list[str]:
    """Write what was asked for beside the verdict.

    Returns:
        Where it is, in sentences.
    """
    from rote.reporting.output_file import write_file
    from rote.selection import Suspect, copy_checkpoint

    if suspects is not None and selection.noise_rate is None:
        raise InputError(
            f"Expected rule {selection.rule!r} to tell which labels are probably wrong, got one "
            "that does not look at them. Use --rule posterior, on runs with given_labels=."
        )
    notes = []
    if copy_to is not None:
        notes.append(f"Copied to {copy_checkpoint(selection.pick, copy_to)}")
    if suspects is not None:
        lines = [",".join(map(str, astuple(suspect))) for suspect in selection.suspects]
        names = [entry.name for entry in fields(Suspect)]
        write_file(suspects, "\n".join([",".join(names), *lines, ""]).encode())
        notes.append(f"Suspects: {suspects} ({len(lines)} samples)")
    return notes


def show(selection: "Selection", *, explain: bool = False) -> None:
    """Print a selection for people: a short table, the summary, and the explanation."""
    from rich.console import Console

    console = Console()
    table = _regions(selection) if selection.has_regions else _best(selection)
    if table is not None:
        console.print(table)
    show_summary(selection, console)
    if explain:
        console.print(f"\n{selection.explanation}", markup=False, highlight=False, soft_wrap=True)


def show_summary(selection: "Selection", console: "Console") -> None:
    """Print the summary of a selection, the headline in bold."""
    headline, *lines = selection.summary.lines
    console.print(headline, style="bold", markup=False, highlight=False)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _regions(selection: "Selection") -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    from rote.selection import REGIONS

    tested = any(region.test_accuracy is not None for region in selection.regions)
    table = Table("region", "", "checkpoints", "train", "ζ", box=SIMPLE_HEAD)
    if tested:
        table.add_column("test")
    for region in selection.regions:
        cells = [
            str(region.region),
            REGIONS[region.region],
            str(region.count),
            _percent(region.train_accuracy),
            _number(region.susceptibility),
        ]
        table.add_row(*cells, *([_percent(region.test_accuracy)] if tested else []))
    return table


def _best(selection: "Selection") -> "Table | None":
    """The checkpoints that the rule likes best; None if it gives them no number."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from rote.formatting import visible

    frame = selection.table
    by = next((name for name in ("estimated_accuracy", "score") if name in frame.columns), None)
    if by is None:
        return None
    table = Table(box=SIMPLE_HEAD)
    table.add_column("run", overflow="fold")
    best = frame.drop_nulls(by).sort(by, descending=True, maintain_order=True)
    tested = "test_accuracy" in frame.columns and bool(frame["test_accuracy"].count())
    score = "estimate" if by == "estimated_accuracy" else by
    for heading in ("step", score, "train", "ζ", *(["test"] if tested else [])):
        table.add_column(heading, justify="right")
    for row in best.head(_MOST_LISTED).to_dicts():
        table.add_row(
            Text(visible(row["run"])),
            str(row["step"]),
            _percent(row[by]),
            _percent(row.get("train_accuracy")),
            _number(row.get(selection.column)),
            *([_percent(row["test_accuracy"])] if tested else []),
        )
    return table


def _percent(value: float | None) -> str:
    from rote.formatting import as_percent

    return "–" if value is None else as_percent(value, 1)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.4f}"
