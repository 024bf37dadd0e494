"""`rote report`: one page to look at, and to send around."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rote.cli.command import INTERRUPTED
from rote.cli.module_path import find_named
from rote.cli.options import Question, asking
from rote.cli.output import in_bytes, naming_new_folders, one_line, say
from rote.errors import RoteError

if TYPE_CHECKING:
    from rote.reporting import LivePage, Look, Report


@asking
def report(
    asked: Question,
    out: Annotated[
        Path,
        typer.Option("--out", "-o", metavar="FILE", help="The page; an older one is replaced."),
    ] = Path("report.html"),
    figures: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="A folder for the figures as SVG and PNG."),
    ] = None,
    charts: Annotated[
        list[str] | None,
        typer.Option(
            "--chart", metavar="MODULE:NAME", help="A chart of your own to add; repeatable."
        ),
    ] = None,
    watch: Annotated[
        bool,
        typer.Option(
            "--watch",
            help="Write the page again and again while runs go on; it loads itself anew. Runs that "
            "are not there yet are waited for.",
        ),
    ] = False,
) -> None:
    """Write one self-contained page: verdict, charts, every rule, every run."""
    from rote.reporting import LivePage
    from rote.reporting import report as write_report

    find_named(asked.rule, *(charts or ()))
    how = {
        "rule": asked.rule,
        **asked.reading(),
        "group_by": asked.group_by,
        "options": asked.rule_options(),
        "figures": figures,
        "charts": charts or (),
        "command": command_line(),
    }
    with naming_new_folders(out.parent, figures):
        if watch:
            runs = asked.named_runs()
            written = _watch(LivePage(runs, out, **how), out, runs)
        else:
            written = write_report(asked.named_runs(), out, **how)
    show(written)


def _watch(page: "LivePage", out: Path, runs: list[str]) -> "Report":
    """Look at the runs until nobody works on any of them."""
    from rich.console import Console

    console = Console(stderr=True)
    try:
        with console.status("Waiting for runs") as status:
            while not (found := page.look()).is_over:
                line = progress_line(found, out, runs)
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
            f"Stopped watching; the runs go on. {out} is kept as it is now, and does not load "
            "itself again. The same command goes on.",
            err=True,
        )
        raise typer.Exit(INTERRUPTED) from None


def progress_line(found: "Look", out: Path, runs: list[str]) -> str:
    """How far the runs are, and where the page is, or why it has no verdict."""
    why = one_line((found.trouble or "").rstrip("."))
    state = f"no verdict yet: {why}" if found.trouble else f"the page is {out}"
    if found.progress.total == 0:  # they are waited for, so nothing is wrong with the path
        state = f"waiting for runs in {one_line(', '.join(runs))}"
    return f"{found.progress.sentence}; {state}. Ctrl-C ends the watch, not the runs."


def command_line() -> str:
    """The command as it was typed, for those who want to run it again."""
    return shlex.join(["rote", *sys.argv[1:]])


def show(written: "Report") -> None:
    """Say where everything is, and what could not be drawn.

    Args:
        written: the report.
    """
    say(f"Report: {written.path} ({in_bytes(written.path.stat().st_size)})")
    if written.note is not None:
        say(f"Careful: {one_line(written.note)}", err=True)
    for path in written.pages:
        say(f"Page of one group: {path}")
    for path in written.figures.files:
        say(f"Figure: {path}")
    for name, reason in written.figures.missing.items():
        say(f"No figure of {name}: {reason}", err=True)
