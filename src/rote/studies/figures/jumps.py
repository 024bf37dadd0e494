"""Sharp rises of training accuracy, and whether they come from right or from wrong labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import correlate
from rote.studies.chart import draw_jumps
from rote.studies.checkpoints import DRAWS, NOISY, ZETA, correlate_columns, list_values, sample
from rote.studies.markdown import format_interval, format_number, format_percent, write_table
from rote.studies.study import Brief, Record, Study, judge_claim, match_group, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_SHARP = 95
"""A rise between two readings is sharp above this percentile of all rises of the pool."""

_SHOWN = ("cross-entropy", "mixup", "nce-rce")
_SUBSETS = {"all labels": "train_accuracy", "right labels": "clean_accuracy", "wrong labels": NOISY}
_DRAWN = 120
_MIXED = 0.05
"""Sharp rises have both causes if each has at least this share of them."""


def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
    """Return the causes of sharp rises, and how well rises and ζ predict memorization."""
    if not candidates.known(NOISY, "clean_accuracy").any():
        return None
    kinds = np.array([pool.specs[run].objective.name for run in candidates.runs])[candidates.run]
    shown = np.isin(kinds, _SHOWN)
    rises = {name: _compute_rises(candidates, column) for name, column in _SUBSETS.items()}
    known = np.isfinite(rises["all labels"]) & shown
    if not known.any():
        return None
    sharp = known & (rises["all labels"] >= np.percentile(rises["all labels"][known], _SHARP))
    of_right = rises["right labels"][sharp] > rises["wrong labels"][sharp]
    return {
        "sharp": int(sharp.sum()),
        "right": float(of_right.mean()),
        "zeta": correlate_columns(candidates, ZETA, NOISY, among=shown),
        "rise": _correlate_rises(rises["all labels"], candidates, known),
        "points": {
            kind: sample(
                candidates,
                {"zeta": ZETA, **_SUBSETS},
                most=_DRAWN,
                among=kinds == kind,
            )
            for kind in _SHOWN
            if (kinds == kind).any()
        },
        "jumps": {
            kind: _list_jumps(candidates, np.flatnonzero(sharp & (kinds == kind)), rises)
            for kind in _SHOWN
        },
    }


def _list_jumps(
    candidates: Candidates, places: np.ndarray, rises: dict[str, np.ndarray]
) -> list[Record]:
    """Return ζ, training accuracy and cause of sharp rises."""
    zeta, train = candidates.values(ZETA), candidates.values("train_accuracy")
    right, wrong = rises["right labels"], rises["wrong labels"]
    return [
        {"zeta": float(f"{zeta[place]:.4g}"), "accuracy": float(f"{train[place]:.4g}")}
        | {"cause": "right labels" if right[place] > wrong[place] else "wrong labels"}
        for place in places
        if np.isfinite(zeta[place])
    ]


def _compute_rises(candidates: Candidates, column: str) -> np.ndarray:
    """Return the change since the previous reading; NaN at the first reading of a run."""
    values = candidates.values(column)
    rises = np.diff(values, prepend=np.nan)
    rises[np.diff(candidates.run, prepend=-1) != 0] = np.nan
    return rises


def _correlate_rises(
    rises: np.ndarray, candidates: Candidates, among: np.ndarray
) -> list[float | None]:
    chosen = among & candidates.known(NOISY)
    x, y = rises[chosen], candidates.values(NOISY)[chosen]
    return list_values(correlate(x, y, candidates.run[chosen], "pearson", DRAWS, None))


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    note = "Stars in the figure are sharp rises, in the color of the labels that rose most."
    table = write_table(
        "pool",
        [
            *("sharp rises", "of which from right labels", "of which from wrong labels"),
            *("Pearson with memorization: ζ", "Pearson with memorization: the rise"),
        ],
        {
            name: [
                str(pool["sharp"]),
                format_percent(pool["right"]),
                format_percent(1 - pool["right"]),
                format_interval(pool["zeta"]),
                format_interval(pool["rise"]),
            ]
            for name, pool in record["pools"].items()
        },
    )
    return f"{note}\n\n{table}"


def write_finding(record: Record) -> str:
    """Return the causes of sharp rises, and both correlations."""
    return " ".join(
        f"{name}: of {pool['sharp']} sharp rises of training accuracy, "
        f"{format_percent(pool['right'])} come from right labels and "
        f"{format_percent(1 - pool['right'])} from wrong ones; Pearson correlation with "
        f"memorization: the rise {format_number(pool['rise'][0])}, "
        f"ζ {format_number(pool['zeta'][0])} (paper: 0.64)."
        for name, pool in record["pools"].items()
    )


def write_brief(record: Record) -> Brief:
    """Return whether rises have both causes, and whether ζ predicts memorization better."""
    pools = list(record["pools"].values())
    known = [p for p in pools if p["zeta"][0] is not None and p["rise"][0] is not None]
    if not known:
        return Brief("not known", None)
    first = known[0]
    mixed = [_MIXED <= pool["right"] <= 1 - _MIXED for pool in known]
    ahead = [pool["zeta"][0] > abs(pool["rise"][0]) for pool in known]
    ours = (
        f"ρ of ζ {format_number(first['zeta'][0])}, of the rise {format_number(first['rise'][0])}"
    )
    return Brief(ours, judge_claim([*mixed, *ahead]))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: accuracies against ζ by objective, sharp rises as stars."""
    points = {
        kind: [
            {"zeta": point["zeta"], "accuracy": point[subset], "on": subset}
            for pool in record["pools"].values()
            for point in pool["points"].get(kind, [])
            for subset in _SUBSETS
        ]
        for kind in _SHOWN
    }
    jumps = {
        kind: [jump for pool in record["pools"].values() for jump in pool["jumps"][kind]]
        for kind in _SHOWN
    }
    return draw_jumps(points, jumps)


STUDY = Study(
    name="jumps",
    title="sharp rises of training accuracy, from right labels or from wrong ones",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=match_group("objectives"),
    draw=draw,
    paper=("fig:train_slope",),
    cause="At this size, networks learn right labels in the first epochs, so most sharp rises "
    "come from these. The sharpness of a rise says almost nothing about memorization.",
    brief=write_brief,
)
