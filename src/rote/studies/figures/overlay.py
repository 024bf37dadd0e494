"""ζ and memorization during one training, and the checkpoint that ζ would keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import correlate
from rote.studies.chart import draw_panels
from rote.studies.checkpoints import DRAWS, NOISY, PLAIN, ZETA, average_known, round_column
from rote.studies.markdown import format_number, format_percent, write_table
from rote.studies.selector import Selector, judge
from rote.studies.study import Brief, Record, Study, is_broad, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_ENOUGH = 0.7
_SHOWN = 4
_KEEPERS = {
    "before ζ rises": "before-rise",
    "lowest ζ": f"min:{ZETA}",
    "last checkpoint": "last",
}


def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlation within each run, the points each way loses, and some curves."""
    if not candidates.known(NOISY).any():
        return None
    parts = list(candidates.by_run())
    within = {name: [_correlate_run(candidates, p, name) for p in parts] for name in (ZETA, PLAIN)}
    known = [value for value in within[ZETA] if value is not None]
    lost = {
        name: judge(Selector(name, rule, alone=True), candidates, DRAWS)
        for name, rule in _KEEPERS.items()
    }
    return {
        "median": float(np.median(known)) if known else None,
        "plain_median": float(np.median([v for v in within[PLAIN] if v is not None] or [0.0])),
        "positive": float(np.mean(np.array(known) > 0)) if known else None,
        "runs": len(known),
        "regret": {
            name: average_known(list(found.per_run)) for name, found in lost.items() if found
        },
        "curves": _list_curves(pool, candidates, parts),
    }


def _list_curves(pool: Pool, candidates: Candidates, parts: list[slice]) -> list[Record]:
    """Return both curves of the run that memorizes most, for the first few architectures."""
    memorized = candidates.values(NOISY)
    order = sorted(parts, key=lambda part: -float(np.nan_to_num(memorized[part]).max()))
    found: dict[str, Record] = {}
    for part in order:
        run = candidates.runs[candidates.run[part.start]]
        architecture = pool.specs[run].architecture.name
        if architecture not in found and len(found) < _SHOWN:
            found[architecture] = {
                "run": run,
                "architecture": architecture,
                "step": candidates.step[part].tolist(),
                "ζ": round_column(_scale_to_unit(candidates.values(ZETA)[part])),
                "accuracy on noisy labels": round_column(_scale_to_unit(memorized[part])),
            }
    return list(found.values())


def _correlate_run(candidates: Candidates, part: slice, column: str) -> float | None:
    x, y = candidates.values(column)[part], candidates.values(NOISY)[part]
    known = np.isfinite(x) & np.isfinite(y)
    return correlate(x[known], y[known], candidates.run[part][known], "pearson", DRAWS).value


def _scale_to_unit(values: np.ndarray) -> np.ndarray:
    """Scale values to 0 to 1, so that two curves can be compared; unknown values are 0."""
    known = np.nan_to_num(values)
    return np.asarray((known - known.min()) / (np.ptp(known) or 1.0))


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    return write_table(
        "pool",
        [
            "runs",
            "median Pearson within a run, ζ",
            "ζ of the reference step",
            "runs with a positive one",
            *(f"points lost, {name}" for name in _KEEPERS),
        ],
        {
            name: [
                str(pool["runs"]),
                format_number(pool["median"]),
                format_number(pool["plain_median"]),
                format_percent(pool["positive"]),
                *(format_percent(pool["regret"].get(way)) for way in _KEEPERS),
            ]
            for name, pool in record["pools"].items()
        },
    )


def write_finding(record: Record) -> str:
    """Return the medians, and the points lost by each way to keep a checkpoint."""
    pools = list(record["pools"].values())
    medians = [pool["median"] for pool in pools if pool["median"] is not None]
    lost = {way: average_known([pool["regret"].get(way) for pool in pools]) for way in _KEEPERS}
    said = ", ".join(f"{way} {format_percent(value)}" for way, value in lost.items())
    return (
        "Within one run, the median correlation of ζ with memorization is "
        f"{format_number(min(medians))} to {format_number(max(medians))}; test accuracy lost by "
        f"keeping a checkpoint: {said}."
        if medians
        else "No run has both curves."
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: solid accuracy on noisy labels, dashed ζ, by architecture."""
    rows = [
        {"pool": name, "architecture": found["architecture"], "step": step}
        | {"curve": curve, "value": value}
        for name, pool in record["pools"].items()
        for found in pool["curves"]
        for curve in ("accuracy on noisy labels", "ζ")
        for step, value in zip(found["step"], found[curve], strict=True)
    ]
    return draw_panels(
        rows,
        "line",
        "step:Q",
        "value:Q",
        titles=("epoch", "scaled to 0 … 1"),
        color="architecture:N",
        dash="curve:N",
    )


def write_brief(record: Record) -> Brief:
    """Return the median correlation within a run."""
    pools = [pool for pool in record["pools"].values() if pool["median"] is not None]
    mean = average_known([pool["median"] for pool in pools])
    if mean is None:
        return Brief("not known", None)
    held = [pool["median"] >= _ENOUGH for pool in pools]
    return Brief(f"median ρ within a run {format_number(mean)}", judge_claim(held))


STUDY = Study(
    name="overlay",
    title="ζ and memorization during one training, and which checkpoint to keep",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:rversusmemtogether",),
    cause="On the paper’s architectures, the match is as strong as in the paper. In other pools "
    "ζ, a mean since the first epoch, lags where networks memorize labels within a few epochs. "
    "Under a cosine schedule, whose last steps change nothing, ζ falls while memorization "
    "remains. Keeping the checkpoint before the rise loses about as much as keeping the last one: "
    "with few samples, the best checkpoint is rarely the first.",
    cause_at_medium=(
        "Within a run, ζ rises with memorization, as in the paper. It is also low in the first "
        "epochs, before the network has learned anything, so the lowest ζ is no rule to keep a "
        "checkpoint."
    ),
    brief=write_brief,
)
