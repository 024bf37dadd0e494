"""The contents of a report as plain records, before charts and pages are made."""

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
from rote.reporting.axis import Axis, make_accuracy_axis, make_zeta_axis
from rote.reporting.charts.signals import MOST_COMPARED, SignalPick, find_signals, select_by_signal
from rote.reporting.checkpoints import (
    MOST_DRAWN,
    MOST_RUNS,
    Checkpoints,
    Sample,
    ZetaFilter,
    apply_zeta_filter,
    choose_listed,
    choose_sample,
    collect_checkpoints,
    find_notable,
)
from rote.reporting.provenance import Fact, collect_provenance, select_arguments, select_command
from rote.reporting.run_list import RunList, list_runs
from rote.reporting.suspects import SuspectLabels, collect_suspects
from rote.reporting.verdict import Outcome, PageVerdict, form_verdict, run_leading_rule, run_rules
from rote.selection import (
    DEFAULT_RULE,
    Candidates,
    Draws,
    Estimate,
    Rule,
    correlation,
    find_rule,
    make_candidates,
    read_runs,
)
from rote.store import RunTable, find_run_directories

if TYPE_CHECKING:
    from rote.selection import Pick

Runs = Path | str | Sequence[Path | str] | RunTable

MOST_COUNTED = 50_000
"""The most checkpoints whose numbers the page holds; beyond, it holds sums between thresholds."""

MANY_RUNS = "RUNS"
"""A placeholder for a long list of run directories."""

_LONGEST_LIST = 160
_ESTIMATE = Column(
    "estimated_accuracy", "estimated accuracy", "signal", "share", "higher", heading="Estimated"
)
"""The column that a rule may add to a table; runs do not record it."""

_LABELS = {
    "susceptibility": "ζ",
    "susceptibility_relative": "ζ relative to the loss",
    "susceptibility_plain": "ζ of the reference step",
    "susceptibility_plain_relative": "ζ of the reference step",
}
"""The names of ζ on axes, by column."""

_MOST_STOPS = 200
_MANY = 20_000
_FEW_DRAWS = 100


@dataclass(frozen=True)
class Contents:
    """A report before it is drawn. Every part is computed once, on first use.

    Attributes:
        recorded: all checkpoints, with the ζ that was asked for.
        rule: the rule of the verdict; None for the default.
        asked: the arguments of ``rote select`` that select the same; None for a table, which has
            no name on a command line.
        command: the command that makes the report; None if there is none.
    """

    recorded: Candidates
    rule: Rule | None = None
    asked: tuple[str, ...] | None = None
    command: str | None = None

    @cached_property
    def leading(self) -> Outcome:
        """The outcome of the rule of the verdict, before other rules run."""
        return run_leading_rule(self.recorded, self.rule)

    @cached_property
    def candidates(self) -> Candidates:
        """All checkpoints, with the ζ by which the leading rule compares them."""
        selection = self.leading.selection
        if selection is None or selection.column == self.recorded.column:
            return self.recorded
        return replace(self.recorded, column=selection.column)

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """The outcome of every rule."""
        return run_rules(self.candidates, self.leading, is_asked=self.rule is not None)

    @cached_property
    def verdict(self) -> PageVerdict:
        """The verdict of the page."""
        return form_verdict(self.outcomes, self.candidates)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """The checkpoints that are drawn."""
        return collect_checkpoints(self.estimated, self.sample.positions, self.filter)

    @cached_property
    def estimated(self) -> Candidates:
        """The candidates, with the leading rule's estimate as one more column."""
        return _add_estimate(self.candidates, [self.leading])

    @cached_property
    def judged(self) -> Candidates:
        """The candidates, with the estimate of the leading rule or else of any other."""
        return _add_estimate(self.candidates, self.outcomes.values())

    @cached_property
    def signals(self) -> tuple[Column, ...]:
        """The recorded signals, if there are two or more."""
        return find_signals(self.judged)

    @cached_property
    def signal_picks(self) -> tuple[SignalPick, ...]:
        """The checkpoint with the best value of each of the first signals."""
        return tuple(select_by_signal(self.judged, one) for one in self.signals[:MOST_COMPARED])

    @cached_property
    def suspects(self) -> SuspectLabels:
        """The suspected label errors."""
        judged = self.outcomes.get("posterior")
        found = None if judged is None else judged.selection
        return collect_suspects(self.candidates.table, self.workloads, found)

    @cached_property
    def sample(self) -> Sample:
        """The checkpoints that are drawn, with every selected one, and the runs that are listed."""
        candidates = self.candidates
        has_many_runs = candidates.num_runs > MOST_RUNS
        if len(candidates) <= MOST_DRAWN and not has_many_runs:
            return choose_sample(candidates)
        picks = [outcome.pick for outcome in self.outcomes.values()]
        kept = [_find_position(candidates, pick) for pick in picks if pick is not None]
        kept += [pick.position for pick in self.signal_picks]
        thresholds = self.verdict.selection.thresholds
        listed = choose_listed(candidates, kept, thresholds) if has_many_runs else None
        return choose_sample(candidates, [*kept, *find_notable(candidates, thresholds)], listed)

    @property
    def counts_each(self) -> bool:
        """Whether the page holds ζ and accuracies of every checkpoint, drawn or not."""
        return len(self.candidates) <= MOST_COUNTED

    @cached_property
    def filter(self) -> ZetaFilter | None:
        """The checkpoints that the paper's filter keeps; None without test accuracy."""
        return apply_zeta_filter(self.candidates)

    @cached_property
    def zeta_axis(self) -> Axis:
        """The axis of ζ."""
        return self._add_stops(make_zeta_axis(self.candidates.zeta))

    @cached_property
    def train_axis(self) -> Axis:
        """The axis of training accuracy."""
        return self._add_stops(make_accuracy_axis(self.candidates.values("train_accuracy")))

    @cached_property
    def memorization(self) -> Estimate:
        """The correlation of ζ with the accuracy on noisy labels."""
        return correlation(self.candidates, "zeta", "noisy_accuracy", "pearson", self.draws)

    @cached_property
    def workloads(self) -> dict[str, Mapping[str, Any]]:
        """The contents of ``workload.json``, by run."""
        table = self.candidates.table
        return {name: table.read_workload(name) for name in table.descriptions}

    @cached_property
    def runs(self) -> RunList:
        """The table of runs."""
        return list_runs(self.judged, self.workloads, self.sample.listed)

    @cached_property
    def provenance(self) -> tuple[Fact, ...]:
        """The origin of runs and page."""
        descriptions, now = self.candidates.table.descriptions, datetime.now(UTC)
        return collect_provenance(descriptions, self.workloads, now, self.command, self.same_pick)

    @property
    def same_pick(self) -> str:
        """The command that selects the same checkpoint."""
        if self.asked is None:
            rule = "" if self.rule is None else f", {self.rule.name!r}"
            return f"rote.select(table{rule}, column={self.recorded.column!r})"
        where = f" # {MANY_RUNS}: the directories of these runs" if MANY_RUNS in self.asked else ""
        return select_command(self.asked) + where

    @property
    def draws(self) -> Draws:
        """How runs are resampled for intervals."""
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
        """Whether the leading rule has regions to draw."""
        return self.has_regions and self.verdict.selection.has_regions

    @property
    def label(self) -> str:
        """The name of ζ on axes."""
        return _LABELS[self.candidates.column]

    @property
    def knowing(self) -> str:
        """The rules that use clean labels, as the subject of a sentence."""
        names = [name for name, outcome in self.outcomes.items() if outcome.needs_truth]
        return f"the {' and the '.join(names)} {'has' if len(names) == 1 else 'have'}"

    def _add_stops(self, axis: Axis) -> Axis:
        return axis if self.counts_each else axis.with_stops(_MOST_STOPS)

    def check_regions(self) -> None:
        """Raise an error if there are no regions to draw.

        Raises:
            InputError: if no checkpoint has both ζ and training accuracy.
        """
        if not self.has_regions:
            raise InputError(
                "The runs have no checkpoints with ζ and training accuracy. Pass train_accuracy= "
                "to the probe."
            )


def read_contents(
    runs: Runs,
    *,
    rule: str | Rule | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    where: Mapping[str, Any] | None = None,
    percent: bool = False,
    options: Mapping[str, Any] | None = None,
    command: str | None = None,
) -> Contents:
    """Read runs and make the contents of a report about them.

    Args:
        runs: see ``rote.select``.
        rule: the rule of the verdict; by default that of ``rote.select``.
        column: the column of ζ.
        mapping: see ``rote.select``.
        where: see ``rote.select``.
        percent: see ``rote.select``.
        options: options of the rule.
        command: the command that makes the report; None if there is none.

    Raises:
        InputError: if there is no run, rule or column of that name, or no checkpoint, or a table
            comes with a mapping, the runs are not comparable, or the rule does not apply.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    leading = find_leading_rule(rule, options)
    table = read_runs(runs, mapping, where=where, percent=percent)
    words = select_arguments(
        name_runs(runs),
        rule,
        column=column,
        mapping=mapping,
        where=where,
        percent=percent,
        options=options,
    )
    return make_contents(table, leading, column, words, command)


def find_leading_rule(rule: str | Rule | None, options: Mapping[str, Any] | None) -> Rule | None:
    """Find the requested rule; None stands for the default rule without options.

    Raises:
        InputError: if there is no such rule or option.
    """
    if rule is None and not options:
        return None
    return find_rule(DEFAULT_RULE if rule is None else rule, options)


def make_contents(
    table: RunTable,
    leading: Rule | None,
    column: str,
    asked: tuple[str, ...] | None,
    command: str | None,
) -> Contents:
    """Make the contents of a report about a table of comparable runs.

    Raises:
        InputError: if there is no checkpoint, or the rule does not apply.
    """
    candidates = make_candidates(table, column)
    if not len(candidates):
        raise InputError(
            "The runs have no checkpoints yet. The first one appears after the first probe."
        )
    contents = Contents(candidates, leading, asked, command)
    if leading is not None:
        contents.verdict  # noqa: B018  # raise at once if the rule does not apply
    return contents


def name_runs(runs: Runs) -> tuple[str, ...] | None:
    """Name the given runs in a few words; None for a table, which has no name.

    A list of all runs of one folder becomes that folder; other long lists become ``MANY_RUNS``.
    """
    if isinstance(runs, RunTable):
        return None
    names = (str(runs),) if isinstance(runs, Path | str) else tuple(map(str, runs))
    if len(" ".join(names)) <= _LONGEST_LIST:
        return names
    folder = Path(names[0]).parent
    below = find_run_directories(folder) if len(names) > 1 else None
    return (str(folder),) if set(map(Path, names)) == set(below or ()) else (MANY_RUNS,)


def _add_estimate(candidates: Candidates, outcomes: Iterable[Outcome]) -> Candidates:
    told = {"columns": {_ESTIMATE.name: _ESTIMATE.describe()}}
    for outcome in outcomes:
        if outcome.selection is not None and _ESTIMATE.name in outcome.selection.table.columns:
            frame, table = outcome.selection.table, candidates.table
            described = {**table.descriptions, "": told}
            table = replace(table, frame=frame, descriptions=described)
            return replace(candidates, table=table, _columns={})
    return candidates


def _find_position(candidates: Candidates, pick: Pick) -> int:
    run = candidates.runs.index(pick.run)
    return int(np.flatnonzero((candidates.run == run) & (candidates.step == pick.step))[0])
