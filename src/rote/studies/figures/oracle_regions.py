"""Region 1 as an oracle sees it, and as ζ sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import (
    FEWEST,
    NOISY,
    PLAIN,
    ZETA,
    mean_of,
    region_means,
    regions,
    stated,
)
from rote.studies.markdown import NOTHING, counted, percent, points, table
from rote.studies.study import Brief, Record, Study, by_pool, is_made, verdict_of

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {
    "oracle": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "plain relative ζ": (PLAIN, "train_accuracy"),
}


_NEAR = 0.03


def pool_record(_pool: Pool, candidates: Candidates) -> Record:
    """Region 1 of each way, and how much of it the oracle would take too."""
    oracle = regions(candidates, *WAYS["oracle"]) == 1
    found = {}
    for name, columns in WAYS.items():
        region = regions(candidates, *columns)
        found[name] = region_means(candidates, region)[0]
        inside = region == 1
        found[name]["shared"] = float(oracle[inside].mean()) if inside.any() else None
    return found


def text(record: Record) -> str:
    """Return a row for each pool."""
    columns = [f"{name}: {what}" for name in WAYS for what in ("test accuracy", "checkpoints")]
    rows = {name: _cells(ways) for name, ways in record["pools"].items()}
    shared = ["of ζ's, the oracle's", "of plain relative ζ's, the oracle's"]
    note = f"A Region 1 of fewer than {FEWEST} checkpoints makes no statement."
    return f"{table('pool', [*columns, *shared], rows)}\n\n{note}"


def _cells(ways: Record) -> list[str]:
    cells = []
    for way in ways.values():
        mean = f"{points(way['mean'])} ± {points(way['spread'])} %"
        cells += [NOTHING if stated(way) is None else mean, str(way["count"])]
    return [*cells, *(percent(ways[name]["shared"]) for name in list(WAYS)[1:])]


def _compared(record: Record) -> list[Record]:
    """Return the pools in which the oracle and ζ have enough checkpoints."""
    return [
        pool
        for pool in record["pools"].values()
        if None not in (stated(pool["oracle"]), stated(pool["ζ"]))
    ]


def _means(pools: list[Record]) -> dict[str, float | None]:
    return {name: mean_of([stated(pool[name]) for pool in pools]) for name in WAYS}


def finding(record: Record) -> str:
    """Means over pools."""
    pools = _compared(record)
    if not pools:
        return f"In no pool both Regions 1 have {FEWEST} checkpoints: nothing can be said."
    means = _means(pools)
    said = ", ".join(f"{percent(value)} by {name}" for name, value in means.items())
    held = sum(map(_is_near, pools))
    return (
        f"Mean test accuracy of Region 1, {counted(pools)} of {len(record['pools'])} with at least "
        f"{FEWEST} checkpoints in both: {said}. ζ loses at most 3 points to the oracle in "
        f"{held} of them."
    )


def _is_near(pool: Record) -> bool:
    oracle, zeta = stated(pool["oracle"]), stated(pool["ζ"])
    return oracle is not None and zeta is not None and oracle - zeta <= _NEAR


def brief(record: Record) -> Brief:
    """Both means."""
    pools = _compared(record)
    if not pools:
        return Brief(f"fewer than {FEWEST} checkpoints in Region 1", None)
    means = _means(pools)
    ours = f"oracle {points(means['oracle'])}, ζ {points(means['ζ'])} %"
    return Brief(ours, verdict_of([_is_near(pool) for pool in pools]))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each way."""
    rows = [
        {"pool": pool, "way": name, "accuracy": way["mean"]}
        for pool, ways in record["pools"].items()
        for name, way in ways.items()
        if way["mean"] is not None
    ]
    titles = ("", "test accuracy of Region 1")
    return panels(rows, "bar", "way:N", "accuracy:Q", titles=titles, color="way:N")


STUDY = Study(
    name="oracle-regions",
    title="Region 1 of an oracle against Region 1 of ζ",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_made,
    draw=draw,
    paper=("fig:figure1", "fig:figure1svhn", "fig:figure1cifar100"),
    cause="The order is that of the paper; accuracies are lower since there are two thousand "
    "samples and small networks. How much of ζ’s Region 1 is the oracle’s, too, differs a "
    "lot (last columns): they agree in accuracy more than in which checkpoints they hold.",
    brief=brief,
)
