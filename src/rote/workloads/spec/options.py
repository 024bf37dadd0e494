"""A table of plain values that cannot change, and so can be part of a hashable record."""

import math
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from rote.errors import shown

_DEEPEST = 20  # lists inside of lists

Plain: TypeAlias = "str | int | float | bool | tuple[Plain, ...]"


class Options(Mapping[str, Plain]):
    """Names and plain values, sorted by name.

    Args:
        entries: the values; lists become tuples.

    Raises:
        TypeError: if a name is no string, or a value is not plain.

    Example:
        >>> Options({"width": 64, "depth": 2})
        Options({'depth': 2, 'width': 64})
    """

    def __init__(self, entries: Mapping[str, object] | None = None) -> None:
        given = dict(entries or {})
        if not all(isinstance(name, str) for name in given):
            raise TypeError("names of options are strings")
        if not all(map(is_storable, given)):
            raise TypeError("names of options are text that a file can hold")
        self._entries = {name: _plain(given[name]) for name in sorted(given)}

    def __getitem__(self, name: str) -> Plain:
        return self._entries[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(tuple(self._entries.items()))

    def __repr__(self) -> str:
        return f"Options({self._entries})"


def _plain(value: object, depth: int = 0) -> Plain:
    if isinstance(value, list | tuple) and depth < _DEEPEST:
        return tuple(_plain(entry, depth + 1) for entry in value)
    if isinstance(value, str | bool | int | float) and is_storable(value):
        return value
    raise TypeError(f"{shown(value)} is no string, finite number, boolean or list of them")


def is_storable(value: object) -> bool:
    """Whether TOML and JSON can hold a value: no number beyond 64 bits, no NUL, no half letter."""
    if isinstance(value, int):
        return -(2**63) <= value < 2**63
    if isinstance(value, str):
        return "\0" not in value and (
            value.isascii() or not any("\ud800" <= letter <= "\udfff" for letter in value)
        )
    return not isinstance(value, float) or math.isfinite(value)
