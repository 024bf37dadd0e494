"""The strongest rule that the recorded data allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.errors import InputError
from rote.records import ZETAS
from rote.selection.groups import find_step_differences
from rote.selection.rule import Reason, explain_dropped
from rote.selection.rules.baselines import Last
from rote.selection.rules.consensus import Consensus
from rote.selection.rules.noise_rate import NoiseRate
from rote.selection.rules.noisy_validation import NoisyValidation
from rote.selection.rules.posterior import Posterior, read_neighbor_votes
from rote.selection.rules.zeta_and_accuracy import Filter, Staged
from rote.selection.votes import Ballot, find_shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats, Integers
    from rote.selection.rule import Decision, Rule

_FEWEST_LABELS = 30
_COMPETENT = 0.7
"""The agreement of the best checkpoint with the other runs' vote that consensus needs."""

_FEWEST_CHECKPOINTS = 5
"""The fewest checkpoints of one run for which dropping half of them makes sense."""

_GAUGE = "susceptibility_plain_relative"
_HOLD_OUT = "hold out samples with their given labels (inputs=, given_labels=)"


@dataclass(frozen=True)
class _Choice:
    """The rule that decides.

    Attributes:
        rule: this one.
        because: why it can, as a clause.
        improvement: what would give better evidence, as a sentence.
        column: the column of ζ that it uses, if it is not the requested one.
        decision: its decision, if it was already made.
        notes: further reasons.
    """

    rule: Rule
    because: str
    improvement: str
    column: str | None = None
    decision: Decision | None = None
    notes: tuple[Reason, ...] = ()


@dataclass(frozen=True)
class _Lack:
    """The reason why no holdout can be used.

    Attributes:
        words: the missing data, in words.
        is_weak: whether runs could vote, but are too inaccurate.
    """

    words: str
    is_weak: bool = False


@dataclass(frozen=True)
class Auto:
    """The strongest rule that the recorded data allow; it says which, and why.

    Several runs on a holdout with given labels: ``posterior``. One such run: ``posterior`` with
    nearest-neighbor votes, or ``noisy-validation`` where there are none. Several runs on a holdout
    without labels: ``consensus``, if the best checkpoint agrees with the others on at least 70 % of
    the holdout, or else ``staged`` on the relative ζ of the reference step. Without a holdout:
    ``noise-rate``, if the share of wrong labels is given; otherwise ζ and training accuracy as in
    the paper (``staged``, or ``filter`` for a single run); ``last`` where one of these is not
    recorded. Live ζ of runs with different learning rates, optimizers or schedules is replaced by
    ζ of the reference step. A checkpoint whose training accuracy dropped is never selected.

    Attributes:
        noise_rate: the share of wrong labels, if it is known.
        clean_labels: labels of the holdout that are known to be correct, −1 where there is none.

    Raises:
        InputError: if the rate is not from 0 to 1, or the labels are no row of integers.
    """

    noise_rate: float | None = None
    clean_labels: Sequence[int] | None = None
    name: ClassVar[str] = "auto"
    needs: ClassVar[tuple[str, ...]] = ()
    compares_runs: ClassVar[bool] = False
    not_resampled: ClassVar[str] = "A run that is drawn twice would vote on itself."
    order: ClassVar[int] = 50

    def __post_init__(self) -> None:
        made = Posterior(self.noise_rate, self.clean_labels)
        object.__setattr__(self, "clean_labels", made.clean_labels)

    def judge(self, candidates: Candidates) -> Decision:
        """Let the strongest rule decide."""
        choice = self._choose_by_holdout(candidates)
        if isinstance(choice, _Lack):
            choice = self._choose_by_training(candidates, choice)
        column = choice.column or candidates.column
        decision = choice.decision or _decide(choice.rule, replace(candidates, column=column))
        because = choice.because
        if any(reason.facts.get("votes_carry") is False for reason in decision.why):
            because += "; the votes do not predict these labels, so the labels alone decide"
        first = Reason(
            "rule",
            f"Rule: {choice.rule.name} (chosen by auto: {because}).",
            {"rule": choice.rule.name, "because": because},
        )
        improvement = Reason("improvement", choice.improvement)
        return replace(
            decision,
            reasons=(first, *decision.reasons, *choice.notes, improvement),
            warnings=(*decision.warnings, *self._warn_of_unused(choice.rule)),
            by=choice.rule,
            column=choice.column,
        )

    def _warn_of_unused(self, rule: Rule) -> Iterator[str]:
        """Warn of arguments that the rule cannot use."""
        for name in ("noise_rate", "clean_labels"):
            if getattr(self, name) is not None and not hasattr(rule, name):
                yield f"`{name}` was not used: rule `{rule.name}` has no use for it."

    def _choose_by_holdout(self, candidates: Candidates) -> _Choice | _Lack:
        """Choose by the predictions on a holdout, or return the missing data."""
        try:
            voters, _ = find_shared_holdout(candidates, least=1)
        except InputError:
            lacking = "no predictions on a holdout are recorded"
            if candidates.num_runs > 1:
                lacking = "no two runs have predictions on the same holdout"
            return self._choose_by_validation(candidates, lacking) or _Lack(lacking)
        ballot = Ballot.of(candidates, voters)
        posterior = Posterior(self.noise_rate, self.clean_labels)
        labels = posterior.labels(candidates, voters, ballot).known
        kind = "known" if self.clean_labels else "given"
        if labels >= _FEWEST_LABELS:
            has_neighbors = read_neighbor_votes(candidates, voters, ballot) is not None
            found = self._choose_by_labels(
                posterior, len(voters), f"{labels} {kind}", has_neighbors
            )
            if found is not None:
                return found
        lacking = f"the holdout has only {labels} {kind} labels"
        lacking = lacking if labels else "the holdout has no given labels"
        if len(voters) == 1:
            lacking = "there is one run, without nearest-neighbor votes"
        by_validation = self._choose_by_validation(candidates, lacking)
        if by_validation is not None or len(voters) == 1:
            return by_validation or _Lack(lacking)
        return _choose_by_consensus(candidates, ballot, lacking)

    def _choose_by_labels(
        self, posterior: Posterior, voters: int, labels: str, has_neighbors: bool
    ) -> _Choice | None:
        """Choose by a holdout with labels; None if there is nothing but these labels."""
        more = "clean labels" if self.clean_labels is None else "more clean labels"
        clean = f"{more} for some of it (clean_labels=, --clean-labels)"
        if voters > 1:
            because = f"{voters} runs share a holdout set with {labels} labels"
            better = f"More runs, a larger holdout, or {clean} would give better evidence."
        elif has_neighbors:
            because = f"one run with nearest-neighbor votes and {labels} holdout labels"
            better = f"A second run on the same holdout, or {clean}, would give better evidence."
        elif self.clean_labels is not None:
            because = f"one run predicts a holdout set with {labels} labels"
            better = (
                "Votes would give better evidence: other runs on the same holdout, or "
                "neighbor_votes=."
            )
        else:
            return None
        return _Choice(posterior, because, better)

    def _choose_by_validation(self, candidates: Candidates, lacking: str) -> _Choice | None:
        if not _are_usable(candidates, "validation_accuracy").any():
            return None
        because = f"noisy validation accuracy is recorded, and {lacking}"
        better = (
            "Votes would give better evidence: other runs on the same holdout, or neighbor_votes= "
            "for one run."
        )
        return _Choice(NoisyValidation(noise_rate=self.noise_rate), because, better)

    def _choose_by_training(self, candidates: Candidates, lack: _Lack) -> _Choice:
        """Choose without a holdout."""
        lacking = lack.words
        better = f"For better evidence, {_HOLD_OUT}."
        if self.noise_rate is not None and _are_usable(candidates, "train_accuracy").any():
            because = f"{lacking}, but the share of wrong labels is known"
            return _Choice(NoiseRate(self.noise_rate), because, better)
        differing = find_step_differences(candidates) if candidates.num_runs > 1 else ()
        column = _find_gauge(candidates) if lack.is_weak or differing else None
        gauged = replace(candidates, column=column or candidates.column)
        usable = int(_are_usable(gauged, "zeta", "train_accuracy").sum())
        if usable and (candidates.num_runs > 1 or usable >= _FEWEST_CHECKPOINTS):
            because = f"{lacking}; ζ and training accuracy decide"
            rule = Staged() if candidates.num_runs > 1 else Filter()
            notes = _explain_gauge(column, differing)
            return _Choice(rule, because, f"{better} noise_rate= also helps.", column, notes=notes)
        if usable:
            because = f"{lacking}, and {usable} checkpoints are too few to compare their ζ"
            return _Choice(Last(), because, f"{better} More checkpoints also help.")
        if _are_usable(candidates, "zeta").any():
            because = f"{lacking}, and ζ is uninformative without training accuracy"
            return _Choice(Last(), because, f"{better} train_accuracy= also helps.")
        return _Choice(Last(), f"{lacking}, and ζ is not recorded", better)


def _explain_gauge(column: str | None, differing: tuple[str, ...]) -> tuple[Reason, ...]:
    """Explain why ζ of the reference step is used; without it, a warning says so."""
    if column is None or not differing:
        return ()
    text = (
        f"The runs differ in {', '.join(differing)}, which changes live ζ. They are compared by ζ "
        "of the reference step."
    )
    return (Reason("threshold", text, {"column": column, "differing": list(differing)}),)


def _choose_by_consensus(candidates: Candidates, ballot: Ballot, lacking: str) -> _Choice | _Lack:
    """Choose the vote of the runs, if they are accurate enough."""
    rule = Consensus()
    decision = _decide(rule, candidates)
    assert decision.score is not None
    agreed = float(decision.score[decision.pick])
    measured = f"the best checkpoint agrees with the other runs on {agreed:.0%} of the holdout"
    if agreed < _COMPETENT:
        words = f"{lacking}, and the runs are too weak to vote ({measured})"
        return _Lack(words, is_weak=True)
    because = f"{ballot.num_runs} runs share a holdout set, {lacking}, and {measured}"
    better = "Given labels of the holdout, even noisy ones, would give better evidence."
    return _Choice(rule, because, better, decision=decision)


def _find_gauge(candidates: Candidates) -> str | None:
    """Return ζ of the reference step, relative, if all checkpoints with live ζ have it."""
    if candidates.column != ZETAS[0]:
        return None
    has_gauge = replace(candidates, column=_GAUGE).known("zeta")
    return _GAUGE if has_gauge.any() and (has_gauge >= candidates.known("zeta")).all() else None


def _are_usable(candidates: Candidates, *needs: str) -> Booleans:
    """Return whether candidates have the required columns and no drop of training accuracy."""
    return candidates.known(*needs) & candidates.steady


def _decide(rule: Rule, candidates: Candidates) -> Decision:
    """Let a rule decide among those that have what it needs and no drop of training accuracy."""
    if isinstance(rule, Posterior):  # after a drop they vote, and are not selected
        return rule.judge(candidates)
    kept = np.flatnonzero(_are_usable(candidates, *rule.needs))
    decision = rule.judge(candidates.take(kept))

    def spread(values: Floats) -> Floats:
        column = np.full(len(candidates), np.nan)
        column[kept] = values
        return column

    return replace(
        decision,
        pick=int(kept[decision.pick]),
        reasons=(*decision.reasons, *_explain_dropped(rule, candidates, kept)),
        score=None if decision.score is None else spread(decision.score),
        columns={name: spread(values) for name, values in decision.columns.items()},
    )


def _explain_dropped(rule: Rule, candidates: Candidates, kept: Integers) -> Iterator[Reason]:
    """Name what the rule would have selected, if training accuracy dropped there."""
    known = np.flatnonzero(candidates.known(*rule.needs))
    if len(known) == len(kept):
        return
    pick = int(known[rule.judge(candidates.take(known)).pick])
    if pick not in kept:
        yield explain_dropped(candidates.name(pick))
