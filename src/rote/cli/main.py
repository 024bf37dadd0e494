"""The `rote` command: collects the commands, and turns errors into one clear line."""

import sys
import warnings
from typing import Annotated, Any

import typer

from rote.cli import data, study, theory
from rote.cli.command import Command, new_app
from rote.cli.demo import demo
from rote.cli.doctor import doctor
from rote.cli.output import one_line, prepare_streams, printable, say
from rote.cli.predict import predict
from rote.cli.probe import probe
from rote.cli.report import report
from rote.cli.select import select
from rote.cli.suspects import suspects
from rote.cli.sweep import sweep
from rote.cli.train import train
from rote.errors import InputError, RoteError, RoteWarning
from rote.version import __version__

_ABOUT = "Know when a network is memorizing its label noise, without one clean label."
_USAGE: type[Any] = typer.BadParameter.__mro__[1]
"""What typer raises for a command line that it cannot read; it has no public name."""

app = new_app("rote", _ABOUT, completes=True)
for command in (demo, train, sweep, select, suspects, predict, report, probe, doctor):
    app.command(cls=Command)(command)
app.add_typer(data.app, name="data")
app.add_typer(theory.app, name="theory")
app.add_typer(study.app, name="study")


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"rote {__version__}")
        raise typer.Exit


@app.callback(help=_ABOUT)
def rote(
    _version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """What is said before any command."""


def main() -> None:
    """Run the command line; exit 0 done, 1 failed, 2 bad usage."""
    prepare_streams()
    _show_warnings_plainly()
    try:
        sys.exit(app(standalone_mode=False, prog_name="rote") or 0)
    except _USAGE as error:
        _refuse_usage(error)
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


def _refuse_usage(error: Any) -> None:  # noqa: ANN401
    """Say what is wrong with the command line, as everything else is said; exit 2."""
    command = "rote" if error.ctx is None else error.ctx.command_path
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        why = one_line(error.format_message().rstrip("."))
        why += "" if why.endswith("?") else "."
        say(f"Error: Expected what `{command}` takes, got: {why} See `{command} -h`.", err=True)
    sys.exit(2)


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
