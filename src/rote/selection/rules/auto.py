"""The strongest rule that what is recorded allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from rote.errors import InputError
from rote.records import ZETAS
from rote.selection.rules.consensus import Consensus
from rote.selection.rules.filter import Filter
from rote.selection.rules.last import Last
from rote.selection.rules.noise_rate import NoiseRate
from rote.selection.rules.noisy_validation import NoisyValidation
from rote.selection.rules.posterior import Posterior, votes_of_neighbors
from rote.selection.rules.staged import Staged
from rote.selection.votes import Ballot, shared_holdout

if TYPE_CHECKING:
    from rote.selection.candidates import Booleans, Candidates, Floats, Integers
    from rote.selection.rule import Rule, Verdict

_FEWEST_LABELS = 30
_COMPETENT = 0.7
"""The agreement of the best with the vote of the others from which on consensus is believed."""

_FEWEST_CHECKPOINTS = 5
"""Of one run, so that half of them are worth leaving out."""

_GAUGE = "susceptibility_plain_relative"


@dataclass(frozen=True)
class _Choice:
    """Which rule speaks.

    Attributes:
        rule: this one.
        because: why it can.
        stronger: what would make it stronger, as a sentence.
        column: which ζ it goes by, if it is another than was asked for.
        verdict: what it has said already.
    """

    rule: Rule
    because: str
    stronger: str
    column: str | None = None
    verdict: Verdict | None = None


@dataclass(frozen=True)
class _Lack:
    """Why nothing that is held out can speak.

    Attributes:
        words: what is lacking.
        is_weak: whether runs could vote, and are too weak to.
    """

    words: str
    is_weak: bool = False


@dataclass(frozen=True)
class Auto:
    """The strongest rule that what is recorded allows; it says which, and why.

    Several runs on a holdout with given labels: ``posterior``. One such run: ``posterior`` with
    votes of its nearest training samples, or ``noisy-validation`` where there are none. Several
    runs on a holdout without labels: ``consensus``, if the best checkpoint agrees with the others
    on at least 70 % of the holdout, or else ``staged`` on the plain relative ζ. Nothing of this:
    ``noise-rate``, if the share of wrong labels is given; otherwise ζ and training accuracy as in
    the paper, ``staged``, or ``filter`` for a single run; ``last`` where one of these is not
    recorded. A checkpoint whose training accuracy dropped is never selected.

    Attributes:
        noise_rate: the share of wrong labels, if it is known.
        clean_labels: labels of the holdout that are known to be right, −1 where there is none.

    Raises:
        InputError: if the rate is no share, or the labels are no integers in a row.
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

    def judge(self, candidates: Candidates) -> Verdict:
        """What the strongest rule says."""
        choice = self._by_holdout(candidates)
        if isinstance(choice, _Lack):
            choice = self._by_training(candidates, choice)
        column = choice.column or candidates.column
        verdict = choice.verdict or _judged(choice.rule, replace(candidates, column=column))
        first = f"Rule `auto` took `{choice.rule.name}`, because {choice.because}."
        return replace(
            verdict,
            reasons=(first, *verdict.reasons, choice.stronger),
            warnings=(*verdict.warnings, *self._unused(choice.rule)),
            by=choice.rule,
            column=choice.column,
        )

    def _unused(self, rule: Rule) -> Iterator[str]:
        """What was told in vain."""
        for name in ("noise_rate", "clean_labels"):
            if getattr(self, name) is not None and not hasattr(rule, name):
                yield f"`{name}` was not used: rule `{rule.name}` cannot do anything with it."

    def _by_holdout(self, candidates: Candidates) -> _Choice | _Lack:
        """What samples that nobody trained on allow, or what they lack."""
        try:
            voters, _ = shared_holdout(candidates, least=1)
        except InputError:
            lacking = "no predictions on a holdout are recorded"
            if candidates.num_runs > 1:
                lacking = "no two runs have predictions on the same holdout"
            return _by_validation(candidates, lacking) or _Lack(lacking)
        ballot = Ballot.of(candidates, voters)
        posterior = Posterior(self.noise_rate, self.clean_labels)
        labels = posterior.labels(candidates, voters, ballot).known
        are_known = f"{labels} of its labels are {'known' if self.clean_labels else 'given'}"
        if labels >= _FEWEST_LABELS:
            has_neighbors = votes_of_neighbors(candidates, voters, ballot) is not None
            found = self._by_labels(posterior, len(voters), are_known, has_neighbors)
            if found is not None:
                return found
        lacking = f"only {are_known}" if labels else "none of its labels is given"
        if len(voters) == 1:
            lacking = "one run alone predicts the holdout, without the votes of nearest neighbors"
        by_validation = _by_validation(candidates, lacking)
        if by_validation is not None or len(voters) == 1:
            return by_validation or _Lack(lacking)
        return _by_consensus(candidates, ballot, lacking)

    def _by_labels(
        self, posterior: Posterior, voters: int, are_known: str, has_neighbors: bool
    ) -> _Choice | None:
        """What a holdout with labels allows; None if they are all there is, and may be wrong."""
        known = "right labels" if self.clean_labels is None else "more right labels"
        clean = f"{known} for some of it (clean_labels=, --clean-labels)"
        if voters > 1:
            because = f"{voters} runs predict one holdout, and {are_known}"
            more = f"More runs, a larger holdout, or {clean} would make it stronger."
        elif has_neighbors:
            because = (
                f"one run predicts a holdout, {are_known}, and the labels of the nearest training "
                "samples are recorded"
            )
            more = f"A second run on the same holdout, or {clean}, would make it stronger."
        elif self.clean_labels is not None:
            because = f"one run predicts a holdout, and {are_known}"
            more = "Votes would make it stronger: other runs on the holdout, or neighbor_votes=."
        else:
            return None
        return _Choice(posterior, because, more)

    def _by_training(self, candidates: Candidates, lack: _Lack) -> _Choice:
        """What can be said with nothing held out."""
        lacking = lack.words
        more = (
            "A holdout that is kept out of training, with its given labels, would make it stronger."
        )
        if self.noise_rate is not None and _usable(candidates, "train_accuracy").any():
            because = f"{lacking}, but the share of wrong labels is known"
            return _Choice(NoiseRate(self.noise_rate), because, more)
        column = _gauge(candidates) if lack.is_weak else None
        gauged = replace(candidates, column=column or candidates.column)
        usable = int(_usable(gauged, "zeta", "train_accuracy").sum())
        if usable and (candidates.num_runs > 1 or usable >= _FEWEST_CHECKPOINTS):
            because = f"{lacking}: ζ and training accuracy are all there is"
            rule = Staged() if candidates.num_runs > 1 else Filter()
            return _Choice(rule, because, f"{more} So would noise_rate=.", column)
        if usable:
            because = (
                f"{lacking}, and a run of {usable} checkpoints is too short for ζ to divide it"
            )
            return _Choice(Last(), because, f"{more} So would more checkpoints.")
        if _usable(candidates, "zeta").any():
            because = f"{lacking}, and ζ without training accuracy does not tell what was learned"
            return _Choice(Last(), because, f"{more} So would train_accuracy=.")
        return _Choice(Last(), f"{lacking}, and ζ is not recorded", more)


def _by_validation(candidates: Candidates, lacking: str) -> _Choice | None:
    if not _usable(candidates, "validation_accuracy").any():
        return None
    because = f"the accuracy on given labels of a holdout is recorded, but {lacking}"
    more = (
        "Votes would make it stronger: other runs on the same holdout, or neighbor_votes= for one "
        "run alone."
    )
    return _Choice(NoisyValidation(), because, more)


def _by_consensus(candidates: Candidates, ballot: Ballot, lacking: str) -> _Choice | _Lack:
    """The vote of the runs, if they are competent, or what they lack."""
    rule = Consensus()
    verdict = _judged(rule, candidates)
    assert verdict.score is not None
    agreed = float(verdict.score[verdict.pick])
    setting = f"{ballot.num_runs} runs predict one holdout, {lacking}, and the runs are"
    measured = f"the best agrees with the others on {agreed:.0%} of the holdout"
    if agreed < _COMPETENT:
        words = f"{setting} too weak to vote ({measured}, less than {_COMPETENT:.0%})"
        return _Lack(words, is_weak=True)
    because = f"{setting} competent ({measured}, {_COMPETENT:.0%} or more)"
    more = "Given labels of the holdout, wrong ones among them, would make it stronger."
    return _Choice(rule, because, more, verdict=verdict)


def _gauge(candidates: Candidates) -> str | None:
    """The plain relative ζ in place of the default one, where all that have one have both."""
    if candidates.column != ZETAS[0]:
        return None
    has_gauge = replace(candidates, column=_GAUGE).known("zeta")
    return _GAUGE if has_gauge.any() and (has_gauge >= candidates.known("zeta")).all() else None


def _usable(candidates: Candidates, *needs: str) -> Booleans:
    """Those that have what is needed and are on no dip."""
    return candidates.known(*needs) & candidates.steady


def _judged(rule: Rule, candidates: Candidates) -> Verdict:
    """What a rule says about those that have what it needs and are on no dip."""
    if isinstance(rule, Posterior):  # dips vote, and have an estimate; they are not picked
        return rule.judge(candidates)
    kept = np.flatnonzero(_usable(candidates, *rule.needs))
    verdict = rule.judge(candidates.take(kept))

    def spread(values: Floats) -> Floats:
        column = np.full(len(candidates), np.nan)
        column[kept] = values
        return column

    return replace(
        verdict,
        pick=int(kept[verdict.pick]),
        reasons=(*verdict.reasons, *_dip(rule, candidates, kept)),
        score=None if verdict.score is None else spread(verdict.score),
        columns={name: spread(values) for name, values in verdict.columns.items()},
    )


def _dip(rule: Rule, candidates: Candidates, kept: Integers) -> Iterator[str]:
    """What the rule would have picked, if that is on a dip."""
    known = np.flatnonzero(candidates.known(*rule.needs))
    if len(known) == len(kept):
        return
    pick = known[rule.judge(candidates.take(known)).pick]
    if pick not in kept:
        yield f"Left out is {candidates.name(pick)}: its training accuracy dropped at this step."
