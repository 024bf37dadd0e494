"""The `rote` command: collects the commands, and turns errors into one clear line."""

import sys
import warnings
from typing import Annotated

import typer

from rote.cli import data, theory
from rote.cli.demo import demo
from rote.cli.doctor import doctor
from rote.cli.output import one_line, prepare_streams, printable, say
from rote.cli.probe import probe
from rote.cli.report import report
from rote.cli.select import select
from rote.cli.sweep import sweep
from rote.cli.train import train
from rote.errors import InputError, RoteError, RoteWarning
from rote.version import __version__

app = typer.Typer(
    name="rote",
    help="Know when a network is memorizing its label noise, without one clean label.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
for command in (demo, train, sweep, select, report, probe, doctor):
    app.command()(command)
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"rote {__version__}")
        raise typer.Exit


@app.callback()
def rote(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Know when a network is memorizing its label noise, without one clean label."""


def main() -> None:
    """Run the command line; exit 0 done, 1 failed, 2 bad usage."""
    prepare_streams()
    _show_warnings_plainly()
    try:
        app()
    except RoteError as error:
        say(f"Error: {error}", err=True)
        sys.exit(2 if isinstance(error, InputError) else 1)
    except OSError as error:
        what = "the files of this command" if error.filename is None else one_line(error.filename)
        say(f"Error: Expected {what} to be usable, got: {error.strerror or error}.", err=True)
        sys.exit(1)
    except MemoryError as error:
        say(f"Error: Expected all this to fit into memory, got too much: {error}.", err=True)
        sys.exit(1)
    except RecursionError:
        say("Error: Expected tables and lists that end, got them nested too deeply.", err=True)
        sys.exit(1)


def _show_warnings_plainly() -> None:
    """Our own warnings are for the user; which line of ours gave them is not."""
    usual = warnings.formatwarning

    def plainly(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if issubclass(category, RoteWarning):
            return f"Warning: {printable(message)}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = plainly
