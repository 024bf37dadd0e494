"""Test accuracy in the four regions, synthetic noise."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import Plane, draw_planes
from rote.studies.checkpoints import (
    FEWEST,
    NOISY,
    PLAIN,
    ZETA,
    average_known,
    average_regions,
    describe_recipe,
    find_diverged,
    find_regions,
    find_staged_regions,
    get_stated_mean,
    is_best_resistant,
    sample,
)
from rote.studies.markdown import (
    NOTHING,
    count_pools,
    format_number,
    format_percent,
    format_points,
    write_table,
)
from rote.studies.pool import describe_pool
from rote.studies.selector import TRUTH
from rote.studies.study import Brief, Record, Study, is_made, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

STAGED = "the rule `staged`"
WAYS: dict[str, Callable[[Candidates], np.ndarray]] = {
    "ζ": lambda candidates: find_regions(candidates, ZETA, "train_accuracy"),
    "ζ of the reference step": lambda candidates: find_regions(candidates, PLAIN, "train_accuracy"),
    STAGED: find_staged_regions,
}
_DRAWN = 400


def measure_pool(pool: Pool, candidates: Candidates) -> Record:
    """Return the four regions by both ζ, whether the best checkpoint survives, and points."""
    found: dict[str, Any] = {
        name: average_regions(candidates, divide(candidates)) for name, divide in WAYS.items()
    }
    truth = candidates.values(TRUTH)
    region = find_regions(candidates, ZETA, "train_accuracy")
    known = candidates.known(ZETA, TRUTH, "train_accuracy")
    best = int(truth[known].argmax()) if known.any() else None
    found["best"] = {
        "region": None if best is None else int(region[known][best]),
        "survives": is_best_resistant(candidates),
    }
    found["means"] = [
        average_known(candidates.values(column)[known].tolist())
        for column in (ZETA, "train_accuracy")
    ]
    columns = {"x": ZETA, "y": "train_accuracy", "test": TRUTH}
    normal = ~find_diverged(candidates)[candidates.run]
    found["points"] = sample(candidates, columns, most=_DRAWN, among=normal)
    found["oracle"] = _locate_oracle(candidates, region)
    found["recipes"] = _count_by_recipe(pool, candidates, region)
    return found


def _locate_oracle(candidates: Candidates, region: np.ndarray) -> Record | None:
    """Return where Region 1 of the oracle lies, and how many of ours memorize above average."""
    if not candidates.known(NOISY, "clean_accuracy").any():
        return None
    of_oracle = find_regions(candidates, NOISY, "clean_accuracy") == 1
    noisy = candidates.values(NOISY)
    return {
        "regions": [int((of_oracle & (region == number)).sum()) for number in range(1, 5)],
        "ours": int((region == 1).sum()),
        "memorize": int((noisy[region == 1] > np.nanmean(noisy)).sum()),
    }


def _count_by_recipe(pool: Pool, candidates: Candidates, region: np.ndarray) -> Record:
    """Return for each recipe its checkpoints by region, its mean ζ and its training accuracy."""
    of_run = [describe_recipe(pool.specs[run]) for run in candidates.runs]
    recipes = np.array(of_run)[candidates.run]
    found = {}
    for recipe in dict.fromkeys(of_run):
        inside = recipes == recipe
        known = inside & candidates.known(ZETA, "train_accuracy", TRUTH)
        if known.any():
            found[recipe] = {
                "regions": [int((inside & (region == number)).sum()) for number in range(1, 5)],
                "zeta": float(candidates.values(ZETA)[known].mean()),
                "highest_train": float(candidates.values("train_accuracy")[known].max()),
                "test": float(candidates.values(TRUTH)[known].mean()),
            }
    return found


def write_text(record: Record) -> str:
    """Return a row for each pool, for each kind of thresholds."""
    parts = [
        f"{_describe_thresholds(way)} Cells: mean ± standard deviation of test accuracy within "
        "the region, with the number of checkpoints in parentheses. Regions "
        f"with fewer than {FEWEST} checkpoints are not judged.\n\n"
        + write_table(
            "pool",
            [
                *(f"Region {n}" for n in range(1, 5)),
                *("lowest deviation", "best checkpoint in", "kept by the ζ filter"),
            ],
            {name: _write_cells(pool, way) for name, pool in record["pools"].items()},
        )
        for way in WAYS
    ]
    return "\n\n".join([*parts, _write_recipes(record), *_write_oracle(record)])


def _describe_thresholds(way: str) -> str:
    if way != STAGED:
        return f"Thresholds are the means of {way} and of training accuracy."
    return (
        f"Thresholds of {way}: the mean of ζ, and the mean training accuracy of checkpoints below "
        "it, which networks that memorize do not raise."
    )


def _write_recipes(record: Record) -> str:
    """Return a row for each recipe of each pool."""
    rows = {
        f"{name} | {recipe}": [
            format_number(pool["means"][0]),
            format_number(found["zeta"]),
            format_percent(pool["means"][1]),
            format_percent(found["highest_train"]),
            format_percent(found["test"]),
            " / ".join(map(str, found["regions"])),
        ]
        for name, pool in record["pools"].items()
        for recipe, found in pool["recipes"].items()
    }
    columns = [
        *("recipe", "mean ζ of the pool", "mean ζ", "mean training accuracy of the pool"),
        *(
            "highest training accuracy",
            "mean test accuracy",
            "checkpoints in Regions 1 / 2 / 3 / 4",
        ),
    ]
    return f"Recipes beside the thresholds of their pool:\n\n{write_table('pool', columns, rows)}"


def _write_oracle(record: Record) -> list[str]:
    """Say where the oracle's Region 1 lies, where the wrong labels are known."""
    columns = [
        "the oracle's Region 1, by our Regions 1 / 2 / 3 / 4",
        "of our Region 1, memorize more than the mean checkpoint",
    ]
    rows = {
        name: [" / ".join(map(str, found["regions"])), f"{found['memorize']} of {found['ours']}"]
        for name, pool in record["pools"].items()
        if (found := pool["oracle"]) is not None
    }
    if not rows:
        return []
    words = (
        "The oracle's Region 1 (right labels fitted, wrong ones not) and ours, in checkpoints. "
        "Those of the oracle in Region 3 are below the mean training accuracy:"
    )
    return [f"{words}\n\n{write_table('pool', columns, rows)}"]


def _write_cells(pool: Record, way: str) -> list[str]:
    cells = [
        f"{format_points(region['mean'])} ± {format_points(region['spread'])} % ({region['count']})"
        if get_stated_mean(region) is not None
        else f"{NOTHING} ({region['count']})"
        for region in pool[way]
    ]
    best = pool["best"]
    least = find_least_spread(pool[way])
    return [
        *cells,
        NOTHING if least is None else f"Region {least}",
        NOTHING if best["region"] is None or way != "ζ" else f"Region {best['region']}",
        {True: "yes", False: "no", None: NOTHING}[best["survives"] if way == "ζ" else None],
    ]


def find_least_spread(found: list[Record]) -> int | None:
    """Return which region with enough checkpoints has the lowest deviation.

    None without two regions to compare, one of which is Region 1.
    """
    spreads = {
        number: region["spread"]
        for number, region in enumerate(found, start=1)
        if get_stated_mean(region) is not None
    }
    if 1 not in spreads or len(spreads) < 2:
        return None
    return min(spreads, key=lambda number: spreads[number])


def is_region_one_best(found: list[Record]) -> bool | None:
    """Return whether Region 1 is the best region; None without a Region 2 to compare it with."""
    one, two, *others = map(get_stated_mean, found)
    if one is None or two is None:
        return None
    return one >= max(mean for mean in (two, *others) if mean is not None)


def write_finding(record: Record) -> str:
    """Describe how often Region 1 is best, means, deviations, and where the best checkpoint is."""
    pools = list(record["pools"].values())
    parts = []
    for way in WAYS:
        compared = [pool for pool in pools if is_region_one_best(pool[way]) is not None]
        if not compared:
            parts.append(f"by {way}, no pool has {FEWEST} checkpoints in both Regions 1 and 2")
            continue
        best = sum(bool(is_region_one_best(pool[way])) for pool in compared)
        ahead = sum(_is_ahead(pool[way]) for pool in compared)
        average = " / ".join(format_points(mean) for mean in _average_pools(compared, way))
        parts.append(
            f"by {way}, {average} % over the {count_pools(compared)} where Regions 1 and 2 have "
            f"{FEWEST} checkpoints; Region 1 is ahead of Region 2 in {ahead} and the best region "
            f"in {best} of {len(compared)}"
        )
    least = [number for pool in pools if (number := find_least_spread(pool["ζ"])) is not None]
    kept = [p["best"]["survives"] for p in pools if p["best"]["survives"] is not None]
    return (
        f"Mean test accuracy in Regions 1 / 2 / 3 / 4: {'; '.join(parts)}. {_write_least(least)}"
        f"The best checkpoint survives the ζ filter in {sum(kept)} of {count_pools(kept)}."
    )


def _is_ahead(found: list[Record]) -> bool:
    one, two = map(get_stated_mean, found[:2])
    return one is not None and two is not None and one > two


def _write_least(least: list[int]) -> str:
    if not least:
        return ""
    return (
        f"Region 1 has the lowest deviation in {least.count(1)} of {count_pools(least)} "
        "(paper: always). "
    )


def _average_pools(pools: list[Record], way: str) -> list[float | None]:
    rows = [[get_stated_mean(region) for region in pool[way]] for pool in pools]
    return [average_known(list(column)) for column in zip(*rows, strict=True)]


def write_brief(record: Record) -> Brief:
    """Return the four means by ζ."""
    pools = list(record["pools"].values())
    ours = " / ".join(format_points(mean) for mean in _average_pools(pools, "ζ"))
    told = [value for pool in pools if (value := is_region_one_best(pool["ζ"])) is not None]
    return Brief(f"{ours} %", judge_claim(told))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: training accuracy over ζ, both means, test accuracy as color."""
    return draw_planes(
        [
            Plane(describe_pool(name), ("ζ", "training accuracy"), pool["points"], pool["means"])
            for name, pool in record["pools"].items()
        ]
    )


STUDY = Study(
    name="regions",
    title="mean test accuracy in Regions 1 to 4, synthetic noise",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_made,
    draw=draw,
    paper=(
        *("fig:main", "fig:mainmnist", "fig:mainfmnist", "fig:mainsvhn"),
        *("fig:maincifar100", "fig:maintiny"),
    ),
    cause="With the paper’s ζ, the order is that of the paper, except for its architectures "
    "(cifar10-symmetric). There, Region 2 is a point ahead: with 1,500 samples of CIFAR-10 all "
    "accuracies are near 20 %, and memorization costs little. Accuracies are lower throughout "
    "because of 2,000 samples, small networks and few epochs. ζ of the reference step, which "
    "serves to compare optimizers, separates these pools less well.",
    brief=write_brief,
    cause_at_medium=(
        "Both thresholds are means, and networks that memorize raise them. Their training "
        "accuracy is high, so most checkpoints that an oracle would choose are below the mean and "
        "fall into Region 3 (last table). On CIFAR-10 these are mainly the networks trained with "
        "random crops, the best of both pools: their training accuracy hardly reaches the mean. "
        "The mean ζ comes from mixed recipes: at a constant learning rate ζ is several times as "
        "high as under a cosine schedule, whose last steps are small. Networks that memorize "
        "under cosine without crops therefore pass as resistant and fill Region 1. On SVHN, every "
        "recipe memorizes, and Region 1 holds the networks that do so slowly and learn little. "
        "The rule `staged` takes the mean training accuracy of checkpoints with a low ζ only, "
        "which memorization does not raise (third table). Its Region 1 is ahead of its Region 2 "
        "in most pools, and the best region on CIFAR-10. On MNIST and Fashion-MNIST, early "
        "checkpoints (Region 3) are better still, since all networks there but AlexNet memorize "
        "in the end. The paper trains far more networks for 200 epochs; we do not know how many "
        "of them memorize."
    ),
)
