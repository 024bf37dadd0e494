"""Region 1 over all thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import heat
from rote.studies.checkpoints import ZETA, mean_of, region_means, regions
from rote.studies.markdown import percent, table
from rote.studies.study import Record, Study, by_pool, is_broad

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

PERCENTILES = tuple(range(5, 100, 10))
_FEWEST = 5
"""A region of fewer checkpoints is called no best one."""


def pool_record(_pool: Pool, candidates: Candidates) -> Record:
    """Region 1 and its lead over Region 2 on a grid of percentiles, and by the paper's means."""
    cells = []
    for of_zeta in PERCENTILES:
        for of_accuracy in PERCENTILES:
            at = (float(of_zeta), float(of_accuracy))
            one, two = region_means(candidates, regions(candidates, ZETA, "train_accuracy", at))[:2]
            lead = None if None in (one["mean"], two["mean"]) else one["mean"] - two["mean"]
            cells.append(
                {"zeta": of_zeta, "train": of_accuracy, "count": one["count"], "lead": lead}
                | {"mean": one["mean"]}
            )
    by_means = region_means(candidates, regions(candidates, ZETA, "train_accuracy"))[0]["mean"]
    filled = [cell for cell in cells if cell["count"] >= _FEWEST]
    best = max(filled, key=lambda cell: cell["mean"]) if filled else None
    return {"cells": cells, "best": best, "means": by_means}


def text(record: Record) -> str:
    """Return a row for each pool."""
    return table(
        "pool",
        ["Region 1 by the means", "best Region 1", "percentile of ζ", "of training accuracy"],
        {
            name: [
                percent(pool["means"]),
                *(
                    (percent(pool["best"]["mean"]), pool["best"]["zeta"], pool["best"]["train"])
                    if pool["best"]
                    else ("–", "–", "–")
                ),
            ]
            for name, pool in record["pools"].items()
        },
    )


def finding(record: Record) -> str:
    """Return what tuning would give, and where."""
    pools = [pool for pool in record["pools"].values() if pool["best"]]
    places = sorted(pool["best"]["zeta"] for pool in pools)
    return (
        f"Region 1 has a mean test accuracy of {percent(mean_of([p['means'] for p in pools]))} by "
        f"the means, and of {percent(mean_of([p['best']['mean'] for p in pools]))} if both "
        f"percentiles could be tuned on the truth; the best percentile of ζ is "
        f"{places[0]} to {places[-1]} (paper: 35 to 55)."
        if pools
        else "No Region 1 has as many checkpoints as are needed."
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a square for each pair of thresholds."""
    rows = [
        {"pool": name, "zeta": cell["zeta"], "train": cell["train"], "mean": cell["mean"]}
        for name, pool in record["pools"].items()
        for cell in pool["cells"]
        if cell["mean"] is not None
    ]
    titles = ("percentile of ζ", "percentile of training accuracy", "test accuracy of Region 1")
    return heat(rows, "zeta", "train", "mean", titles=titles)


STUDY = Study(
    name="thresholds",
    title="Region 1 over the thresholds of ζ and of training accuracy",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:thresholds",),
    cause="Where a few ζ are much larger than the others they lift the mean, and a lower "
    "percentile is better; on the paper’s architectures, which memorize at different "
    "speeds, a higher one is. The best of a hundred cells, some of them of few "
    "checkpoints, is also too good by chance.",
)
