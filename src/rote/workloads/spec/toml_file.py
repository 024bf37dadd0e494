"""TOML in and out, and the line on which a field stands."""

import re
import stat
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.workloads.spec.section import FieldError

_LARGEST = 10_000_000  # bytes
# What a new line may stand in, brackets, and new lines: enough to tell where a statement ends.
_TOKENS = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|\'\'\'.*?\'\'\'|"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'|#[^\n]*|[\[\]{}]|\n',
    re.DOTALL,
)


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        InputError: if it cannot be read, naming the line of a mistake in the syntax.
    """
    text = _text_of(Path(path))
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"Expected {path} to be TOML, got: {error}.") from error
    except RecursionError as error:
        raise InputError(
            f"Expected {path} to be TOML, got brackets inside of brackets, too deep to be read."
        ) from error


@contextmanager
def located(path: str | Path) -> Iterator[None]:
    """Tell where in a spec file the field stands that an error inside the block is about.

    Raises:
        InputError: in place of a ``FieldError``, with file and line before it.
    """
    try:
        yield
    except FieldError as error:
        line = line_of(_text_of(Path(path)), error.field)
        place = str(path) if line is None else f"{path}, line {line}"
        raise InputError(f"{place}: {error}") from error


def line_of(text: str, field: str) -> int | None:
    r"""The line of a TOML text on which a field, or else the nearest table around it, begins.

    Example:
        >>> line_of("epochs = 3\n[optimizer]\nname = 'sgd'\nlr = -1", "optimizer.lr")
        4
    """
    parts = tuple(field.split("."))
    best, found = 0, None
    for line, path, values in _statements(text):
        size = _shared(parts, path, values)
        if size > best:
            best, found = size, line
    return found


def _text_of(file: Path) -> str:
    """The text of a file; a pipe or a device is not even opened: it may never end.

    Raises:
        InputError: if it cannot be read, or is no file of a size that people write.
    """
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise InputError(f"Expected {file} to be a TOML file, got something that is no file.")
        if facts.st_size > _LARGEST:
            raise InputError(
                f"Expected {file} to be a TOML file of at most {_LARGEST:,} bytes, got "
                f"{facts.st_size:,}."
            )
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(
            f"Expected {file} to be an existing file, got none there. Check the path."
        ) from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Expected {file} to be a readable TOML file, got: {error}.") from error


def _statements(text: str) -> Iterator[tuple[int, tuple[str, ...], Mapping[str, Any]]]:
    """Every header and every entry: its line, the table it stands in, and what it says."""
    start, line, begins, depth = 0, 1, 1, 0
    table: tuple[str, ...] = ()
    for token in _TOKENS.finditer(text + "\n"):
        what = token.group()
        depth += (what in "[{") - (what in "]}")
        line += what.count("\n")
        if what != "\n" or depth > 0:
            continue
        statement = text[start : token.start()]
        start, depth = token.end(), 0
        try:
            values = tomllib.loads(statement)
        except (ValueError, RecursionError):
            values = {}
        if statement.lstrip().startswith("["):
            table = _path_of(values)
            yield begins, table, {}
        elif values:
            yield begins, table, values
        begins = line


def _path_of(header: object) -> tuple[str, ...]:
    """The dotted name of a header, from what it is read as: tables with one entry each."""
    path: tuple[str, ...] = ()
    while header:
        if isinstance(header, list):
            header = header[0]
        else:
            assert isinstance(header, dict)
            name, header = next(iter(header.items()))
            path = (*path, name)
    return path


def _shared(parts: tuple[str, ...], path: tuple[str, ...], values: object) -> int:
    """How many parts of a field a statement reaches; 0 if it is about another field."""
    common = parts[: len(path)]
    if path[: len(common)] != common:
        return next((i for i, part in enumerate(common) if path[i] != part), 0)
    size = len(common)
    for part in parts[size:]:
        if not isinstance(values, Mapping) or part not in values:
            break
        values, size = values[part], size + 1
    return size


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
