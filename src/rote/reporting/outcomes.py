"""What every rule would keep, or why it cannot say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.errors import InputError
from rote.selection import RULES, select

if TYPE_CHECKING:
    from rote.selection import Pick, Selection
    from rote.store import RunTable


@dataclass(frozen=True)
class Outcome:
    """One rule on these runs.

    Attributes:
        rule: its name.
        explanation: what it goes by, in a sentence.
        selection: what it chose; None if it cannot.
        reason: why it cannot; None if it can.
    """

    rule: str
    explanation: str
    selection: Selection | None
    reason: str | None

    @property
    def pick(self) -> Pick | None:
        """The checkpoint that it would keep."""
        return None if self.selection is None else self.selection.pick

    @property
    def test_accuracy(self) -> float | None:
        """Of the pick, if it is known."""
        return None if self.pick is None else self.pick.test_accuracy


def outcomes_of(table: RunTable, column: str) -> dict[str, Outcome]:
    """Every rule, by name.

    Args:
        table: the runs.
        column: which ζ the rules go by.
    """
    return {name: _outcome(table, name, column) for name in RULES}


def _outcome(table: RunTable, rule: str, column: str) -> Outcome:
    explanation = (RULES[rule].__doc__ or "").strip().splitlines()[0]
    try:
        return Outcome(rule, explanation, select(table, rule, column=column), None)
    except InputError as error:
        return Outcome(rule, explanation, None, str(error))
