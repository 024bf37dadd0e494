"""The verdict in words: which checkpoint to keep, why, and what to be careful about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rote.errors import InputError, did_you_mean
from rote.selection import RULES

if TYPE_CHECKING:
    from rote.reporting.outcomes import Outcome
    from rote.selection import Selection

PAIR = ("staged", "regions")
"""The robust rule, and the paper's: both are always shown."""

DIVIDING = ("regions", "staged", "percentile")
"""The rules that divide the regions by thresholds of their own for ζ and training accuracy."""

_FOR_ONE_RUN = "before-rise"
_NOT_TO_USE = ("oracle",)


@dataclass(frozen=True)
class Verdict:
    """What the page says first.

    Attributes:
        selection: what to keep, by the leading rule.
        others: the rest of the pair of rules, whether they agree or not, or cannot say.
        best: the best test accuracy of all checkpoints; None without a truth.
        better: rules whose pick does better on the known truth, best first.
    """

    selection: Selection
    others: tuple[Outcome, ...]
    best: float | None
    better: tuple[Outcome, ...]

    @property
    def dividing(self) -> str:
        """The rule whose thresholds the lines show: the leading one, or the paper's."""
        rule = self.selection.rule
        return rule if rule in (*DIVIDING, "filter") else "regions"

    def agrees(self, other: Outcome) -> bool:
        """Whether another rule keeps the same checkpoint."""
        pick = self.selection.pick
        return other.pick is not None and (other.pick.run, other.pick.step) == (pick.run, pick.step)


def verdict_of(outcomes: Mapping[str, Outcome], runs: int, rule: str | None) -> Verdict:
    """The verdict, from what every rule says.

    Args:
        outcomes: by the name of the rule.
        runs: how many there are to compare.
        rule: which one leads; by default ``staged``, or ``before-rise`` for a single run, or the
            first that can say anything.

    Raises:
        InputError: if there is no such rule, or it cannot say anything about these runs.
    """
    leading = _leading(outcomes, runs, rule)
    if leading.selection is None:
        raise InputError(leading.reason or "")
    oracle = outcomes.get("oracle")
    return Verdict(
        leading.selection,
        tuple(outcomes[name] for name in PAIR if name != leading.rule),
        None if oracle is None else oracle.test_accuracy,
        _better(outcomes, leading),
    )


def _leading(outcomes: Mapping[str, Outcome], runs: int, rule: str | None) -> Outcome:
    if rule is not None:
        if rule not in outcomes:
            raise InputError(
                f"Expected `rule` to be one of {', '.join(RULES)}, got {rule!r}."
                f"{did_you_mean(rule, RULES)}"
            )
        return outcomes[rule]
    usable = [name for name in outcomes if name not in _NOT_TO_USE]
    order = (_FOR_ONE_RUN, *PAIR, *usable) if runs == 1 else (*PAIR, *usable)
    able = [outcomes[name] for name in order if outcomes[name].selection is not None]
    return able[0] if able else outcomes[order[0]]


def _better(outcomes: Mapping[str, Outcome], leading: Outcome) -> tuple[Outcome, ...]:
    mine = leading.test_accuracy
    if mine is None:
        return ()
    found = [
        outcome
        for name, outcome in outcomes.items()
        if name not in _NOT_TO_USE and (outcome.test_accuracy or 0.0) > mine
    ]
    return tuple(sorted(found, key=lambda outcome: -(outcome.test_accuracy or 0.0)))
