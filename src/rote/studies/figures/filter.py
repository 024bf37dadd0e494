"""Training against test accuracy, before and after the ζ filter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import PLAIN, ZETA, correlation, sample
from rote.studies.markdown import interval, number, table
from rote.studies.selector import TRUTH
from rote.studies.study import Record, Study, by_pool, is_broad

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {"before": None, "after": ZETA, "plain": PLAIN}


def pool_record(_pool: Pool, candidates: Candidates) -> Record:
    """Both correlations among all checkpoints, and among the lower half of ζ."""
    found: dict[str, Any] = {
        f"{way}_{kind}": correlation(candidates, "train_accuracy", TRUTH, kind=kind, zeta=zeta)
        for way, zeta in WAYS.items()
        for kind in ("pearson", "kendall")
    }
    found["points"] = sample(candidates, {"train": "train_accuracy", "test": TRUTH, "zeta": ZETA})
    return found


def text(record: Record) -> str:
    """Return a row for each pool."""
    names = {"before": "all", "after": "lower half of ζ", "plain": "lower half of plain relative ζ"}
    return table(
        "pool",
        [f"{kind}, {name}" for name in names.values() for kind in ("Pearson", "Kendall")],
        {
            name: [interval(pool[f"{w}_{k}"]) for w in names for k in ("pearson", "kendall")]
            for name, pool in record["pools"].items()
        },
    )


def finding(record: Record) -> str:
    """How often the filter raises the correlation."""
    said = []
    for name, way in (("ζ", "after"), ("plain relative ζ", "plain")):
        pairs = [
            (pool["before_pearson"][0], pool[f"{way}_pearson"][0])
            for pool in record["pools"].values()
            if None not in (pool["before_pearson"][0], pool[f"{way}_pearson"][0])
        ]
        if pairs:
            before, after = (sum(values) / len(pairs) for values in zip(*pairs, strict=True))
            raised = sum(later > earlier for earlier, later in pairs)
            said.append(
                f"the filter by {name} raises it in {raised} of {len(pairs)} pools, "
                f"on average from {number(before)} to {number(after)}"
            )
    return f"Pearson of training with test accuracy: {'; '.join(said)}."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a point for each checkpoint, those that stay in another color."""
    rows = []
    for name, pool in record["pools"].items():
        middle = sorted(point["zeta"] for point in pool["points"])[(len(pool["points"]) - 1) // 2]
        for point in pool["points"]:
            kept = "lower half of ζ" if point["zeta"] <= middle else "upper half of ζ"
            rows.append({"pool": name, "kept": kept} | point)
    rows.sort(key=lambda row: row["kept"])
    titles = ("training accuracy", "test accuracy")
    return panels(rows, "circle", "train:Q", "test:Q", titles=titles, color="kept:N")


STUDY = Study(
    name="filter",
    title="training accuracy tells test accuracy once the high ζ are gone",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
    paper=(
        "fig:filter",
        "fig:filtermnist",
        "fig:filterfmnist",
        "fig:filtersvhn, fig:filtercifar100",
        "fig:filtertiny",
    ),
    cause="As expected, the filter raises the correlation by a lot wherever labels were "
    "resampled. It starts above the paper’s −0.766 on MNIST since only some of our "
    "networks memorize within 25 epochs: where all do, more training accuracy means "
    "less test accuracy.",
)
