"""Everything that a report says, as plain records: no chart, no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rote.errors import InputError
from rote.reporting.axis import Axis, accuracy_axis, zeta_axis
from rote.reporting.checkpoints import Checkpoints, checkpoints_of
from rote.reporting.outcomes import Outcome, outcomes_of
from rote.reporting.provenance import Fact, provenance_of, select_command
from rote.reporting.run_list import RunList, run_list
from rote.reporting.sensitivity import Cell, Mark, mark_of, sensitivity_map
from rote.reporting.settings import read_workload
from rote.reporting.verdict import PAIR, Verdict, verdict_of
from rote.reporting.zeta_filter import ZetaFilter, zeta_filter
from rote.selection.agreement import Agreement, agreement
from rote.selection.bootstrap import Draws
from rote.selection.candidates import Candidates, candidates_of
from rote.store import RunTable, read_table

if TYPE_CHECKING:
    from rote.selection import Pick

Runs = Path | str | Sequence[Path | str] | RunTable

_MANY = 20_000
_FEW_DRAWS = 100


@dataclass(frozen=True)
class Contents:
    """A report before it is drawn.

    Attributes:
        candidates: all checkpoints.
        checkpoints: those that are drawn.
        zeta_axis: of ζ.
        train_axis: of training accuracy.
        outcomes: what every rule would keep.
        verdict: what is said first.
        agreement: how ζ and training accuracy agree with the truth.
        filter: which checkpoints the paper's filter keeps; None without a truth.
        cells: the sensitivity map.
        marks: where the thresholds of the two region rules lie on it.
        runs: the table of runs.
        same_pick: the command that picks the same checkpoint.
        provenance: where it all comes from.
    """

    candidates: Candidates
    checkpoints: Checkpoints
    zeta_axis: Axis
    train_axis: Axis
    outcomes: Mapping[str, Outcome]
    verdict: Verdict
    agreement: Agreement
    filter: ZetaFilter | None
    cells: tuple[Cell, ...]
    marks: tuple[Mark, ...]
    runs: RunList
    same_pick: str
    provenance: tuple[Fact, ...]

    @property
    def has_truth(self) -> bool:
        """Whether any test accuracy is known."""
        return bool(np.isfinite(self.candidates.test_accuracy).any())

    @property
    def has_regions(self) -> bool:
        """Whether any checkpoint has both ζ and training accuracy."""
        return bool(self.cells)

    @property
    def label(self) -> str:
        """What axes call ζ."""
        return self.candidates.label.replace("`", "")


def contents_of(
    runs: Runs,
    *,
    rule: str | None = None,
    column: str = "susceptibility",
    mapping: Mapping[str, str] | None = None,
    command: str | None = None,
) -> Contents:
    """Gather everything that a report says.

    Args:
        runs: as for ``rote.select``.
        rule: which rule leads the verdict; by default ``staged``, or ``before-rise`` for one run.
        column: which ζ.
        mapping: as for ``rote.select``.
        command: what makes the report, if it is a command.

    Raises:
        InputError: if there is no run, rule or column of that name, or no checkpoint, or a table
            comes with a mapping.
        MissingExtraError: if the package of a source is not installed.
        CorruptRunError: if a file is damaged.
    """
    table = _table(runs, mapping)
    candidates = candidates_of(table, column)
    if not len(candidates):
        raise InputError("Expected `runs` to have checkpoints, got none. Probe at least once.")
    outcomes = outcomes_of(table, column)
    workloads = {name: read_workload(table.paths.get(name)) for name in table.descriptions}
    picks = [outcome.pick for outcome in outcomes.values() if outcome.pick is not None]
    always = [_position(candidates, pick) for pick in picks]
    kept = zeta_filter(candidates)
    verdict = verdict_of(outcomes, _usable_runs(candidates), rule)
    same_pick = select_command(_named(runs), verdict.selection.rule, column, mapping or {})
    return Contents(
        candidates=candidates,
        checkpoints=checkpoints_of(candidates, always, kept),
        zeta_axis=zeta_axis(candidates.susceptibility),
        train_axis=accuracy_axis(candidates.train_accuracy),
        outcomes=outcomes,
        verdict=verdict,
        agreement=_agreement(table, column, len(candidates)),
        filter=kept,
        cells=sensitivity_map(candidates),
        marks=tuple(
            mark_of(candidates, name, selection.thresholds)
            for name in PAIR
            if (selection := outcomes[name].selection) is not None
        ),
        runs=run_list(candidates, workloads),
        same_pick=same_pick,
        provenance=provenance_of(
            table.descriptions, workloads, datetime.now(UTC), command, same_pick
        ),
    )


def _table(runs: Runs, mapping: Mapping[str, str] | None) -> RunTable:
    if not isinstance(runs, RunTable):
        return read_table(runs, mapping)
    if mapping:
        raise InputError("Expected `mapping` to go with runs to read, got a table. Pass it there.")
    return runs


def _named(runs: Runs) -> list[str] | None:
    if isinstance(runs, RunTable):
        return None
    return [str(runs)] if isinstance(runs, Path | str) else [str(entry) for entry in runs]


def _usable_runs(candidates: Candidates) -> int:
    """How many runs a rule that compares them can compare: they have ζ and training accuracy.

    Where no run has both, those with ζ.
    """
    has_zeta = np.isfinite(candidates.susceptibility)
    has_both = has_zeta & np.isfinite(candidates.train_accuracy)
    return candidates.take(has_both if has_both.any() else has_zeta).num_runs


def _position(candidates: Candidates, pick: Pick) -> int:
    run = candidates.runs.index(pick.run)
    return int(np.flatnonzero((candidates.run == run) & (candidates.step == pick.step))[0])


def _agreement(table: RunTable, column: str, checkpoints: int) -> Agreement:
    # Choosing anew in every draw is what takes long; the intervals of the page are correlations'.
    draws = Draws() if checkpoints <= _MANY else Draws(resamples=_FEW_DRAWS)
    return agreement(table, column=column, rule="last", draws=draws)
