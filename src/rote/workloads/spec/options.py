"""A table of plain values that cannot change, and so can be part of a hashable record."""

from collections.abc import Iterator, Mapping
from typing import TypeAlias

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


def _plain(value: object) -> Plain:
    if isinstance(value, list | tuple):
        return tuple(_plain(entry) for entry in value)
    if isinstance(value, str | bool | int | float):
        return value
    raise TypeError(f"{value!r} is no string, number, boolean or list of them")
