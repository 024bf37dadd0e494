"""What every rule would keep, which of them speaks first, and what to be careful about."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rote.errors import InputError
from rote.selection import DEFAULT_RULE, RULES, About, about, choose

if TYPE_CHECKING:
    from rote.selection import Candidates, Pick, Rule, Selection

PAIR = ("staged", "regions")
"""The robust rule, and the paper's: both are always shown."""

_FOR_ONE_RUN = "before-rise"


@dataclass(frozen=True)
class Outcome:
    """One rule on these runs.

    Attributes:
        rule: its name.
        about: what it says about itself.
        needs_truth: whether it goes by what only those know who know which labels are right.
        selection: what it chose; None if it cannot.
        reason: why it cannot; None if it can.
    """

    rule: str
    about: About
    needs_truth: bool
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
        others: the rest of the pair of rules, whether they agree or not, or cannot say.
        best: the best test accuracy of all checkpoints; None without a truth.
        better: rules whose pick does better on the known truth, best first.
    """

    selection: Selection
    about: About
    others: tuple[Outcome, ...]
    best: float | None
    better: tuple[Outcome, ...]

    @property
    def dividing(self) -> str:
        """The rule whose thresholds the lines show: the leading one, or the paper's."""
        return self.selection.rule if self.about.divides_by else DEFAULT_RULE

    def agrees(self, other: Outcome) -> bool:
        """Whether another rule keeps the same checkpoint."""
        pick = self.selection.pick
        return other.pick is not None and (other.pick.run, other.pick.step) == (pick.run, pick.step)


def outcomes_of(candidates: Candidates, asked: Rule | None = None) -> dict[str, Outcome]:
    """Every rule, by name.

    Args:
        candidates: all checkpoints.
        asked: one more rule, such as one of the user's own.
    """
    rules: dict[str, Rule] = {name: rule() for name, rule in RULES.items()}
    rules |= {} if asked is None else {asked.name: asked}
    return {name: _outcome(rule, candidates) for name, rule in rules.items()}


def verdict_of(
    outcomes: Mapping[str, Outcome], candidates: Candidates, rule: str | None
) -> Verdict:
    """The verdict, from what every rule says.

    Args:
        outcomes: by the name of the rule.
        candidates: all checkpoints.
        rule: which one leads; by default ``staged``, or ``before-rise`` for a single run, or the
            first that can say anything.

    Raises:
        InputError: if it cannot say anything about these runs.
    """
    leading = _leading(outcomes, candidates) if rule is None else outcomes[rule]
    if leading.selection is None:
        raise InputError(leading.reason or "")
    best = float(np.fmax.reduce(candidates.values("test_accuracy")))
    return Verdict(
        leading.selection,
        leading.about,
        tuple(outcomes[name] for name in PAIR if name != leading.rule),
        None if np.isnan(best) else best,
        _better(outcomes, leading),
    )


def _outcome(rule: Rule, candidates: Candidates) -> Outcome:
    needs_truth = any(candidates.describe(need).kind == "truth" for need in rule.needs)
    selection, reason = None, None
    try:
        selection = choose(rule, candidates)
    except InputError as error:
        reason = str(error)
    return Outcome(rule.name, about(rule), needs_truth, selection, reason)


def _leading(outcomes: Mapping[str, Outcome], candidates: Candidates) -> Outcome:
    others = (name for name, outcome in outcomes.items() if not outcome.needs_truth)
    order = [_FOR_ONE_RUN] if _usable_runs(candidates) == 1 else []
    order += [*PAIR, *others]
    able = [outcomes[name] for name in order if outcomes[name].selection is not None]
    return able[0] if able else outcomes[order[0]]


def _usable_runs(candidates: Candidates) -> int:
    """How many runs a rule that compares them can compare: they have ζ and training accuracy.

    Where no run has both, those with ζ.
    """
    has_both = candidates.known("zeta", "train_accuracy")
    return candidates.take(has_both if has_both.any() else candidates.known("zeta")).num_runs


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
