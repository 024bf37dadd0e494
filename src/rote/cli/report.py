"""`rote report`: write one self-contained page about runs."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.command import INTERRUPTED
from rote.cli.module_path import find_named
from rote.cli.options import Question, add_question
from rote.cli.output import format_bytes, format_line, list_out, name_new_folders, say
from rote.errors import RoteError

if TYPE_CHECKING:
    from rote.reporting import LivePage, Look, Report


@add_question
def report(
    question: Question,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The page; an existing one is replaced."),
    ] = Path("report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Also write the figures to this folder, as SVG and PNG."),
    ] = None,
    charts: Annotated[
        list[str] | None,
        typer.Option(
            "--chart",
            metavar="NAME",
            help="Add a chart: MODULE:NAME, or one of another package by its name (`--chart help` "
            "lists them); repeatable.",
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Keep updating the page while runs are in progress; it reloads itself. Waits for "
            "runs that do not exist yet.",
        ),
    ] = False,
) -> None:
    """Write one self-contained page with the verdict, charts, suspects and runs."""
    from rote.reporting import LivePage, report as write_report

    if charts and "help" in charts:
        _list_charts()
        return
    find_named(question.rule, *(charts or ()))
    how = {
        "rule": question.rule,
        **question.read_options(),
        "group_by": question.group_by,
        "options": question.read_rule_options(),
        "figures": figures,
        "charts": charts or (),
        "command": get_command_line(),
    }
    with name_new_folders(out.parent, figures):
        if watch:
            runs = question.get_runs()
            written = _watch(LivePage(runs, out, **how), out, runs)
        else:
            written = write_report(question.get_runs(), out, **how)
    show(written)


def _list_charts() -> None:
    """Print the charts that `--chart` adds by name: those of other packages."""
    from rote.reporting.charts import load_installed_charts

    installed = {name: chart.title for name, chart in load_installed_charts().items()}
    if installed:
        list_out(installed)
    else:
        say("No installed package adds a chart. A file of yours does: --chart MODULE:NAME.")


def _watch(page: "LivePage", out: Path, runs: list[str]) -> "Report":
    """Update the page until no run is in progress."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        with console.status("Waiting for runs") as status:
            while not (found := page.look()).is_over:
                line = describe_progress(found, out, runs)
                status.update(line)
                if found.is_new and not console.is_terminal:
                    say(line, err=True)
                time.sleep(found.wait)
        return page.leave()
    except KeyboardInterrupt:
        try:
            page.leave()
        except RoteError as error:
            say(f"No verdict yet: {error}", err=True)
        say(
            f"Stopped watching; the runs continue. {out} stays as it is and no longer reloads. Run "
            "the same command again to resume.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def describe_progress(found: "Look", out: Path, runs: list[str]) -> str:
    """Describe the progress of the runs, and where the page is or why it has no verdict."""
    why = format_line((found.trouble or "").rstrip("."))
    state = f"no verdict yet: {why}" if found.trouble else f"the page is {out}"
    if found.progress.total == 0:  # waiting for runs is not an error
        state = f"waiting for runs in {format_line(', '.join(runs))}"
    return f"{found.progress.sentence}; {state}. Ctrl-C stops watching, not the runs."


def get_command_line() -> str:
    """Return the command as it was typed."""
    return shlex.join(["rote", *sys.argv[1:]])


def show(written: "Report") -> None:
    """Print where the files are, and which figures could not be drawn.

    Args:
        written: the report.
    """
    say(f"Report: {written.path} ({format_bytes(written.path.stat().st_size)})")
    if written.note is not None:
        say(f"Caution: {format_line(written.note)}", err=True)
    for path in written.pages:
        say(f"Page of one group: {path}")
    for path in written.figures.files:
        say(f"Figure: {path}")
    for name, reason in written.figures.missing.items():
        say(f"No figure of {name}: {reason}", err=True)
