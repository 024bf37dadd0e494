"""Terminal output: safe text, JSON, lists, sizes and progress bars."""

import codecs
import json
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from rich.progress import Progress

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
_PLAIN = {
    "ζ": "zeta",
    "S̃": "S~",
    "̃": "~",
    "–": "-",
    "−": "-",
    "—": "-",
    "→": "->",
    "…": "...",
    "×": "x",
    "·": "*",
    "≤": "<=",
    "≥": ">=",
    "√": "sqrt ",
    "‖": "||",
    "’": "'",
    "“": '"',
    "”": '"',
    "η": "eta",
    "κ": "kappa",
    "δ": "delta",
    "λ": "lambda",
    "μ": "mu",
    "²": "^2",
}
"""Replacements for terminals that only support ASCII."""

_HANDLER = "rote.plain"


def say(text: str, *, err: bool = False) -> None:
    """Print a line, to stderr with ``err``."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{spell_out_controls(text)}\n")
    stream.flush()


def say_json(contents: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON, which has no NaN."""
    say(json.dumps(contents, indent=indent, allow_nan=False, default=str))


def spell_out_controls(text: object) -> str:
    r"""Return text with its control characters spelled out.

    Example:
        >>> spell_out_controls("run\x1b[2J")
        'run\\x1b[2J'
    """
    return _STEERING.sub(lambda found: ascii(found.group())[1:-1], str(text))


def format_line(text: object) -> str:
    r"""Return printable text on one line, so that a name cannot imitate other output.

    Example:
        >>> format_line("a\nError: b")
        'a\\nError: b'
    """
    return spell_out_controls(text).replace("\n", "\\n").replace("\t", "\\t")


def list_out(rows: Mapping[str, str]) -> None:
    """Print names with their descriptions, wrapped in a terminal, one per line in a pipe."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    width = max(map(len, rows))
    if not console.is_terminal:
        say("\n".join(f"{name:{width}}  {what}" for name, what in rows.items()))
        return
    table = Table.grid(padding=(0, 2))
    for name, what in rows.items():
        table.add_row(Text(name, no_wrap=True), Text(what))
    console.print(table)


@contextmanager
def name_new_folders(*folders: Path | None) -> Iterator[None]:
    """Print which folders a command created, since a typo creates folders as well."""
    paths = [(*reversed(folder.parents), folder) for folder in folders if folder is not None]
    absent = [next((one for one in path if not one.exists()), None) for path in paths]
    yield
    for folder in dict.fromkeys(absent):
        if folder is not None and folder.is_dir():
            say(f"Created folder {format_line(folder)}", err=True)


def prepare_streams() -> None:
    """Replace characters that the terminal or pipe cannot encode, instead of failing."""
    codecs.register_error(_HANDLER, _replace_letters)
    for stream in (sys.stdout, sys.stderr):
        _prepare(stream)


def _prepare(stream: TextIO) -> None:
    with suppress(AttributeError, ValueError):  # not a real stream, as in tests
        stream.reconfigure(errors=_HANDLER)  # type: ignore[attr-defined]


def _replace_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, ascii(letter)[1:-1]) for letter in found), error.end


def make_progress_bar(before: str, after: str = "", *, quiet: bool) -> "Progress":
    """Make a progress bar with counts and the time left, between two texts."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    return Progress(
        TextColumn(before), *columns, *([TextColumn(after)] if after else []), disable=quiet
    )


def format_bytes(number: float) -> str:
    """Format a number of bytes.

    Example:
        >>> format_bytes(950), format_bytes(23_456), format_bytes(1_234_567)
        ('950 B', '23.5 kB', '1.23 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if number < 1000:
            return f"{number:.3g} {unit}"
        number /= 1000
    return f"{number:.3g} TB"
