"""The `rote` command: its subcommands, and errors as one clear line."""

import re
import sys
import warnings
from typing import Annotated, Any

import typer

from rote.cli import data, study, theory
from rote.cli.clean import clean
from rote.cli.command import HELP, Command, CommandGroup, make_app
from rote.cli.demo import demo
from rote.cli.doctor import doctor
from rote.cli.output import format_line, prepare_streams, say, spell_out_controls
from rote.cli.predict import predict
from rote.cli.probe import probe
from rote.cli.report import report
from rote.cli.select import select
from rote.cli.suspects import suspects
from rote.cli.sweep import sweep
from rote.cli.train import train
from rote.errors import InputError, RoteError, RoteWarning
from rote.plugins import list_plugins, load_plugin, load_plugins
from rote.version import __version__

_ABOUT = "Know when a network is memorizing its label noise, without one clean label."
_USAGE: type[Any] = typer.BadParameter.__mro__[1]
"""The base class of typer's usage errors, which has no public name."""


class ExtensibleGroup(CommandGroup):
    """The `rote` command: its own subcommands, then those that other packages install.

    An entry point in ``rote.commands`` is a function, as typer takes it, or a typer app. Other
    packages are searched only for the help and for a name that is none of rote's.
    """

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, D102
        own = super().list_commands(ctx)
        return [*own, *load_plugins("commands", own, _find_fault)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401, D102
        found = super().get_command(ctx, cmd_name)
        if found is None and cmd_name in list_plugins("commands", super().list_commands(ctx)):
            return _make_command(load_plugin("commands", cmd_name, _find_fault), cmd_name)
        return found


def _find_fault(found: object, name: str) -> str | None:
    if not callable(found):
        return "it is neither a function nor a typer app"
    _make_command(found, name)  # fails if an argument is none of typer's
    return None


def _make_command(found: Any, name: str) -> Any:  # noqa: ANN401
    if isinstance(found, typer.Typer):
        made = typer.main.get_command(found)
    else:
        alone = typer.Typer(add_completion=False, context_settings=HELP)
        alone.command(cls=Command)(found)
        made = typer.main.get_command(alone)
    made.name = name
    return made


app = make_app("rote", _ABOUT, completes=True, cls=ExtensibleGroup)
for command in (demo, train, sweep, select, suspects, clean, predict, report, probe, doctor):
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
    """Handle the options before a command."""


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
        where = "" if error.filename is None else f" {format_line(error.filename)}"
        say(f"Error: Cannot access{where or ' a file'}: {error.strerror or error}.", err=True)
        sys.exit(1)
    except MemoryError as error:
        why = f" ({format_line(error)})" if str(error) else ""
        say(f"Error: Out of memory{why}. Read fewer runs or less data at a time.", err=True)
        sys.exit(1)
    except RecursionError:
        say("Error: A file contains tables or lists that are nested too deeply.", err=True)
        sys.exit(1)


def _refuse_usage(error: Any) -> None:  # noqa: ANN401
    """Print what is wrong with the command line, and exit with code 2."""
    if type(error).__name__ == "NoArgsIsHelpError":
        error.show()
    else:
        command = "rote" if error.ctx is None else error.ctx.command_path
        say(f"Error: {describe_usage(error)} See `{command} --help`.", err=True)
    sys.exit(2)


def describe_usage(error: Any) -> str:  # noqa: ANN401
    """Describe what is wrong with a command line, in one sentence or two."""
    text = format_line(error.format_message()).rstrip(".")
    if type(error).__name__ == "NoSuchOption":
        close = sorted(error.possibilities or ())
        guess = f" Did you mean {' or '.join(close)}?" if close else ""
        return f"Unknown option {format_line(error.option_name)}.{guess}"
    unknown = re.match(r"No such command '(?P<name>[^']*)'\.?(?P<guess>.*)", text)
    if unknown:
        return f"Unknown command {unknown['name']}.{unknown['guess']}".replace("'", "")
    return text if text.endswith("?") else f"{text}."


def _show_warnings_plainly() -> None:
    """Print rote's own warnings without the line of code that raised them."""
    usual = warnings.formatwarning

    def format_warning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        if issubclass(category, RoteWarning):
            return f"Warning: {spell_out_controls(message)}\n"
        return usual(message, category, filename, lineno, line)

    warnings.formatwarning = format_warning
