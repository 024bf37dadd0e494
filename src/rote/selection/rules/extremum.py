"""The highest or lowest value of any column: ``max:COLUMN`` and ``min:COLUMN``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from rote.errors import InputError
from rote.formatting import format_with_unit
from rote.selection.rule import Decision

if TYPE_CHECKING:
    from rote.records import Better, Column
    from rote.selection.candidates import Candidates

_DIRECTIONS: dict[str, Better] = {"max": "higher", "min": "lower"}


@dataclass(frozen=True)
class Extremum:
    """The highest (max) or lowest (min) value of any recorded column.

    Attributes:
        direction: ``max`` or ``min``.
        column: the name of the column; ``zeta`` is the ζ that is selected by.

    Raises:
        InputError: if no column is named.
    """

    direction: str
    column: str
    prefixes: ClassVar[tuple[str, ...]] = tuple(_DIRECTIONS)
    compares_runs: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not self.column:
            raise InputError(
                f"Expected `rule` to name a column, such as {self.direction}:train_accuracy, got "
                f"{self.name!r}."
            )

    @property
    def name(self) -> str:
        """The name with which the rule was requested."""
        return f"{self.direction}:{self.column}"

    @property
    def needs(self) -> tuple[str, ...]:
        """The column."""
        return (self.column,)

    def judge(self, candidates: Candidates) -> Decision:
        """Select the extreme value."""
        values = candidates.values(self.column)
        pick = candidates.best(values if self.direction == "max" else -values)
        column = candidates.describe(self.column)
        reason = (
            f"The selected checkpoint, {candidates.name(pick)}, "
            f"has the {_DIRECTIONS[self.direction][:-2]}est "
            f"{_name_column(column)} of {len(candidates)} checkpoints: "
            f"{format_with_unit(values[pick], column)}."
        )
        return Decision(pick, (reason,), warnings=tuple(self._list_warnings(column)))

    def _list_warnings(self, column: Column) -> Iterator[str]:
        if column.better not in (None, _DIRECTIONS[self.direction]):
            other = next(name for name in _DIRECTIONS if name != self.direction)
            yield (
                f"A better checkpoint has a {column.better} `{column.name}`: `{self.name}` keeps "
                f"the worst. Use `{other}:{self.column}`."
            )
        if column.kind == "truth":
            yield (
                f"`{column.name}` needs to know which labels are correct: use it as a bound to "
                "compare with, not to select."
            )


def _name_column(column: Column) -> str:
    return column.label if column.label == column.name else f"{column.label} (`{column.name}`)"
