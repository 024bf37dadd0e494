"""ζ against the accuracy on wrongly labeled training samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import panels
from rote.studies.checkpoints import NOISY, PLAIN, ZETA, correlation, mean_of, sample
from rote.studies.markdown import counted, interval, number, table
from rote.studies.study import Record, Study, by_pool, is_broad

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool
    from rote.workloads import RunSpec

_COLUMNS = {"pearson": ZETA, "plain": PLAIN}
_ENOUGH = 0.7
_EXPLODED = 10.0
"""A ζ that only a loss gone wild has: to guess among ten classes costs 2.3."""


def pool_record(pool: Pool, candidates: Candidates) -> Record | None:
    """Pearson's and Spearman's correlation of both ζ with memorization, over and within recipes."""
    if not candidates.known(NOISY).any():
        return None
    found: dict[str, Any] = {
        name: correlation(candidates, column, NOISY) for name, column in _COLUMNS.items()
    }
    found["spearman"] = correlation(candidates, ZETA, NOISY, kind="spearman")
    found["plain_spearman"] = correlation(candidates, PLAIN, NOISY, kind="spearman")
    tame = np.array([_is_tame(candidates.values(ZETA)[part]) for part in candidates.by_run()])
    found["diverged"] = int((~tame).sum())
    found["tame"] = correlation(candidates, ZETA, NOISY, among=tame[candidates.run])
    recipes = np.array([_recipe(pool.specs[run]) for run in candidates.runs])
    groups = {
        r: candidates.take(((recipes == r) & tame)[candidates.run]) for r in np.unique(recipes)
    }
    found["recipes"] = {str(r): correlation(of, ZETA, NOISY)[0] for r, of in groups.items()}
    found["is_half"] = pool.is_half_random
    found["points"] = {
        str(r): sample(of, {"zeta": ZETA, "memorized": NOISY}, most=40) for r, of in groups.items()
    }
    return found


def _recipe(spec: RunSpec) -> str:
    optimizer, schedule = spec.optimizer, spec.schedule
    parts = [f"{optimizer.name} {optimizer.lr:g}", schedule.name]
    if hasattr(optimizer, "momentum"):
        parts[0] += f" momentum {optimizer.momentum:g}"
    if (length := getattr(schedule, "t_max", None)) is not None:
        parts[1] += f" {length}"
    return ", ".join(parts)


def _is_tame(zeta: np.ndarray) -> bool:
    return bool(np.nanmax(np.abs(zeta), initial=0.0) < _EXPLODED)


def text(record: Record) -> str:
    """Return a row for each pool."""
    keys = ("pearson", "spearman", "tame")
    return table(
        "pool",
        [
            *("Pearson, ζ", "Spearman, ζ", "Pearson, ζ, without diverged runs", "diverged runs"),
            "and within a recipe: mean (lowest to highest)",
            *("Pearson, plain relative ζ", "Spearman, plain relative ζ"),
        ],
        {
            name: [
                *(interval(pool[key]) for key in keys),
                str(pool["diverged"]),
                interval(_within(pool)),
                *(interval(pool[key]) for key in ("plain", "plain_spearman")),
            ]
            for name, pool in record["pools"].items()
        },
    )


def _within(pool: Record) -> list[float | None]:
    """Return the mean over recipes, and the ends."""
    known = [value for value in pool["recipes"].values() if value is not None]
    return [mean_of(known), min(known), max(known)] if known else [None]


def finding(record: Record) -> str:
    """Where what was expected holds: on pools with half of the labels resampled, and on all."""
    pools = record["pools"]
    known = {name: p["pearson"][0] for name, p in pools.items() if p["pearson"][0] is not None}
    half = {name: value for name, value in known.items() if pools[name]["is_half"]}
    said = []
    if half:
        each = ", ".join(f"{name} {number(value)}" for name, value in half.items())
        holds = all(value >= _ENOUGH for value in half.values())
        words = "confirmed" if holds else "refuted as it stands"
        said.append(
            f"Pearson of ζ where half of the labels are resampled: {each} (expected 0.7 or more: "
            f"{words})."
        )
    enough = sum(value >= _ENOUGH for value in known.values())
    said.append(
        f"It is 0.7 or more in {enough} of {counted(known)}; "
        f"on average {number(mean_of(list(known.values())))} over all runs, "
        f"{number(_mean(pools, lambda p: p['tame'][0]))} without those whose loss diverged, "
        f"and {number(_mean(pools, lambda p: _within(p)[0]))} of these within a recipe; "
        f"plain relative ζ {number(_mean(pools, lambda p: p['plain'][0]))}."
    )
    return " ".join(said)


def _mean(pools: Mapping[str, Record], value: Callable[[Record], float | None]) -> float | None:
    return mean_of([value(pool) for pool in pools.values()])


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a point for each checkpoint, a color for each recipe."""
    rows = [
        {"pool": name, "recipe": recipe} | point
        for name, pool in record["pools"].items()
        for recipe, points in pool["points"].items()
        for point in points
    ]
    titles = ("ζ (without diverged runs)", "accuracy on noisy labels")
    return panels(rows, "circle", "zeta:Q", "memorized:Q", titles=titles, color="recipe:N")


STUDY = Study(
    name="tracking",
    title="ζ tracks the accuracy on wrongly labeled training samples",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:rversusmem",),
    cause="Every recipe has a line of its own (figure): the drop of one step grows with the "
    "learning rate, so that a pool of mixed recipes has a lower correlation than each "
    "of them. And ζ is a mean since the first epoch, so that a run whose loss diverged "
    "once (perceptrons without batch normalization at a rate of 0.1) keeps that for "
    "good. Where rules made the noise (youtube), wrong labels follow from the words and "
    "are learned at once: their accuracy hardly varies.",
)
