"""The outcome of every rule, and the verdict that leads the page."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection import DEFAULT_RULE, RULES, About, choose, describe_rule, find_rule

if TYPE_CHECKING:
    from rote.selection import Candidates, Pick, Rule, Selection

PAIR = ("staged", "regions")
"""The two region rules, the robust one and the paper's, which are shown together."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of one rule on these runs.

    Attributes:
        rule: its name.
        about: its description.
        needs_truth: whether it uses values that require clean labels.
        needs_zeta: whether it uses ζ.
        selection: its selection; None if it does not apply.
        reason: why it does not apply; None if it does.
    """

    rule: str
    about: About
    needs_truth: bool
    needs_zeta: bool
    selection: Selection | None
    reason: str | None

    @property
    def pick(self) -> Pick | None:
        """The selected checkpoint."""
        return None if self.selection is None else self.selection.pick

    @property
    def test_accuracy(self) -> float | None:
        """The test accuracy of the selected checkpoint, if known."""
        return None if self.pick is None else self.pick.test_accuracy


@dataclass(frozen=True)
class PageVerdict:
    """The verdict of the page.

    Attributes:
        selection: of the leading rule.
        about: the description of that rule.
        others: if the leading rule has regions, the outcomes of the other region rules.
        best: the best test accuracy of all checkpoints; None if unknown.
        better: rules whose selected checkpoint has a higher test accuracy, best first.
    """

    selection: Selection
    about: About
    others: tuple[Outcome, ...]
    best: float | None
    better: tuple[Outcome, ...]

    def agrees(self, other: Outcome) -> bool:
        """Return whether another rule selects the same checkpoint."""
        pick = self.selection.pick
        return other.pick is not None and (other.pick.run, other.pick.step) == (pick.run, pick.step)


def run_leading_rule(candidates: Candidates, rule: Rule | None = None) -> Outcome:
    """Run the requested rule, or the default rule.

    A rule that delegates, as the default does, is listed under the name of the other rule.
    """
    return _run_rule(find_rule(DEFAULT_RULE) if rule is None else rule, candidates)


def run_rules(
    candidates: Candidates, leading: Outcome, *, is_asked: bool = True
) -> dict[str, Outcome]:
    """Run every rule; return outcomes by name, the leading one first.

    Args:
        candidates: all checkpoints.
        leading: the outcome of the leading rule.
        is_asked: whether the user requested it; otherwise, if it does not apply, the first rule
            that does becomes the leading one.
    """
    found = {leading.rule: leading}
    for name, kind in RULES.items():
        if name not in (leading.rule, DEFAULT_RULE):
            found[name] = _run_rule(kind, candidates)
    if is_asked or leading.selection is not None:
        return found
    able = [one for one in found.values() if one.selection is not None and not one.needs_truth]
    return {able[0].rule: able[0]} | found if able else found


def form_verdict(outcomes: Mapping[str, Outcome], candidates: Candidates) -> PageVerdict:
    """Form the verdict from the outcomes of all rules, the leading one first.

    Raises:
        InputError: if the leading rule does not apply to these runs.
    """
    leading = next(iter(outcomes.values()))
    if leading.selection is None:
        raise InputError(leading.reason or "")
    best = float(np.fmax.reduce(candidates.values("test_accuracy")))
    pair = PAIR if leading.selection.has_regions else ()
    return PageVerdict(
        leading.selection,
        leading.about,
        tuple(outcomes[name] for name in pair if name != leading.rule),
        None if np.isnan(best) else best,
        _find_better(outcomes, leading),
    )


def _run_rule(given: Rule | type[Any], candidates: Candidates) -> Outcome:
    selection, reason = None, None
    known = describe_rule(given)
    needs_truth = any(candidates.describe(need).kind == "truth" for need in given.needs)
    try:
        rule: Rule = given() if isinstance(given, type) else given
        selection = choose(rule, candidates)
    except InputError as error:
        reason = str(error)
    name = given.name if selection is None else selection.rule
    known = describe_rule(RULES[name]) if name != given.name and name in RULES else known
    return Outcome(name, known, needs_truth, "zeta" in given.needs, selection, reason)


def _find_better(outcomes: Mapping[str, Outcome], leading: Outcome) -> tuple[Outcome, ...]:
    mine = leading.test_accuracy
    if mine is None:
        return ()
    found = [
        outcome
        for outcome in outcomes.values()
        if not outcome.needs_truth and (outcome.test_accuracy or 0.0) > mine
    ]
    return tuple(sorted(found, key=lambda outcome: -(outcome.test_accuracy or 0.0)))
