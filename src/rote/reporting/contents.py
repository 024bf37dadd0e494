"""Everything that a report says, as plain records: no chart, no page."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.records import Column
from rote.reporting.axis import Axis, accuracy_axis, zeta_axis
from rote.reporting.checkpoints import Checkpoints, ZetaFilter, checkpoints_of, zeta_filter
from rote.reporting.provenance import Fact, provenance_of, select_command, select_words
from rote.reporting.run_list import RunList, run_list
from rote.reporting.sample import MOST_DRAWN, MOST_RUNS, Sample, most_relevant, notable, sample_of
from rote.reporting.signals import MOST_COMPARED, SignalPick, signal_columns, signal_pick
from rote.reporting.suspects import SuspectLabels, suspect_labels
from rote.reporting.verdict import Outcome, Verdict, leading_outcome, outcomes_of, verdict_of
from rote.selection import (
    DEFAULT_RULE,
    Candidates,
    Draws,
    Estimate,
    Rule,
    candidates_of,
    correlation,
    find_rule,
    table_of,
)
from rote.store import RunTable, run_directories

if TYPE_CHECKING:
    from rote.selection import Pick

Runs = Path | str | Sequence[Path | str] | RunTable

MOST_COUNTED = 50_000
"""Checkpoints whose numbers the page holds; of more, sums between the stops of its sliders."""

MANY_RUNS = "RUNS"
"""What stands for a list of runs that nobody would read."""

_LONGEST_LIST = 160
_ESTIMATE = Column("estimated_accuracy", "estimated accuracy", "signal", "share", "higher")
"""What a rule may add to a table: it is recorded by no run, and described by none."""

_MOST_STOPS = 200
_MANY = 20_000
_FEW_DRAWS = 100


@dataclass(frozen=True)
class Contents:
    """A report before it is drawn. Everything is computed once, when somebody asks for it.

    Attributes:
        candidates: all checkpoints.
        rule: the one that leads; None for the usual one.
        asked: the words of ``rote select`` that choose the same; None for a table, which no
            command can name.
        command: what makes the report, if it is a command.
    """

    candidates: Candidates
    rule: Rule | None = None
    asked: tuple[str, ...] | None = None
    command: str | None = None

    @cached_property
    def leading(self) -> Outcome:
        """What the rule says that leads, before any other is asked."""
        return leading_outcome(self.candidates, self.rule)

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """What every rule would keep."""
        return outcomes_of(self.candidates, self.leading, is_asked=self.rule is not None)

    @cached_property
    def verdict(self) -> Verdict:
        """What is said first."""
        return verdict_of(self.outcomes, self.candidates)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Those that are drawn."""
        return checkpoints_of(self.estimated, self.sample.positions, self.filter)

    @cached_property
    def estimated(self) -> Candidates:
        """The candidates, with what the leading rule estimates of each as one more column."""
        return _with_estimate(self.candidates, [self.leading])

    @cached_property
    def judged(self) -> Candidates:
        """The candidates, with what the leading rule or else any other estimates of each."""
        return _with_estimate(self.candidates, self.outcomes.values())

    @cached_property
    def signals(self) -> tuple[Column, ...]:
        """The recorded signals, if there are two or more."""
        return signal_columns(self.judged)

    @cached_property
    def signal_picks(self) -> tuple[SignalPick, ...]:
        """What each of them would keep, the first ones."""
        return tuple(signal_pick(self.judged, one) for one in self.signals[:MOST_COMPARED])

    @cached_property
    def suspects(self) -> SuspectLabels:
        """Samples whose label is probably wrong."""
        judged = self.outcomes.get("posterior")
        found = None if judged is None else judged.selection
        return suspect_labels(self.candidates.table, self.workloads, found)

    @cached_property
    def sample(self) -> Sample:
        """Which are drawn, every pick among them, and which runs are listed."""
        candidates = self.candidates
        has_many_runs = candidates.num_runs > MOST_RUNS
        if len(candidates) <= MOST_DRAWN and not has_many_runs:
            return sample_of(candidates)
        picks = [outcome.pick for outcome in self.outcomes.values()]
        kept = [_position(candidates, pick) for pick in picks if pick is not None]
        kept += [pick.position for pick in self.signal_picks]
        thresholds = self.verdict.selection.thresholds
        listed = most_relevant(candidates, kept, thresholds) if has_many_runs else None
        return sample_of(candidates, [*kept, *notable(candidates, thresholds)], listed)

    @property
    def counts_each(self) -> bool:
        """Whether the page holds ζ and accuracies of every checkpoint, drawn or not."""
        return len(self.candidates) <= MOST_COUNTED

    @cached_property
    def filter(self) -> ZetaFilter | None:
        """Which checkpoints the paper's filter keeps; None without a truth."""
        return zeta_filter(self.candidates)

    @cached_property
    def zeta_axis(self) -> Axis:
        """Of ζ."""
        return self._with_stops(zeta_axis(self.candidates.zeta))

    @cached_property
    def train_axis(self) -> Axis:
        """Of training accuracy."""
        return self._with_stops(accuracy_axis(self.candidates.values("train_accuracy")))

    @cached_property
    def memorization(self) -> Estimate:
        """The correlation of ζ with the accuracy on noisy labels."""
        return correlation(self.candidates, "zeta", "noisy_accuracy", "pearson", self.draws)

    @cached_property
    def workloads(self) -> dict[str, Mapping[str, Any]]:
        """What ``workload.json`` says, by run."""
        table = self.candidates.table
        return {name: table.workload(name) for name in table.descriptions}

    @cached_property
    def runs(self) -> RunList:
        """The table of runs."""
        return run_list(self.candidates, self.workloads, self.sample.listed)

    @cached_property
    def provenance(self) -> tuple[Fact, ...]:
        """Where it all comes from."""
        descriptions, now = self.candidates.table.descriptions, datetime.now(UTC)
        return provenance_of(descriptions, self.workloads, now, self.command, self.same_pick)

    @property
    def same_pick(self) -> str:
        """The command that picks the same checkpoint."""
        if self.asked is None:
            rule = "" if self.rule is None else f", {self.rule.name!r}"
            return f"rote.select(table{rule}, column={self.candidates.column!r})"
        where = f" # {MANY_RUNS}: the directories of these runs" if MANY_RUNS in self.asked else ""
        return select_command(self.asked) + where

    @property
    def draws(self) -> Draws:
        """How runs are drawn for intervals."""
        return Draws() if len(self.candidates) <= _MANY else Draws(resamples=_FEW_DRAWS)

    @property
    def has_truth(self) -> bool:
        """Whether any test accuracy is known."""
        return bool(np.isfinite(self.candidates.values("test_accuracy")).any())

    @property
    def has_zeta(self) -> bool:
        """Whether any ζ is known."""
        return bool(self.candidates.known("zeta").any())

    @property
    def has_train(self) -> bool:
        """Whether any training accuracy is known."""
        return bool(self.candidates.known("train_accuracy").any())

    @property
    def has_regions(self) -> bool:
        """Whether any checkpoint has both ζ and training accuracy."""
        return bool(self.candidates.known("zeta", "train_accuracy").any())

    @property
    def shows_regions(self) -> bool:
        """Whether regions are drawn: those that the leading rule has divided."""
        return self.has_regions and self.verdict.selection.has_regions

    @property
    def label(self) -> str:
        """What axes call ζ."""
        return self.candidates.label.replace("`", "")

    @property
    def knowing(self) -> str:
        """The rules that have seen a clean label, as a sentence begins with them."""
        names = [name for name, outcome in self.outcomes.items() if outcome.needs_truth]
        return f"the {' and the '.join(names)} {'has' if len(names) == 1 else 'have'}"

    def _with_stops(self, axis: Axis) -> Axis:
        return axis if self.counts_each else axis.with_stops(_MOST_STOPS)

    def check_regions(self) -> None:
        """Refuse to draw regions that are not there.

        Raises:
            InputError: if no checkpoint has both ζ and training accuracy.
        """
        if not self.has_regions:
            raise InputError(
                "Expected `runs` to have checkpoints with ζ and training accuracy, got none. Pass "
                "train_accuracy= to the probe."
            )


def contents_of(
    runs: Runs,
    *,
    rule: str | Rule | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    per_cent: bool = False,
    options: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> Contents:
    """What a report says about runs.

    Args:
        runs: as for ``rote.select``.
        rule: which rule leads the verdict; by default the one of ``rote.select``.
        column: which ζ.
        mapping: as for ``rote.select``.
        where: as for ``rote.select``.
        per_cent: as for ``rote.select``.
        options: of the rule.
        command: what makes the report, if it is a command.

    Raises:
        InputError: if there is no run, rule or column of that name, or no checkpoint, or a table
            comes with a mapping, runs must not be compared, or the rule cannot say anything.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    leading = leading_rule(rule, options)
    table = table_of(runs, mapping, where=where, per_cent=per_cent)
    words = select_words(
        named_runs(runs),
        rule,
        column=column,
        mapping=mapping,
        where=where,
        per_cent=per_cent,
        options=options,
    )
    return contents_of_table(table, leading, column, words, command)


def leading_rule(rule: str | Rule | None, options: Mapping[str, Any] | None) -> Rule | None:
    """The rule that was asked for; None if it is the usual one as it is.

    Raises:
        InputError: if there is no such rule or option.
    """
    if rule is None and not options:
        return None
    return find_rule(DEFAULT_RULE if rule is None else rule, options)


def contents_of_table(
    table: RunTable,
    leading: Rule | None,
    column: str,
    asked: tuple[str, ...] | None,
    command: str | None,
) -> Contents:
    """What a report says about runs that are read, and may be compared.

    Raises:
        InputError: if there is no checkpoint, or the rule cannot say anything.
    """
    candidates = candidates_of(table, column)
    if not len(candidates):
        raise InputError("Expected `runs` to have checkpoints, got none. Probe at least once.")
    contents = Contents(candidates, leading, asked, command)
    if leading is not None:
        contents.verdict  # noqa: B018  # a rule that cannot say anything is refused at once
    return contents


def named_runs(runs: Runs) -> tuple[str, ...] | None:
    """What was given to read, in few words; None for a table, which has no name.

    Many directories that are all the runs of one folder are that folder; other long lists are
    ``MANY_RUNS``.
    """
    if isinstance(runs, RunTable):
        return None
    names = (str(runs),) if isinstance(runs, Path | str) else tuple(map(str, runs))
    if len(" ".join(names)) <= _LONGEST_LIST:
        return names
    folder = Path(names[0]).parent
    below = run_directories(folder) if len(names) > 1 else None
    return (str(folder),) if set(map(Path, names)) == set(below or ()) else (MANY_RUNS,)


def _with_estimate(candidates: Candidates, outcomes: Iterable[Outcome]) -> Candidates:
    told = {"columns": {_ESTIMATE.name: _ESTIMATE.describe()}}
    for outcome in outcomes:
        if outcome.selection is not None and _ESTIMATE.name in outcome.selection.table.columns:
            frame, table = outcome.selection.table, candidates.table
            described = {**table.descriptions, "": told}
            table = replace(table, frame=frame, descriptions=described)
            return replace(candidates, table=table, _columns={})
    return candidates


def _position(candidates: Candidates, pick: Pick) -> int:
    run = candidates.runs.index(pick.run)
    return int(np.flatnonzero((candidates.run == run) & (candidates.step == pick.step))[0])
