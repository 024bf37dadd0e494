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
    text = _read_text(Path(path))
    try:
        return tomllib.loads(text)
    except ValueError as error:
        raise InputError(f"{path} is not valid TOML: {error}.") from error
    except RecursionError as error:
        raise InputError(f"{path} nests tables or lists too deeply to be read.") from error


@contextmanager
def locate_errors(path: str | Path) -> Iterator[None]:
    """Tell where in a spec file the field stands that an error inside the block is about.

    Raises:
        InputError: in place of a ``FieldError``, with file and line before it.
    """
    try:
        yield
    except FieldError as error:
        line = find_line(_read_text(Path(path)), error.field)
        place = str(path) if line is None else f"{path}, line {line}"
        raise InputError(f"{place}: {error}") from error


def find_line(text: str, field: str) -> int | None:
    r"""Return the line of a TOML text on which a field, or else the nearest table, begins.

    Example:
        >>> find_line("epochs = 3\n[optimizer]\nname = 'sgd'\nlr = -1", "optimizer.lr")
        4
    """
    parts = tuple(field.split("."))
    best, found = 0, None
    for line, path, values in _iterate_statements(text):
        size = _count_shared(parts, path, values)
        if size > best:
            best, found = size, line
    return found


def _read_text(file: Path) -> str:
    """Read the text of a file; a pipe or a device is not opened: reading it may never end.

    Raises:
        InputError: if it cannot be read, or is no file of a size that people write.
    """
    try:
        facts = file.stat()
        if not stat.S_ISREG(facts.st_mode):
            raise InputError(f"{file} is not a regular file. Pass the path of a TOML file.")
        if facts.st_size > _LARGEST:
            raise InputError(
                f"{file} is too large for a TOML file: {facts.st_size:,} bytes, at most "
                f"{_LARGEST:,} are read."
            )
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise InputError(f"File not found: {file}. Check the path.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"Cannot read {file}: {error}.") from error


def _iterate_statements(text: str) -> Iterator[tuple[int, tuple[str, ...], Mapping[str, Any]]]:
    """Yield every header and every entry: its line, the table it stands in, and what it says."""
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
            table = _read_header(values)
            yield begins, table, {}
        elif values:
            yield begins, table, values
        begins = line


def _read_header(header: object) -> tuple[str, ...]:
    """Return the dotted name of a header, which is read as tables with one entry each."""
    path: tuple[str, ...] = ()
    while header:
        if isinstance(header, list):
            header = header[0]
        else:
            assert isinstance(header, dict)
            name, header = next(iter(header.items()))
            path = (*path, name)
    return path


def _count_shared(parts: tuple[str, ...], path: tuple[str, ...], values: object) -> int:
    """Return how many parts of a field a statement reaches; 0 if it is about another field."""
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
    return "\n".join(_write_table(values, ())).lstrip("\n") + "\n"


def _write_table(values: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    if path and (plain or len(plain) == len(values)):
        yield ""
        yield f"[{'.'.join(map(_write_key, path))}]"
    for name, value in plain.items():
        yield f"{_write_key(name)} = {_write_value(value)}"
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _write_table(value, (*path, name))


def _write_key(name: str) -> str:
    bare = name.isascii() and name.replace("-", "_").replace("_", "a").isalnum()
    return name if bare else _write_value(name)


def _write_value(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f'"{"".join(map(_escape, value))}"'
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_write_value, value))}]"
    return repr(value)


def _escape(character: str) -> str:
    if character in '"\\' or ord(character) < 0x20 or ord(character) == 0x7F:
        return f"\\u{ord(character):04x}"
    return character
