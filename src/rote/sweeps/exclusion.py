"""``[exclude.NAME]``: combinations that are left out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rote.store.nesting import leaves
from rote.sweeps.axis import Table, as_table
from rote.workloads import RunSpec


@dataclass(frozen=True)
class Exclusion:
    """Leaves out every run whose fields all have the given values.

    Attributes:
        name: of the table.
        conditions: the values that a field may have, by dotted name.
    """

    name: str
    conditions: tuple[tuple[str, tuple[Any, ...]], ...]

    def covers(self, values: Table) -> bool:
        """Whether a run is left out.

        Args:
            values: its spec as nested tables.
        """
        return all(_fulfils(values, field, allowed) for field, allowed in self.conditions)


def exclusions(table: object) -> tuple[Exclusion, ...]:
    """Read ``[exclude.NAME]``.

    Raises:
        FieldError: if it is no table of tables.
    """
    return tuple(
        Exclusion(
            name,
            tuple(
                (field, tuple(value) if isinstance(value, list) else (value,))
                for field, value in leaves(as_table(conditions, f"exclude.{name}"))
            ),
        )
        for name, conditions in as_table(table, "exclude").items()
    )


def _fulfils(values: Table, field: str, allowed: tuple[Any, ...]) -> bool:
    if _look_up(values, field) in allowed:
        return True
    tag = RunSpec.tag_of(field)  # `architecture = "cnn"` says the same as `architecture.name = "cnn"`
    return tag is not None and _look_up(values, f"{field}.{tag}") in allowed


def _look_up(values: Table, field: str) -> object:
    found: Any = values
    for part in field.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found
