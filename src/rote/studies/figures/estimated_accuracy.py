"""The accuracy that the posterior estimates without clean labels, compared with the truth."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.errors import InputError
from rote.selection import find_rule
from rote.studies.chart import draw_panels
from rote.studies.checkpoints import MOST_DRAWN, average_known, round_column
from rote.studies.markdown import count_pools, format_number, format_percent, write_table
from rote.studies.pool import FRESH
from rote.studies.selector import TRUTH
from rote.studies.study import Record, Study, is_for_rules, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates, Decision, Floats, Integers
    from rote.studies.pool import Pool


_FEW, _SETS, _ALONE = 4, 2, 6
"""The number of runs in a small set, of such sets, and of runs considered alone."""

_NEAR = 0.01

_PURPOSES = {"judged": "for judging", "chosen": "for choosing constants", FRESH: "that came later"}


def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
    """Return the errors of the estimates, over all checkpoints and at the selected one."""
    try:
        verdict = find_rule("posterior").judge(candidates)
    except InputError:
        return None
    assert verdict.score is not None
    rng = np.random.default_rng(0)
    small = min(_FEW, candidates.num_runs)
    few = [rng.choice(candidates.num_runs, small, replace=False) for _ in range(_SETS)]
    alone = rng.choice(candidates.num_runs, (min(_ALONE, candidates.num_runs), 1), replace=False)
    truth = candidates.values(TRUTH)
    known = np.flatnonzero(np.isfinite(verdict.score) & np.isfinite(truth))
    estimated, true = verdict.score[known], truth[known]
    chosen = np.linspace(0, len(known) - 1, min(MOST_DRAWN, len(known))).astype(int)
    return {
        "purpose": pool.purpose,
        "bias": float((estimated - true).mean()),
        "error": float(np.abs(estimated - true).mean()),
        "pearson": float(np.corrcoef(estimated, true)[0, 1]),
        "pick": _pick(verdict, truth),
        "few": _select_among(candidates, few),
        "alone": _select_among(candidates, alone),
        "points": {
            "estimated": round_column(estimated[chosen]),
            "true": round_column(true[chosen]),
        },
    }


def _pick(verdict: Decision, truth: Floats) -> Record:
    assert verdict.score is not None
    return {
        "estimated": float(verdict.score[verdict.pick]),
        "interval": list(verdict.interval) if verdict.interval else None,
        "confidence": verdict.findings.confidence,
        "true": float(truth[verdict.pick]),
        "best": float(np.fmax.reduce(truth)),
    }


def _select_among(candidates: Candidates, sets: Iterable[Integers]) -> list[Record]:
    """Select among some of the runs, if their votes are informative."""
    found = []
    for runs in sets:
        part = candidates.take(np.isin(candidates.run, runs))
        try:
            verdict = find_rule("posterior").judge(part)
        except InputError:
            continue  # one run without nearest-neighbor votes
        if verdict.findings.confidence is not None:
            found.append(_pick(verdict, part.values(TRUTH)))
    return found


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    return write_table(
        "pool",
        [
            "mean of estimate − truth",
            "mean distance",
            "Pearson",
            "the pick: estimate",
            "interval",
            "confidence",
            "test accuracy",
            "best of the pool",
        ],
        {name: _write_cells(pool) for name, pool in record["pools"].items()},
    )


def _write_cells(pool: Record) -> list[str]:
    pick = pool["pick"]
    ends = " to ".join(format_percent(end) for end in pick["interval"] or ())
    return [
        format_percent(pool["bias"]),
        format_percent(pool["error"]),
        format_number(pool["pearson"]),
        *(format_percent(pick["estimated"]), ends or "–", format_percent(pick["confidence"])),
        *(format_percent(pick["true"]), format_percent(pick["best"])),
    ]


def write_finding(record: Record) -> str:
    """Return means over pools, the coverage of the intervals, and the confidence of the rule.

    Two constants of the interval and the confidence were chosen on the pools for choosing.
    """
    pools = list(record["pools"].values())
    error, bias = (
        format_percent(average_known([p[key] for p in pools])) for key in ("error", "bias")
    )
    told = [f"Over {count_pools(pools)} the estimate is off by {error} on average (bias {bias})."]
    for purpose, words in _PURPOSES.items():
        part = [pool for pool in pools if pool["purpose"] == purpose]
        told += [f"On {count_pools(part)} {words}, {_describe_hits(part)}"] if part else []
    return " ".join(told)


def _describe_hits(pools: list[Record]) -> str:
    """Return the coverage of the intervals and the share of selected checkpoints near the best."""
    sets = {
        "among all runs": [
            pool["pick"] for pool in pools if pool["pick"]["confidence"] is not None
        ],
        f"among {_FEW} runs": [pick for pool in pools for pick in pool["few"]],
        "of one run alone": [pick for pool in pools for pick in pool["alone"]],
    }
    held = ", ".join(f"{_count(picks)} {key}" for key, picks in sets.items() if picks)
    picks = [pick for found in sets.values() for pick in found]
    sure = average_known([pick["confidence"] for pick in picks])
    near = average_known([float(pick["true"] >= pick["best"] - _NEAR) for pick in picks])
    return (
        f"the 95 % interval contains the test accuracy of the selected checkpoint in {held}; the "
        f"mean confidence is {format_percent(sure)}, and {format_percent(near)} of the selected "
        "checkpoints are within 1 point of the best on test data."
    )


def _count(picks: list[Record]) -> str:
    held = sum(pick["interval"][0] <= pick["true"] <= pick["interval"][1] for pick in picks)
    return f"{held} of {len(picks)}"


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a point for each checkpoint."""
    rows = [
        {"pool": name, "estimated": estimated, "true": true}
        for name, pool in record["pools"].items()
        for estimated, true in zip(*pool["points"].values(), strict=True)
    ]
    titles = ("test accuracy", "estimated without clean labels")
    return draw_panels(rows, "circle", "true:Q", "estimated:Q", titles=titles)


STUDY = Study(
    name="estimated-accuracy",
    title="the accuracy that the posterior estimates, compared with the truth",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_for_rules,
    draw=draw,
)
