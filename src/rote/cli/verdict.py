"""Printing of a verdict: the best checkpoints, the summary, the explanation."""

from pathlib import Path
from typing import TYPE_CHECKING

from rote.cli.output import format_line, say
from rote.errors import RoteError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from rote.selection import Selection

_MOST_LISTED = 5


def print_verdict(runs: Path | str) -> None:
    """Select from runs that a command has made, and print the verdict.

    If there is none yet, print the reason.

    Args:
        runs: a run directory, or a folder of them.
    """
    from rote.selection import select

    try:
        selection = select(runs)
    except RoteError as error:
        say(format_line(f"No verdict yet: {error}"))
    else:
        print_selection(selection)


def print_selection(selection: "Selection", *, explain: bool = False) -> None:
    """Print the best checkpoints or regions, the summary and, if wanted, the explanation."""
    from rich.console import Console

    console = Console()
    table = _make_regions(selection) if selection.has_regions else _make_best(selection)
    if table is not None:
        console.print(table)
    print_summary(selection, console)
    if explain:
        console.print(f"\n{selection.explanation}", markup=False, highlight=False, soft_wrap=True)


def print_summary(selection: "Selection", console: "Console") -> None:
    """Print the summary of a selection, with its headline in bold."""
    headline, *lines = selection.summary.lines
    console.print(headline, style="bold", markup=False, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _make_regions(selection: "Selection") -> "Table":
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
            format_percent(region.train_accuracy),
            format_number(region.susceptibility),
        ]
        table.add_row(*cells, *([format_percent(region.test_accuracy)] if tested else []))
    return table


def _make_best(selection: "Selection") -> "Table | None":
    """Make a table of the checkpoints with the highest score; None if the rule has no score."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    from rote.formatting import escape_invisible

    frame = selection.table
    by = next((name for name in ("estimated_accuracy", "score") if name in frame.columns), None)
    if by is None:
        return None
    table = Table(box=SIMPLE_HEAD)
    table.add_column("run", overflow="fold")
    pick = selection.pick
    is_pick = (frame["run"] == pick.run) & (frame["step"] == pick.step)
    known = frame.with_columns(is_pick=is_pick).drop_nulls(by)
    best = known.sort(by, "is_pick", descending=True, maintain_order=True)
    tested = "test_accuracy" in frame.columns and bool(frame["test_accuracy"].count())
    score = "estimate" if by == "estimated_accuracy" else by
    for heading in ("step", score, "train", "ζ", *(["test"] if tested else [])):
        table.add_column(heading, justify="right")
    for row in best.head(_MOST_LISTED).to_dicts():
        table.add_row(
            Text(escape_invisible(row["run"])),
            str(row["step"]),
            format_percent(row[by]),
            format_percent(row.get("train_accuracy")),
            format_number(row.get(selection.column)),
            *([format_percent(row["test_accuracy"])] if tested else []),
        )
    return table


def format_percent(value: float | None) -> str:
    """Format a share in percent, an unknown one as a dash."""
    from rote.formatting import format_share

    return "–" if value is None else format_share(value, 1)


def format_number(value: float | None) -> str:
    """Format a number with four decimals, an unknown one as a dash."""
    return "–" if value is None else f"{value:.4f}"
