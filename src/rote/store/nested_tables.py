"""Tables inside of tables, as in TOML and JSON."""

from collections.abc import Iterator, Mapping
from typing import Any


def flatten_tables(
    table: Mapping[str, Any], *, stop: tuple[str, ...] = ()
) -> Iterator[tuple[str, Any]]:
    """Yield every entry of nested tables that is no table, or an empty one, by its dotted name.

    Args:
        table: the tables.
        stop: a table with one of these names in it also counts as an entry.

    Example:
        >>> dict(flatten_tables({"optimizer": {"name": "sgd", "lr": 0.1}, "options": {}}))
        {'optimizer.name': 'sgd', 'optimizer.lr': 0.1, 'options': {}}
    """
    for name, value in table.items():
        if isinstance(value, Mapping) and value and not any(word in value for word in stop):
            for field, entry in flatten_tables(value, stop=stop):
                yield f"{name}.{field}", entry
        else:
            yield name, value
