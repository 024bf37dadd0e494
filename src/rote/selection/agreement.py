"""How well ζ and training accuracy agree with the truth, where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection.bootstrap import (
    Draws,
    Estimate,
    Measure,
    bootstrap,
    kendall,
    pearson,
    spearman,
    too_few,
)
from rote.selection.candidates import Candidates, Floats, Integers, candidates_of
from rote.selection.entrance import usable_for
from rote.selection.rules import find_rule
from rote.selection.thresholds import percentile
from rote.store import RunTable, read_table

if TYPE_CHECKING:
    from rote.selection.rule import Rule

_MOST_REDONE = 100_000


@dataclass(frozen=True)
class Agreement:
    """Each with an interval over runs; what needs a truth that is not recorded has no value.

    Attributes:
        column: which ζ.
        runs: how many.
        checkpoints: how many.
        memorization_pearson: of ζ with the accuracy on the noisy subset of the training set.
        memorization_spearman: the same by ranks.
        train_test_pearson: of training accuracy with test accuracy.
        train_test_kendall: the same, τ-b.
        filtered_pearson: the same among checkpoints with ζ at most its median.
        filtered_kendall: the same, τ-b.
        rule: whose pick the regret is about.
        regret: the test accuracy that it lacks to the best checkpoint.
    """

    column: str
    runs: int
    checkpoints: int
    memorization_pearson: Estimate
    memorization_spearman: Estimate
    train_test_pearson: Estimate
    train_test_kendall: Estimate
    filtered_pearson: Estimate
    filtered_kendall: Estimate
    rule: str
    regret: Estimate


def agreement(
    runs: Path | str | Sequence[Path | str] | RunTable,
    *,
    column: str = "susceptibility",
    rule: str | Rule = "regions",
    draws: Draws | None = None,
) -> Agreement:
    """Correlations with the truth, and the regret of a rule.

    Args:
        runs: as for ``select``.
        column: which ζ.
        rule: whose pick is compared with the best checkpoint.
        draws: how runs are drawn for the intervals.

    Raises:
        InputError: if there is no such column, rule or run.
        CorruptRunError: if a file is damaged.
    """
    judge = find_rule(rule, {})
    table = runs if isinstance(runs, RunTable) else read_table(runs)
    draws = Draws() if draws is None else draws
    candidates = candidates_of(table, column)
    zeta, train, test = _values(candidates)
    noisy = _column(candidates, "noisy_accuracy")
    run = candidates.run
    return Agreement(
        column=column,
        runs=candidates.num_runs,
        checkpoints=len(candidates),
        memorization_pearson=_estimate("pearson", zeta, noisy, run, draws),
        memorization_spearman=_estimate("spearman", zeta, noisy, run, draws),
        train_test_pearson=_estimate("pearson", train, test, run, draws),
        train_test_kendall=_estimate("kendall", train, test, run, draws),
        filtered_pearson=_estimate("pearson", train, test, run, draws, zeta),
        filtered_kendall=_estimate("kendall", train, test, run, draws, zeta),
        rule=judge.name,
        regret=_regret_or_reason(judge, candidates, draws),
    )


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
    table = runs if isinstance(runs, RunTable) else read_table(runs)
    draws = Draws() if draws is None else draws
    return _estimated_regret(judge, candidates_of(table, column), draws)


def _regret_or_reason(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    try:
        return _estimated_regret(rule, candidates, draws)
    except InputError as error:
        return Estimate(None, reason=str(error))


def _estimated_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    value = _regret(rule, candidates)
    if value is None:
        return Estimate(None, reason="The test accuracy of the pick is not known.")
    reason = too_few(candidates.num_runs)
    if rule.name == "consensus":
        reason = "A run that is drawn twice would vote on itself."
    elif len(candidates) > _MOST_REDONE:
        reason = f"Choosing anew among more than {_MOST_REDONE} checkpoints takes too long."
    if reason is not None:
        return Estimate(value, reason=reason)
    interval = draws.interval(_redrawn(rule, candidates, draws))
    if interval is None:
        return Estimate(value, reason="In most draws of runs it is not defined.")
    return Estimate(value, *interval)


def _regret(rule: Rule, candidates: Candidates) -> float | None:
    usable = usable_for(rule, candidates)
    accuracy = usable.test_accuracy[rule.judge(usable).pick]
    return None if np.isnan(accuracy) else float(np.nanmax(candidates.test_accuracy) - accuracy)


def _redrawn(rule: Rule, candidates: Candidates, draws: Draws) -> Floats:
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


def _values(candidates: Candidates) -> tuple[Floats, Floats, Floats]:
    return candidates.susceptibility, candidates.train_accuracy, candidates.test_accuracy


def _column(candidates: Candidates, name: str) -> Floats:
    frame = candidates.table.frame
    if name not in frame.columns:
        return np.full(len(candidates), np.nan)
    return np.asarray(frame[name].to_numpy().astype(np.float64)[candidates.position])


def _estimate(
    kind: str, x: Floats, y: Floats, run: Integers, draws: Draws, zeta: Floats | None = None
) -> Estimate:
    known = np.isfinite(x) & np.isfinite(y)
    if zeta is not None:
        known &= np.isfinite(zeta)
    x, y, run = x[known], y[known], run[known]
    kept = np.ones(len(x), dtype=np.bool_)
    if zeta is not None:
        zeta = zeta[known]
        kept = zeta <= percentile(zeta, 50) if len(zeta) else kept
    if kept.sum() < 2:
        return Estimate(None, reason="Fewer than 2 checkpoints have both values.")
    if np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return Estimate(None, reason="One of the two values is the same everywhere.")
    value = _by_scipy(kind, x[kept], y[kept])
    interval = bootstrap(_MEASURES[kind], x, y, run, draws, zeta)
    if isinstance(interval, str):
        return Estimate(value, reason=interval)
    return Estimate(value, *interval)


def _by_scipy(kind: str, x: Floats, y: Floats) -> float:
    from scipy import stats

    functions = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    return float(functions[kind](x, y).statistic)


_MEASURES: dict[str, Measure] = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
