"""How much test accuracy the pick of a rule lacks to the best checkpoint."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection.bootstrap import Draws, Estimate, too_few
from rote.selection.candidates import Candidates, Floats, candidates_of
from rote.selection.rule import about
from rote.selection.rules import find_rule
from rote.selection.select_checkpoint import table_of, usable_for

if TYPE_CHECKING:
    from rote.selection.rule import Rule
    from rote.store import RunTable

_MOST_REDONE = 100_000


def regret(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = "regions",
    *,
    column: str = "susceptibility",
    draws: Draws | None = None,
    **options: Any,  # noqa: ANN401
) -> Estimate:
    """How much test accuracy the pick of a rule lacks to the best checkpoint.

    For the interval, the rule chooses anew in every draw of runs, and is compared with the best of
    that draw.

    Args:
        runs: as for ``select``.
        rule: as for ``select``.
        column: which ζ.
        draws: how runs are drawn for the interval.
        options: of the rule.

    Raises:
        InputError: as for ``select``.
        CorruptRunError: if a file is damaged.
    """
    judge = find_rule(rule, options)
    draws = Draws() if draws is None else draws
    return estimate_regret(judge, candidates_of(table_of(runs), column), draws)


def estimate_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    """Return the regret of a rule among candidates.

    Raises:
        InputError: if none has what the rule needs.
    """
    value = _regret(rule, candidates)
    if value is None:
        return Estimate(None, reason="The test accuracy of the pick is not known.")
    reason = about(rule).not_resampled or too_few(candidates.num_runs)
    if reason is None and len(candidates) > _MOST_REDONE:
        reason = f"Choosing anew among more than {_MOST_REDONE} checkpoints takes too long."
    if reason is not None:
        return Estimate(value, reason=reason)
    return draws.estimate(value, resampled_regret(rule, candidates, draws))


def _regret(rule: Rule, candidates: Candidates) -> float | None:
    usable = usable_for(rule, candidates)
    accuracy = usable.values("test_accuracy")[rule.judge(usable).pick]
    best = np.fmax.reduce(candidates.values("test_accuracy"))
    return None if np.isnan(accuracy) else float(best - accuracy)


def resampled_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Floats:
    """Return the regret in every draw of runs, among which the rule chooses anew."""
    parts = list(candidates.by_run())
    rng = np.random.default_rng(draws.seed)
    values = np.full(draws.resamples, np.nan)
    for draw in range(draws.resamples):
        drawn = [parts[i] for i in np.sort(rng.integers(len(parts), size=len(parts)))]
        with suppress(InputError):  # a draw of runs that all lack what the rule needs
            value = _regret(rule, _repeated(candidates, drawn))
            values[draw] = np.nan if value is None else value
    return values


def _repeated(candidates: Candidates, parts: list[slice]) -> Candidates:
    """Stretches of runs in a row, each as a run of its own, also when it is there twice."""
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    return replace(
        candidates.take(rows),
        runs=tuple(candidates.runs[candidates.run[part.start]] for part in parts),
        run=np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts]),
    )
