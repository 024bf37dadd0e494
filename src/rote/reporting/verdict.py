"""What every rule would keep, which of them speaks first, and what to be careful about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection import DEFAULT_RULE, RULES, About, about, choose, find_rule

if TYPE_CHECKING:
    from rote.selection import Candidates, Pick, Rule, Selection

PAIR = ("staged", "regions")
"""The robust rule, and the paper's: where there are regions, both are shown."""


@dataclass(frozen=True)
class Outcome:
    """One rule on these runs.

    Attributes:
        rule: its name.
        about: what it says about itself.
        needs_truth: whether it goes by what only those know who know which labels are right.
        needs_zeta: whether it goes by ζ.
        selection: what it chose; None if it cannot.
        reason: why it cannot; None if it can.
    """

    rule: str
    about: About
    needs_truth: bool
    needs_zeta: bool
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


@dataclass(frozen=True)
class Verdict:
    """What the page says first.

    Attributes:
        selection: what to keep, by the leading rule.
        about: what that rule says about itself.
        others: where the leading rule has regions, the rest of the pair, whether they agree or
            not, or cannot say.
        best: the best test accuracy of all checkpoints; None without a truth.
        better: rules whose pick does better on the known truth, best first.
    """

    selection: Selection
    about: About
    others: tuple[Outcome, ...]
    best: float | None
    better: tuple[Outcome, ...]

    def agrees(self, other: Outcome) -> bool:
        """Whether another rule keeps the same checkpoint."""
        pick = self.selection.pick
        return other.pick is not None and (other.pick.run, other.pick.step) == (pick.run, pick.step)


def leading_outcome(candidates: Candidates, rule: Rule | None = None) -> Outcome:
    """What the rule that was asked for says, or the usual one.

    One that lets another speak, as the usual one does, stands under the other's name.
    """
    return _outcome(find_rule(DEFAULT_RULE) if rule is None else rule, candidates)


def outcomes_of(
    candidates: Candidates, leading: Outcome, *, is_asked: bool = True
) -> dict[str, Outcome]:
    """Every rule, by name, the one that leads first.

    Args:
        candidates: all checkpoints.
        leading: what the rule says that leads.
        is_asked: whether somebody asked for it; otherwise, if it cannot say anything, the first
            that can leads.
    """
    found = {leading.rule: leading}
    for name, kind in RULES.items():
        if name not in (leading.rule, DEFAULT_RULE):
            found[name] = _outcome(kind, candidates)
    if is_asked or leading.selection is not None:
        return found
    able = [one for one in found.values() if one.selection is not None and not one.needs_truth]
    return {able[0].rule: able[0]} | found if able else found


def verdict_of(outcomes: Mapping[str, Outcome], candidates: Candidates) -> Verdict:
    """The verdict, from what every rule says, the one that leads first.

    Raises:
        InputError: if that one cannot say anything about these runs.
    """
    leading = next(iter(outcomes.values()))
    if leading.selection is None:
        raise InputError(leading.reason or "")
    best = float(np.fmax.reduce(candidates.values("test_accuracy")))
    pair = PAIR if leading.selection.has_regions else ()
    return Verdict(
        leading.selection,
        leading.about,
        tuple(outcomes[name] for name in pair if name != leading.rule),
        None if np.isnan(best) else best,
        _better(outcomes, leading),
    )


def _outcome(given: Rule | type[Any], candidates: Candidates) -> Outcome:
    selection, reason = None, None
    known = about(given)
    needs_truth = any(candidates.describe(need).kind == "truth" for need in given.needs)
    try:
        rule: Rule = given() if isinstance(given, type) else given
        selection = choose(rule, candidates)
    except InputError as error:
        reason = str(error)
    name = given.name if selection is None else selection.rule
    known = about(RULES[name]) if name != given.name and name in RULES else known
    return Outcome(name, known, needs_truth, "zeta" in given.needs, selection, reason)


def _better(outcomes: Mapping[str, Outcome], leading: Outcome) -> tuple[Outcome, ...]:
    mine = leading.test_accuracy
    if mine is None:
        return ()
    found = [
        outcome
        for outcome in outcomes.values()
        if not outcome.needs_truth and (outcome.test_accuracy or 0.0) > mine
    ]
    return tuple(sorted(found, key=lambda outcome: -(outcome.test_accuracy or 0.0)))
