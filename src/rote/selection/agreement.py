"""Agreement with the known truth: correlations, and the regret of a rule."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from rote.errors import InputError
from rote.selection.bootstrap import (
    Draws,
    Estimate,
    Measure,
    explain_too_few,
    kendall,
    pearson,
    resample,
    spearman,
)
from rote.selection.candidates import Candidates, Floats, Integers, make_candidates
from rote.selection.regions import percentile
from rote.selection.rule import describe_rule
from rote.selection.rules import find_rule
from rote.selection.select_checkpoint import keep_usable, read_runs

if TYPE_CHECKING:
    from rote.selection.rule import Rule
    from rote.store import RunTable


@dataclass(frozen=True)
class Agreement:
    """Agreement with the truth, with intervals over runs; values without recorded truth are None.

    Attributes:
        column: the column of ζ.
        runs: the number of runs.
        checkpoints: the number of checkpoints.
        memorization_pearson: the correlation of ζ with the accuracy on mislabeled training samples.
        memorization_spearman: the same by ranks.
        train_test_pearson: the correlation of training accuracy with test accuracy.
        train_test_kendall: the same, τ-b.
        filtered_pearson: the same among checkpoints with ζ at most its median.
        filtered_kendall: the same, τ-b.
        rule: the rule of the regret.
        regret: the best test accuracy minus that of the rule's selected checkpoint.

    Example:
        >>> import polars as pl, tempfile
        >>> path = tempfile.mkdtemp() + "/a.csv"
        >>> pl.DataFrame({"step": [1, 2, 3], "susceptibility": [0.1, 0.2, 0.3],
        ...     "train_accuracy": [0.5, 0.7, 0.9], "test_accuracy": [0.5, 0.6,
        ...     0.4]}).write_csv(path)
        >>> agreement(f"csv:{path}").checkpoints
        3
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
    """Return correlations with the truth, and the regret of a rule.

    Args:
        runs: see ``select``.
        column: the column of ζ.
        rule: the rule whose selected checkpoint is compared with the best one.
        draws: how runs are drawn for the intervals.

    Returns:
        The correlations and the regret, each with its interval.

    Raises:
        InputError: if there is no such column, rule or run.
        CorruptRunError: if a file is damaged.

    Example:
        >>> import polars as pl, tempfile
        >>> path = tempfile.mkdtemp() + "/a.csv"
        >>> pl.DataFrame({"step": [1, 2, 3], "susceptibility": [0.1, 0.2, 0.3],
        ...     "train_accuracy": [0.5, 0.7, 0.9], "test_accuracy": [0.5, 0.6,
        ...     0.7]}).write_csv(path)
        >>> round(agreement(f"csv:{path}").train_test_pearson.value, 3)
        1.0
    """
    judge = find_rule(rule)
    draws = Draws() if draws is None else draws
    candidates = make_candidates(read_runs(runs), column)
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
        regret=_estimate_regret(judge, candidates, draws),
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
        one: a column; ``zeta`` is the column of ζ.
        other: another column.
        kind: the kind of correlation.
        draws: how runs are drawn for the interval.
        is_filtered: whether only checkpoints with ζ at most its median count.
    """
    known = candidates.known(one, other, *(["zeta"] if is_filtered else []))
    x, y, run = (
        candidates.values(one)[known],
        candidates.values(other)[known],
        candidates.run[known],
    )
    return correlate(x, y, run, kind, draws, candidates.zeta[known] if is_filtered else None)


def correlate(
    x: Floats,
    y: Floats,
    run: Integers,
    kind: str,
    draws: Draws,
    zeta: Floats | None = None,
) -> Estimate:
    """Return the correlation of two values per checkpoint, with an interval over runs.

    Args:
        x: the first value of each checkpoint.
        y: the second value.
        run: the run of each checkpoint.
        kind: ``pearson``, ``spearman`` or ``kendall``.
        draws: how runs are drawn for the interval.
        zeta: if given, only checkpoints with ζ at most its median count.
    """
    return resample_correlation(x, y, run, kind, draws, zeta)[0]


def resample_correlation(
    x: Floats,
    y: Floats,
    run: Integers,
    kind: str,
    draws: Draws,
    zeta: Floats | None = None,
) -> tuple[Estimate, Floats | None]:
    """Return what ``correlate`` returns, and the correlation in every draw of runs."""
    x, y = _scale_down(x), _scale_down(y)
    kept = np.ones(len(x), dtype=np.bool_)
    if zeta is not None and len(zeta):
        kept = zeta <= percentile(zeta, 50)
    if kept.sum() < 2:
        return Estimate(None, reason="Fewer than 2 checkpoints have both values."), None
    if np.ptp(x[kept]) == 0 or np.ptp(y[kept]) == 0:
        return Estimate(None, reason="One of the two values is the same everywhere."), None
    value = _compute_correlation(kind, x[kept], y[kept])
    drawn = resample(_MEASURES[kind], x, y, run, draws, zeta)
    if isinstance(drawn, str):
        return Estimate(value, reason=drawn), None
    return draws.estimate(value, drawn), drawn


def _scale_down(values: Floats) -> Floats:
    """Scale values whose squares would overflow; correlations do not change."""
    largest = float(np.abs(values).max(initial=0.0))
    return values / largest if largest > _SQUARABLE else values


def _estimate_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    try:
        return estimate_regret(rule, candidates, draws)
    except InputError as error:
        return Estimate(None, reason=str(error))


def _compute_correlation(kind: str, x: Floats, y: Floats) -> float:
    from scipy import stats

    functions = {
        "pearson": stats.pearsonr,
        "spearman": stats.spearmanr,
        "kendall": stats.kendalltau,
    }
    return float(functions[kind](x, y).statistic)


_SQUARABLE = 1e100

_MEASURES: dict[str, Measure] = {"pearson": pearson, "spearman": spearman, "kendall": kendall}


_MOST_REDONE = 100_000


def regret(
    runs: Path | str | Sequence[Path | str] | RunTable,
    rule: str | Rule = "regions",
    *,
    column: str = "susceptibility",
    draws: Draws | None = None,
    **options: Any,  # noqa: ANN401
) -> Estimate:
    """Return the best test accuracy minus that of the checkpoint that a rule selects.

    For the interval, the rule selects again in every draw of runs and is compared with the best of
    that draw.

    Args:
        runs: see ``select``.
        rule: see ``select``.
        column: the column of ζ.
        draws: how runs are drawn for the interval.
        options: the options of the rule.

    Returns:
        The regret, with its interval.

    Raises:
        InputError: see ``select``.
        CorruptRunError: if a file is damaged.

    Example:
        >>> import polars as pl, tempfile
        >>> path = tempfile.mkdtemp() + "/a.csv"
        >>> pl.DataFrame({"step": [1, 2, 3], "susceptibility": [0.1, 0.2, 0.3],
        ...     "train_accuracy": [0.5, 0.7, 0.9], "test_accuracy": [0.5, 0.6,
        ...     0.4]}).write_csv(path)
        >>> round(regret(f"csv:{path}", "last").value, 3)
        0.2
    """
    judge = find_rule(rule, options)
    draws = Draws() if draws is None else draws
    return estimate_regret(judge, make_candidates(read_runs(runs), column), draws)


def estimate_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Estimate:
    """Return the regret of a rule among candidates.

    Raises:
        InputError: if no candidate has the columns that the rule needs.
    """
    value = _compute_regret(rule, candidates)
    if value is None:
        return Estimate(None, reason="The test accuracy of the selected checkpoint is not known.")
    reason = describe_rule(rule).not_resampled or explain_too_few(candidates.num_runs)
    if reason is None and len(candidates) > _MOST_REDONE:
        reason = f"Selecting again among more than {_MOST_REDONE} checkpoints takes too long."
    if reason is not None:
        return Estimate(value, reason=reason)
    return draws.estimate(value, resample_regret(rule, candidates, draws))


def _compute_regret(rule: Rule, candidates: Candidates) -> float | None:
    usable = keep_usable(rule, candidates)
    accuracy = usable.values("test_accuracy")[rule.judge(usable).pick]
    best = np.fmax.reduce(candidates.values("test_accuracy"))
    return None if np.isnan(accuracy) else float(best - accuracy)


def resample_regret(rule: Rule, candidates: Candidates, draws: Draws) -> Floats:
    """Return the regret in every resample of runs, in which the rule selects again."""
    parts = list(candidates.by_run())
    rng = np.random.default_rng(draws.seed)
    values = np.full(draws.resamples, np.nan)
    for draw in range(draws.resamples):
        drawn = [parts[i] for i in np.sort(rng.integers(len(parts), size=len(parts)))]
        with suppress(InputError):  # a draw of runs that all lack what the rule needs
            value = _compute_regret(rule, _repeat(candidates, drawn))
            values[draw] = np.nan if value is None else value
    return values


def _repeat(candidates: Candidates, parts: list[slice]) -> Candidates:
    """Return consecutive slices of runs, each as a separate run, also if it occurs twice."""
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    return replace(
        candidates.take(rows),
        runs=tuple(candidates.runs[candidates.run[part.start]] for part in parts),
        run=np.repeat(np.arange(len(parts)), [part.stop - part.start for part in parts]),
    )
