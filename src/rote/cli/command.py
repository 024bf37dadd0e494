"""The behavior of every command: `-h`, help without types of flags, and Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rote.cli.output import say

HELP = {"help_option_names": ["-h", "--help"]}
"""For `typer.Typer(context_settings=…)`; its commands inherit it."""

INTERRUPTED = 130
"""The exit code of a program that was ended by Ctrl-C."""


class Command(TyperCommand):
    """A command whose help shows no type for flags and arguments."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        return _hide_types(super().get_params(ctx))


class CommandGroup(TyperGroup):
    """A command with subcommands, which all print a message on Ctrl-C."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        return _hide_types(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        with announce_interruption(
            "No file was left incomplete. Run the same command again to start over."
        ):
            return super().invoke(ctx)


def make_app(
    name: str, about: str, *, completes: bool = False, cls: type[CommandGroup] = CommandGroup
) -> typer.Typer:
    """Make a command with subcommands, optionally with shell completion."""
    return typer.Typer(
        name=name,
        cls=cls,
        help=about,
        no_args_is_help=True,
        add_completion=completes,
        pretty_exceptions_enable=False,
        context_settings=HELP,
    )


@contextmanager
def announce_interruption(kept: str) -> Iterator[None]:
    """Print what is kept and how to resume if Ctrl-C ends the command.

    Raises:
        typer.Exit: with the code of an interrupted program.
    """
    try:
        yield
    except typer.Exit:
        raise
    except (KeyboardInterrupt, RuntimeError) as error:
        if not _is_interruption(error):
            raise
        say(f"Stopped. {kept}", err=True)
        raise typer.Exit(INTERRUPTED) from None


def _is_interruption(error: BaseException | None) -> bool:
    """Return whether Ctrl-C is the cause: torch turns it into an error while it writes a file."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _hide_types(parameters: Any) -> Any:  # noqa: ANN401
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
        elif one.param_type_name == "argument":
            one.display_type_rich = _hide_type  # typer would show <list[str]>
    return parameters


def _hide_type(ctx: Any) -> None:  # noqa: ANN401
    """Return no type, since the help describes arguments."""
