"""How every command behaves: `-h`, flags and arguments without a type, and what Ctrl-C says."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rote.cli.output import say

HELP = {"help_option_names": ["-h", "--help"]}
"""For `typer.Typer(context_settings=…)`; its commands inherit it."""

INTERRUPTED = 130
"""The exit code that shells know of a program that Ctrl-C ended."""


class Command(TyperCommand):
    """A command whose help writes no type behind flags, which take no value, and arguments."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        return _untyped(super().get_params(ctx))


class Group(TyperGroup):
    """The same for a command with commands; nothing in it ends in silence."""

    def get_params(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        return _untyped(super().get_params(ctx))

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401, D102
        with stoppable("No file is half written. The same command begins again."):
            return super().invoke(ctx)


def new_app(
    name: str, about: str, *, completes: bool = False, cls: type[Group] = Group
) -> typer.Typer:
    """A command with commands; it can teach a shell to complete them."""
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
def stoppable(kept: str) -> Iterator[None]:
    """Let Ctrl-C end the command with a sentence about what is kept, and how to go on.

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
    """Whether Ctrl-C is at the bottom of it: torch makes an error of one that meets its writing."""
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__context__
    return error is not None


def _untyped(parameters: Any) -> Any:  # noqa: ANN401
    for one in parameters:
        if getattr(one, "is_flag", False):
            one.metavar = ""
        elif one.param_type_name == "argument":
            one.display_type_rich = _no_type  # typer would write <list[str]>
    return parameters


def _no_type(ctx: Any) -> None:  # noqa: ANN401
    """Arguments are told by their help."""
