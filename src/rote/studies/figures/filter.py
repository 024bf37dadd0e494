"""Training against test accuracy, before and after the ζ filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import filter_pairs
from rote.studies.checkpoints import (
    ALL_RUNS,
    NO_NORM,
    NORM,
    PLAIN,
    ZETA,
    best_survives,
    correlation,
    correlation_by_group,
    mean_of,
    sample,
)
from rote.studies.markdown import NOTHING, counted, interval, number, table
from rote.studies.selector import TRUTH
from rote.studies.study import Brief, Record, Study, by_pool, is_broad, verdict_of

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {"before": None, "after": ZETA, "plain": PLAIN}


def pool_record(pool: Pool, candidates: Candidates) -> Record:
    """Return the correlations among all checkpoints, and among the lower half of ζ."""
    columns = ("train_accuracy", TRUTH)
    found: dict[str, Any] = {
        f"{way}_{kind}": correlation(candidates, *columns, kind=kind, zeta=zeta)
        for way, zeta in WAYS.items()
        for kind in ("pearson", "kendall")
    }
    found["groups"] = {
        way: correlation_by_group(pool, candidates, *columns, zeta=WAYS[way])
        for way in ("before", "after")
    }
    found["best_survives"] = best_survives(candidates)
    names = {"train": "train_accuracy", "test": TRUTH, "zeta": ZETA}
    found["points"] = sample(candidates, names, most=300, pool=pool)
    return found


def text(record: Record) -> str:
    """Return a row for each pool."""
    names = {"before": "all", "after": "lower half of ζ", "plain": "lower half of plain relative ζ"}
    by_way = table(
        "pool",
        [
            *(f"{kind}, {name}" for name in names.values() for kind in ("Pearson", "Kendall")),
            "best checkpoint is kept",
        ],
        {
            name: [
                *(interval(pool[f"{w}_{k}"]) for w in names for k in ("pearson", "kendall")),
                {True: "yes", False: "no", None: NOTHING}[pool["best_survives"]],
            ]
            for name, pool in record["pools"].items()
        },
    )
    by_group = table(
        "pool",
        [f"{group}: {way}" for group in (NORM, NO_NORM) for way in ("all", "lower half of ζ")],
        {
            name: [
                interval(pool["groups"][way].get(group))
                for group in (NORM, NO_NORM)
                for way in ("before", "after")
            ]
            for name, pool in record["pools"].items()
        },
    )
    return f"{by_way}\n\nPearson by kind of network, without diverged runs:\n\n{by_group}"


def _pairs(record: Record, way: str, group: str) -> list[tuple[float, float]]:
    found = []
    for pool in record["pools"].values():
        if group == ALL_RUNS:
            ends = pool["before_pearson"][0], pool[f"{way}_pearson"][0]
        else:
            ends = tuple(pool["groups"][w].get(group, [None])[0] for w in ("before", way))
        if None not in ends:
            found.append(ends)
    return found


def finding(record: Record) -> str:
    """How often the filter raises the correlation."""
    said = []
    for name, way, group in (
        ("ζ", "after", ALL_RUNS),
        ("ζ among networks with batch norm", "after", NORM),
        ("plain relative ζ", "plain", ALL_RUNS),
    ):
        pairs = _pairs(record, way, group)
        if pairs:
            before, after = (mean_of(list(values)) for values in zip(*pairs, strict=True))
            raised = sum(later > earlier for earlier, later in pairs)
            said.append(
                f"the filter by {name} raises it in {raised} of {counted(pairs)}, "
                f"on average from {number(before)} to {number(after)}"
            )
    kept = [
        found for pool in record["pools"].values() if (found := pool["best_survives"]) is not None
    ]
    return (
        f"Pearson of training with test accuracy: {'; '.join(said)}. The best checkpoint is among "
        f"those that stay in {sum(kept)} of {counted(kept)}."
    )


def brief(record: Record) -> Brief:
    """Before and after."""
    pairs = _pairs(record, "after", ALL_RUNS)
    if not pairs:
        return Brief("not known", None)
    before, after = (mean_of(list(values)) for values in zip(*pairs, strict=True))
    held = [later > earlier for earlier, later in pairs]
    return Brief(f"{number(before)} before, {number(after)} after", verdict_of(held))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: all checkpoints, and those with ζ below its median."""
    shown = {}
    for name, pool in record["pools"].items():
        middle = sorted(point["zeta"] for point in pool["points"])[(len(pool["points"]) - 1) // 2]
        points = [{**point, "kept": point["zeta"] <= middle} for point in pool["points"]]
        shown[name] = (points, {"all": pool["before_pearson"][0], "kept": pool["after_pearson"][0]})
    return filter_pairs(shown)


STUDY = Study(
    name="filter",
    title="training accuracy predicts test accuracy once checkpoints of high ζ are gone",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
    paper=(
        *("fig:filter", "fig:filtermnist", "fig:filterfmnist", "fig:filtersvhn"),
        *("fig:filtercifar100", "fig:filtertiny"),
    ),
    cause="As expected, the filter raises the correlation by a lot wherever labels were "
    "resampled. It starts above the paper’s −0.766 on MNIST since only some of our "
    "networks memorize within 25 epochs: where all do, more training accuracy means "
    "less test accuracy.",
    brief=brief,
)
