"""How well ζ and training accuracy agree with the truth, where the truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from rote.errors import InputError
from rote.selection.bootstrap import (
    Draws,
    Estimate,
    Measure,
    kendall,
    pearson,
    resampled,
    spearman,
)
from rote.selection.candidates import Candidates, Floats, Integers, candidates_of
from rote.selection.regions import percentile
from rote.selection.regret import estimate_regret
from rote.selection.rules import find_rule
from rote.selection.select_checkpoint import table_of

if TYPE_CHECKING:
    from rote.selection.rule import Rule
    from rote.store import RunTable


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
    judge = find_rule(rule)
    draws = Draws() if draws is None else draws
    candidates = candidates_of(table_of(runs), column)
    truth, train = ("zeta", "noisy_accuracy"), ("train_accuracy", "test_accuracy")
    return Agreement(
        column=column,
        runs=candidates.num_runs,
        checkpoints=len(candidates),
        memorization_pearson=correlation(candidates, *truth, "pearson", draws),
        memorization_spearman=correlation(candidates, *truth, "spearman", draws),
        train_test_pearson=correlation(candidates, *train, "pearson", draws),
        train_test_kendall=correlation(candidates, *train, "kendall", draws),
        filtered_pearson=correlation(candidates, *train, "pearson", draws, is_filtered=True),
        filtered_kendall=correlation(candidates, *train, "kendall", draws, is_filtered=True),
        rule=judge.name,
        regret=_regret_or_reason(judge, candidates, draws),
    )


def correlation(
    candidates: Candidates,
    one: str,
    other: str,
    kind: Literal["pearson", "spearman", "kendall"],
    draws: Draws,
    *,
    is_filtered: bool = False,
) -> Estimate:
    """Return the correlation of two columns, with an interval over runs.

    Args:
        candidates: the checkpoints.
        one: a column; ``zeta`` is the ζ that is selected by.
        other: another.
        kind: which correlation.
        draws: how runs are drawn for the interval.
        is_filtered: whether only checkpoints with ζ at most its median count.
    """
    known = candidates.known(one, other, *(["zeta"] if is_filtered else []))
    x, y, run = (
        candidates.values(one)[known],
        candidates.values(other)[known],
        candidates.run[known],
    )
    return correlation_of(x, y, run, kind, draws, candidates.zeta[known] if is_filtered else None)


def correlation_of(
    x: Floats,
    y: Floats,
    run: Integers,
    kind: str,
    draws: Draws,
    zeta: Floats | None = None,
) -> Estimate:
    """Return the correlation of two values per checkpoint, with an interval over runs.

    Args:
        x: one.
        y: the other.
        run: the run of each checkpoint.
        kind: ``pearson``, ``spearman`` or ``kendall``.
        draws: how runs are drawn for the interval.
        zeta: if given, only checkpoints with ζ at most its median count.
    """
    return resampled_correlation(x, y, run, kind, draws, zeta)[0]


def resampled_correlation(
    x: Floats,
    y: Floats,
    run: Integers,
    kind: str,
    draws: Draws,
    zeta: Floats | None = None,
) -> tuple[Estimate, Floats | None]:
    """Return what ``correlation_of`` returns, and the correlation in every draw of runs."""
    x, y = _without_overflow(x), _without_overflow(y)
    kept = np.ones(len(x), dtype=np.bool_)
    if zeta is not None and len(zeta):
        kept = zeta <= percentile(zeta, 50)
    if kept.sum() < 2:
        return Estimate(None, reason="Fewer than 2 checkpoints have both values."), None
    if np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return Estimate(None, reason="One of the two values is the same everywhere."), None
    value = _by_scipy(kind, x[kept], y[kept])
    drawn = resampled(_MEASURES[kind], x, y, run, draws, zeta)
    if isinstance(drawn, str):
        return Estimate(value, reason=drawn), None
    return draws.estimate(value, drawn), drawn


def _without_overflow(values: Floats) -> Floats:
    """Scale values whose squares would overflow, which changes no correlation."""
    largest = float(np.abs(values).max(initial=0.0))
    return values / largest if largest > _SQUARABLE else values


def _regret_or_reason(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    try:
        return estimate_regret(rule, candidates, draws)
    except InputError as error:
        return Estimate(None, reason=str(error))


def _by_scipy(kind: str, x: Floats, y: Floats) -> float:
    from scipy import stats

    functions = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    return float(functions[kind](x, y).statistic)


_SQUARABLE = 1e100

_MEASURES: dict[str, Measure] = {"pearson": pearson, "spearman": spearman, "kendall": kendall}
