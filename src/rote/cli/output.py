"""What reaches the terminal: text that every terminal can take, and nothing that steers one."""

import codecs
import re
import sys
from contextlib import suppress
from typing import TextIO

_STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
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
"""What to write where a terminal knows ASCII only."""

_HANDLER = "rote.plain"


def say(text: str, *, err: bool = False) -> None:
    """Print a line, to stderr with ``err``."""
    stream = sys.stderr if err else sys.stdout
    stream.write(f"{printable(text)}\n")
    stream.flush()


def printable(text: object) -> str:
    r"""Text whose control characters are written out, not obeyed.

    Example:
        >>> printable("run\x1b[2J")
        'run\\x1b[2J'
    """
    return _STEERING.sub(lambda found: ascii(found.group())[1:-1], str(text))


def one_line(text: object) -> str:
    r"""The same on one line: a name cannot look like a line of ours.

    Example:
        >>> one_line("a\nError: b")
        'a\\nError: b'
    """
    return printable(text).replace("\n", "\\n").replace("\t", "\\t")


def prepare_streams() -> None:
    """Let nothing that is printed fail because a terminal, or a pipe, lacks a letter."""
    codecs.register_error(_HANDLER, _in_plain_letters)
    for stream in (sys.stdout, sys.stderr):
        _prepare(stream)


def _prepare(stream: TextIO) -> None:
    with suppress(AttributeError, ValueError):  # no file of its own, as in a test
        stream.reconfigure(errors=_HANDLER)  # type: ignore[attr-defined]


def _in_plain_letters(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    found = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, ascii(letter)[1:-1]) for letter in found), error.end
