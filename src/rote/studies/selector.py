"""A way to select a checkpoint, judged by test accuracy, which it does not see."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError, RoteWarning
from rote.selection import (
    Candidates,
    Draws,
    Estimate,
    describe_rule,
    find_rule,
    keep_usable,
    resample_correlation,
    resample_regret,
)
from rote.studies.cost import Cost

if TYPE_CHECKING:
    from rote.selection import Booleans, Floats, Rule

TRUTH = "test_accuracy"
_GAUGE = "noisy_accuracy"
_NOTHING = Cost()
_MOST_CHOICES = 100
"""Resamples in which a rule selects again; few, because that is slow."""
_PASS_OVER_DIPS = ("auto", "posterior")
"""Rules that score checkpoints whose training accuracy dropped, and do not select them."""


@dataclass(frozen=True)
class Selector:
    """A row of the leaderboard: a rule with its options and cost.

    Attributes:
        name: the name of the row.
        rule: the rule, as in ``rote select --rule``.
        cost: the cost beyond training.
        options: the options of the rule.
        alone: whether it sees only one run at a time, like a user with one run.
    """

    name: str
    rule: str
    cost: Cost = _NOTHING
    options: Mapping[str, Any] = field(default_factory=dict)
    alone: bool = False


@dataclass(frozen=True)
class Judgment:
    """The results of a selector in one pool; None for measures that do not apply.

    Attributes:
        per_run: by run, the test accuracy of the run's best checkpoint minus that of the pick.
        regret: the mean of ``per_run``.
        pool: the same difference for the best checkpoint and the pick among all runs.
        pearson: the correlation of its score with the accuracy on mislabeled training samples.
        spearman: the rank correlation of the same.
        kendall: τ-b of its score with test accuracy, over all checkpoints.
        error: for a rule that estimates the accuracy, the mean distance to the test accuracy.
        at_pick: estimated and test accuracy of its pick among all runs.
        drawn: by name, each measure in every resample of runs, if there are enough runs.
    """

    per_run: tuple[float, ...]
    regret: Estimate
    pool: Estimate | None = None
    pearson: Estimate | None = None
    spearman: Estimate | None = None
    kendall: Estimate | None = None
    error: Estimate | None = None
    at_pick: tuple[float, float] | None = None
    drawn: Mapping[str, Floats] = field(default_factory=dict)

    def list_measures(self) -> dict[str, Estimate]:
        """Return the known measures by name."""
        names = ("regret", "pool", "pearson", "spearman", "kendall", "error")
        found = {name: getattr(self, name) for name in names}
        return {name: estimate for name, estimate in found.items() if estimate is not None}


def judge(selector: Selector, candidates: Candidates, draws: Draws) -> Judgment | None:
    """Return the results of a selector in a pool; None if its columns are not recorded."""
    rule = find_rule(selector.rule, selector.options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RoteWarning)
        try:
            return _judge_picks(selector, rule, candidates, draws)
        except InputError:
            return None


def _judge_picks(
    selector: Selector, rule: Rule, candidates: Candidates, draws: Draws
) -> Judgment | None:
    parts = list(candidates.by_run())
    score, is_estimate = (None, False) if selector.alone else _compute_score(rule, candidates)
    if score is None:
        picks = [_pick_alone(rule, candidates, part) for part in parts]
    else:
        steady = candidates.steady if rule.name in _PASS_OVER_DIPS else None
        picks = [_pick_scored(score, candidates, part, steady) for part in parts]
    lost = [
        _compute_regret(candidates, part, pick) for part, pick in zip(parts, picks, strict=True)
    ]
    known = np.array([value for value in lost if value is not None])
    if not len(known):
        return None
    found = {"regret": _resample_mean(known, draws)}
    if not selector.alone and score is None:
        found["pool"] = _resample_pool_regret(rule, candidates, draws)
    elif score is not None:
        found["pool"] = _resample_scored_regret(score, picks, candidates, draws)
        found |= _resample_agreement(score, candidates, draws)
    at_pick = None
    if score is not None and is_estimate:
        truth = candidates.values(TRUTH)
        distances = np.array([np.nanmean(np.abs(score - truth)[part]) for part in parts])
        found["error"] = _resample_mean(distances[np.isfinite(distances)], draws)
        best = candidates.best(score, np.array([pick for pick in picks if pick is not None]))
        at_pick = (float(score[best]), float(truth[best]))
    return Judgment(
        per_run=tuple(known.tolist()),
        at_pick=at_pick,
        drawn={name: drawn for name, (_, drawn) in found.items() if drawn is not None},
        **{name: estimate for name, (estimate, _) in found.items()},
    )


def _compute_score(rule: Rule, candidates: Candidates) -> tuple[Floats | None, bool]:
    """Return the score of every checkpoint, higher is better; None if the rule has none.

    Also return whether the score is an estimate of the accuracy.
    """
    column, sign = getattr(rule, "column", None), 1.0
    if column is not None:
        if not candidates.known(column).any():
            raise InputError(f"The runs did not record {column}.")
        sign = -1.0 if rule.name.startswith("min:") else 1.0
        return np.asarray(sign * candidates.values(column)), False
    usable = keep_usable(rule, candidates)
    decision = rule.judge(usable)
    if decision.score is None:
        return None, False
    score = np.full(len(candidates), np.nan)
    score[np.isin(candidates.position, usable.position)] = decision.score
    return score, "estimated_accuracy" in decision.columns


def _pick_alone(rule: Rule, candidates: Candidates, part: slice) -> int | None:
    try:
        usable = keep_usable(rule, candidates.take(np.arange(part.start, part.stop)))
        picked = usable.position[rule.judge(usable).pick]
    except InputError:
        return None
    return int(np.flatnonzero(candidates.position == picked)[0])


def _pick_scored(
    score: Floats, candidates: Candidates, part: slice, steady: Booleans | None
) -> int | None:
    among = np.arange(part.start, part.stop)
    among = among[np.isfinite(score[part])]
    if steady is not None and steady[among].any():
        among = among[steady[among]]
    return candidates.best(score, among) if len(among) else None


def _compute_regret(candidates: Candidates, part: slice, pick: int | None) -> float | None:
    truth = candidates.values(TRUTH)
    best = np.fmax.reduce(truth[part])
    return None if pick is None or not np.isfinite(truth[pick]) else float(best - truth[pick])


_Drawn = tuple[Estimate, "Floats | None"]


def estimate_mean(values: Floats, draws: Draws) -> Estimate:
    """Return the mean of values with its interval."""
    rng = np.random.default_rng(draws.seed)
    drawn = values[rng.integers(len(values), size=(draws.resamples, len(values)))].mean(axis=1)
    interval = draws.interval(drawn) if len(values) > 1 else None
    return Estimate(float(values.mean()), *(interval or (None, None)))


def _resample_mean(values: Floats, draws: Draws) -> _Drawn:
    """Return the mean over runs, and its value in every resample of runs."""
    value = float(values.mean())
    if len(values) < 2:
        return Estimate(value), None
    drawn = draws.counts(len(values)) @ values / len(values)
    return draws.estimate(value, drawn), drawn


def _resample_pool_regret(rule: Rule, candidates: Candidates, draws: Draws) -> _Drawn:
    """Return the regret across runs; the rule selects again in every resample of runs."""
    usable = keep_usable(rule, candidates)
    picked = float(usable.values(TRUTH)[rule.judge(usable).pick])
    value = float(np.fmax.reduce(candidates.values(TRUTH))) - picked
    if describe_rule(rule).not_resampled is not None:
        return Estimate(value), None
    drawn = resample_regret(
        rule, candidates, replace(draws, resamples=min(draws.resamples, _MOST_CHOICES))
    )
    return draws.estimate(value, drawn), drawn


def _resample_scored_regret(
    score: Floats, picks: Sequence[int | None], candidates: Candidates, draws: Draws
) -> _Drawn:
    """Return the same for a score that does not depend on other runs."""
    truth = candidates.values(TRUTH)
    runs = {pick: run for run, pick in enumerate(picks) if pick is not None}
    order: list[int] = []
    while left := runs.keys() - order:
        order.append(candidates.best(score, np.array(sorted(left))))
    best = np.array([np.fmax.reduce(truth[part]) for part in candidates.by_run()])
    is_drawn = draws.counts(len(best)) > 0
    has_pick = is_drawn[:, [runs[pick] for pick in order]]
    picked = np.where(has_pick.any(axis=1), truth[order][has_pick.argmax(axis=1)], np.nan)
    drawn = np.fmax.reduce(np.where(is_drawn, best, np.nan), axis=1) - picked
    return draws.estimate(float(np.fmax.reduce(best) - truth[order[0]]), drawn), drawn


def _resample_agreement(score: Floats, candidates: Candidates, draws: Draws) -> dict[str, _Drawn]:
    kinds = {"pearson": _GAUGE, "spearman": _GAUGE, "kendall": TRUTH}
    found = {}
    for kind, truth in kinds.items():
        values = candidates.values(truth)
        known = np.isfinite(score) & np.isfinite(values)
        found[kind] = resample_correlation(
            score[known], values[known], candidates.run[known], kind, draws
        )
    return found
