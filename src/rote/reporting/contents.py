"""Everything that a report says, as plain records: no chart, no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.reporting.axis import Axis, accuracy_axis, zeta_axis
from rote.reporting.checkpoints import Checkpoints, ZetaFilter, checkpoints_of, zeta_filter
from rote.reporting.provenance import Fact, provenance_of, select_command
from rote.reporting.run_list import RunList, run_list
from rote.reporting.sample import MOST_DRAWN, MOST_RUNS, Sample, most_relevant, notable, sample_of
from rote.reporting.settings import read_workload
from rote.reporting.verdict import Outcome, Verdict, outcomes_of, verdict_of
from rote.selection import (
    Candidates,
    Draws,
    Estimate,
    Rule,
    candidates_of,
    correlation,
    find_rule,
    table_of,
)
from rote.store import RunTable

if TYPE_CHECKING:
    from rote.selection import Pick

Runs = Path | str | Sequence[Path | str] | RunTable

MOST_COUNTED = 50_000
"""Checkpoints whose numbers the page holds; of more, sums between the stops of its sliders."""

_MOST_STOPS = 200
_MANY = 20_000
_FEW_DRAWS = 100


@dataclass(frozen=True)
class Contents:
    """A report before it is drawn. Everything is computed once, when somebody asks for it.

    Attributes:
        candidates: all checkpoints.
        rule: the one that leads; None for the usual one.
        asked: how it was asked for.
        names: what was read; None for a table, which has no name.
        mapping: where metrics have other names than rote's.
        command: what makes the report, if it is a command.
    """

    candidates: Candidates
    rule: Rule | None = None
    asked: str | None = None
    names: tuple[str, ...] | None = None
    mapping: Mapping[str, str] = field(default_factory=dict)
    command: str | None = None

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """What every rule would keep."""
        return outcomes_of(self.candidates, self.rule)

    @cached_property
    def verdict(self) -> Verdict:
        """What is said first."""
        rule = None if self.rule is None else self.rule.name
        return verdict_of(self.outcomes, self.candidates, rule)

    @cached_property
    def checkpoints(self) -> Checkpoints:
        """Those that are drawn."""
        return checkpoints_of(self.candidates, self.sample.positions, self.filter)

    @cached_property
    def sample(self) -> Sample:
        """Which are drawn, every pick among them, and which runs are listed."""
        candidates = self.candidates
        has_many_runs = candidates.num_runs > MOST_RUNS
        if len(candidates) <= MOST_DRAWN and not has_many_runs:
            return sample_of(candidates)
        picks = [outcome.pick for outcome in self.outcomes.values()]
        kept = [_position(candidates, pick) for pick in picks if pick is not None]
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
        return {name: read_workload(table.paths.get(name)) for name in table.descriptions}

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
        rule = self.asked or self.verdict.selection.rule
        return select_command(self.names, rule, self.candidates.column, self.mapping)

    @property
    def draws(self) -> Draws:
        """How runs are drawn for intervals."""
        return Draws() if len(self.candidates) <= _MANY else Draws(resamples=_FEW_DRAWS)

    @property
    def has_truth(self) -> bool:
        """Whether any test accuracy is known."""
        return bool(np.isfinite(self.candidates.values("test_accuracy")).any())

    @property
    def has_regions(self) -> bool:
        """Whether any checkpoint has both ζ and training accuracy."""
        return bool(self.candidates.known("zeta", "train_accuracy").any())

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
    command: str | None = None,
) -> Contents:
    """What a report says about runs.

    Args:
        runs: as for ``rote.select``.
        rule: which rule leads the verdict; by default ``staged``, or ``before-rise`` for one run.
        column: which ζ.
        mapping: as for ``rote.select``.
        command: what makes the report, if it is a command.

    Raises:
        InputError: if there is no run, rule or column of that name, or no checkpoint, or a table
            comes with a mapping, or the rule cannot say anything.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    leading = None if rule is None else find_rule(rule)
    candidates = candidates_of(table_of(runs, mapping), column)
    if not len(candidates):
        raise InputError("Expected `runs` to have checkpoints, got none. Probe at least once.")
    asked = rule if isinstance(rule, str) else None
    contents = Contents(candidates, leading, asked, _named(runs), mapping or {}, command)
    if leading is not None:
        contents.verdict  # noqa: B018  # a rule that cannot say anything is refused at once
    return contents


def _named(runs: Runs) -> tuple[str, ...] | None:
    if isinstance(runs, RunTable):
        return None
    return (str(runs),) if isinstance(runs, Path | str) else tuple(map(str, runs))


def _position(candidates: Candidates, pick: Pick) -> int:
    run = candidates.runs.index(pick.run)
    return int(np.flatnonzero((candidates.run == run) & (candidates.step == pick.step))[0])
