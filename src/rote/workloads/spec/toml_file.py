"""TOML in and out, and the line on which a field stands."""

import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.workloads.spec.field_error import FieldError


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: if it cannot be read, naming the line of a mistake in the syntax.
    """
    try:
        return tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"Expected {path} to be a readable TOML file, got: {error}.") from error
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"Expected {path} to be TOML, got: {error}.") from error


@contextmanager
def located(path: str | Path) -> Iterator[None]:
    """Tell where in a spec file the field stands that an error inside the block is about.

    Raises:
        InputError: in place of a ``FieldError``, with file and line before it.
    """
    try:
        yield
    except FieldError as error:
        line = line_of(Path(path).read_text(encoding="utf-8"), error.field)
        place = str(path) if line is None else f"{path}, line {line}"
        raise InputError(f"{place}: {error}") from error


def line_of(text: str, field: str) -> int | None:
    r"""The line of a TOML text on which a field, or else the nearest table around it, begins.

    Example:
        >>> line_of("epochs = 3\n[optimizer]\nname = 'sgd'\nlr = -1", "optimizer.lr")
        4
    """
    parts = field.split(".")
    found = (_first_line(text.split("\n"), parts[:size]) for size in range(len(parts), 0, -1))
    return next((line for line in found if line is not None), None)


def _first_line(lines: list[str], parts: list[str]) -> int | None:
    """Where the shortest readable beginning of the text that holds the field has its last part."""
    start = 1
    for end in range(1, len(lines) + 1):
        try:
            values: object = tomllib.loads("\n".join(lines[:end]))
        except tomllib.TOMLDecodeError:
            continue  # inside a list or a text of several lines
        for part in parts:
            values = values.get(part) if isinstance(values, Mapping) else None
        if values is not None:
            return start
        start = end + 1
    return None


def write_toml(values: Mapping[str, Any]) -> str:
    """Nested tables as TOML; ``tomllib.loads`` gives the same values back."""
    return "\n".join(_table(values, ())).lstrip("\n") + "\n"


def _table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    if path and (plain or len(plain) == len(values)):
        yield ""
        yield f"[{'.'.join(map(_key, path))}]"
    for name, value in plain.items():
        yield f"{_key(name)} = {_value(value)}"
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _table(value, (*path, name))


def _key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "_").replace("_", "a").isalnum()
    return name if bare else _value(name)


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_character, value))}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return repr(value)


def _character(character: str) -> str:
    if character in '"\\' or ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
