"""ζ against the accuracy on mislabeled training samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import draw_memorization
from rote.studies.checkpoints import (
    ALL_RUNS,
    NO_NORM,
    NOISY,
    NORM,
    PLAIN,
    ZETA,
    average_known,
    correlate_by_group,
    correlate_columns,
    describe_recipe,
    find_diverged,
    group_runs,
    sample,
)
from rote.studies.markdown import count_pools, format_interval, format_number, write_table
from rote.studies.study import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    Brief,
    Record,
    Study,
    is_broad,
    measure_by_pool,
)

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_ENOUGH, _SOME = 0.7, 0.4
_DRAWN = 300


def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlations of ζ with memorization, by group of runs and within recipes."""
    if not candidates.known(NOISY).any():
        return None
    groups = group_runs(pool, candidates)
    among = groups.get(NORM, groups[ALL_RUNS])
    recipes = np.array([describe_recipe(pool.specs[run]) for run in candidates.runs])
    within = {
        str(r): correlate_columns(
            candidates, ZETA, NOISY, among=among & (recipes == r)[candidates.run]
        )
        for r in np.unique(recipes)
    }
    diverged = find_diverged(candidates)
    return {
        "groups": correlate_by_group(pool, candidates, ZETA, NOISY),
        "spearman": correlate_columns(candidates, ZETA, NOISY, kind="spearman"),
        "plain": correlate_columns(candidates, PLAIN, NOISY),
        "diverged": int(diverged.sum()),
        "recipes": {name: found[0] for name, found in within.items()},
        "is_half": pool.is_half_random,
        "points": sample(
            candidates,
            {"zeta": ZETA, "memorized": NOISY},
            most=_DRAWN,
            pool=pool,
            among=~diverged[candidates.run],
        ),
    }


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    return write_table(
        "pool",
        [
            *("Pearson, all runs", "diverged runs", "Pearson, batch norm"),
            "Pearson, no batch norm, without diverged runs",
            "within a recipe, batch norm: mean (lowest to highest)",
            *("Spearman, all runs", "Pearson, ζ of the reference step"),
        ],
        {
            name: [
                format_interval(pool["groups"][ALL_RUNS]),
                str(pool["diverged"]),
                *(format_interval(pool["groups"].get(group)) for group in (NORM, NO_NORM)),
                format_interval(_average_recipes(pool)),
                *(format_interval(pool[key]) for key in ("spearman", "plain")),
            ]
            for name, pool in record["pools"].items()
        },
    )


def _average_recipes(pool: Record) -> list[float | None]:
    """Return the mean over recipes, and the range."""
    known = [value for value in pool["recipes"].values() if value is not None]
    return [average_known(known), min(known), max(known)] if known else [None]


def _average_pools(pools: list[Record], group: str) -> float | None:
    return average_known([pool["groups"][group][0] for pool in pools if group in pool["groups"]])


def write_finding(record: Record) -> str:
    """Return the means by group of runs, and the pools with half of the labels resampled."""
    pools = list(record["pools"].values())
    said = [
        f"Mean Pearson of ζ with the accuracy on noisy labels over {count_pools(pools)}: "
        f"{format_number(_average_pools(pools, ALL_RUNS))} over all runs{_write_groups(pools)}."
    ]
    half = {name: pool for name, pool in record["pools"].items() if pool["is_half"]}
    if half:
        each = ", ".join(
            f"{name} {format_number(pool['groups'].get(NORM, pool['groups'][ALL_RUNS])[0])}"
            for name, pool in half.items()
        )
        said.append(f"With half of the labels resampled and batch norm: {each} (paper: 0.88).")
    return " ".join(said)


def _write_groups(pools: list[Record]) -> str:
    """Return the means by batch norm; nothing if every network has it."""
    without = _average_pools(pools, NO_NORM)
    if without is None:
        return ", all of which have batch norm"
    return (
        f", {format_number(_average_pools(pools, NORM))} over those with batch norm, "
        f"{format_number(without)} over those without batch norm, where "
        f"{sum(pool['diverged'] for pool in pools)} diverged runs are left out"
    )


def write_brief(record: Record) -> Brief:
    """Return the mean over networks with batch norm, as the paper uses them."""
    pools = list(record["pools"].values())
    mean, every = _average_pools(pools, NORM), _average_pools(pools, ALL_RUNS)
    value = every if mean is None else mean
    if value is None:
        return Brief("not known", None)
    few = (
        ""
        if mean in (None, every)
        else f" ({format_number(every)} with networks without batch norm)"
    )
    verdict = CONFIRMED if value >= _ENOUGH else IN_PART if value >= _SOME else NOT_CONFIRMED
    return Brief(f"ρ {format_number(value)}{few}", verdict)


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: a point for each checkpoint, a color for each architecture."""
    return draw_memorization(record["pools"], "ζ (without diverged runs)")


STUDY = Study(
    name="tracking",
    title="ζ tracks the accuracy on mislabeled training samples",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:rversusmem",),
    cause="Networks without batch norm, which the paper does not have, lower the mean; mixed "
    "recipes do not. With batch norm and all recipes mixed, the correlation is 0.89 on images, "
    "and 0.91 to 0.96 within one recipe. All 18 diverged runs are perceptrons without batch norm "
    "at a learning rate of 0.1; their ζ never recovers, because it is a mean since the first "
    "epoch. Where labeling rules made the noise (youtube), wrong labels follow from the words and "
    "are learned at once.",
    brief=write_brief,
    cause_at_medium=(
        "ζ orders checkpoints by memorization in each pool. Mixed recipes lower the correlation on "
        "CIFAR-10: at the same memorization, ζ is several times as high at a constant learning "
        "rate as under a cosine schedule, whose last steps are small. ζ of the reference step, "
        "relative to the loss, does not depend on the recipe and is better. Random crops keep "
        "every network from memorizing, so there is little to track within that recipe."
    ),
)
