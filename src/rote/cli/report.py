"""`rote report`: one page to look at, and to send around."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.options import Column, Renamed, Runs
from rote.cli.output import say

if TYPE_CHECKING:
    from rote.reporting import Report


def report(
    runs: Runs,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="The page; one that is there is replaced.")
    ] = Path("report.html"),
    figures: Annotated[
        Path | None, typer.Option(help="A folder for the figures as SVG and PNG.")
    ] = None,
    rule: Annotated[
        str | None,
        typer.Option(help="The rule of the verdict: staged, or before-rise for a single run."),
    ] = None,
    charts: Annotated[
        list[str] | None,
        typer.Option(
            "--chart", metavar="MODULE:NAME", help="A chart of your own to add; repeatable."
        ),
    ] = None,
    column: Column = "susceptibility",
    renamed: Renamed = None,
) -> None:
    """Write one self-contained page: verdict, charts, every rule, every run."""
    from rote.reporting import report as write_report
    from rote.store import parse_mapping

    written = write_report(
        runs,
        out,
        rule=rule,
        column=column,
        mapping=parse_mapping(renamed or ()),
        figures=figures,
        charts=charts or (),
        command=command_line(),
    )
    show(written)


def command_line() -> str:
    """The command as it was typed, for those who want to run it again."""
    return shlex.join(["rote", *sys.argv[1:]])


def show(written: "Report") -> None:
    """Say where everything is, and what could not be drawn.

    Args:
        written: the report.
    """
    say(f"Report: {written.path} ({written.path.stat().st_size / 1e6:.1f} MB)")
    for path in written.figures.files:
        say(f"Figure: {path}")
    for name, reason in written.figures.missing.items():
        say(f"No figure of {name}: {reason}", err=True)
