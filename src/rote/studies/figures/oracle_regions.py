"""Region 1 of an oracle, which knows the wrong labels, and Region 1 of ζ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import (
    FEWEST,
    NOISY,
    PLAIN,
    ZETA,
    average_known,
    average_regions,
    find_regions,
    get_stated_mean,
)
from rote.studies.markdown import NOTHING, count_pools, format_percent, format_points, write_table
from rote.studies.study import Brief, Record, Study, is_made, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {
    "oracle": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "plain relative ζ": (PLAIN, "train_accuracy"),
}


_NEAR = 0.03


def measure_pool(_pool: Pool, candidates: Candidates) -> Record:
    """Return Region 1 of each way, and its overlap with Region 1 of the oracle."""
    oracle = find_regions(candidates, *WAYS["oracle"]) == 1
    found = {}
    for name, columns in WAYS.items():
        region = find_regions(candidates, *columns)
        found[name] = average_regions(candidates, region)[0]
        inside = region == 1
        found[name]["shared"] = float(oracle[inside].mean()) if inside.any() else None
    return found


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    columns = [f"{name}: {what}" for name in WAYS for what in ("test accuracy", "checkpoints")]
    rows = {name: _write_cells(ways) for name, ways in record["pools"].items()}
    shared = ["of ζ's, the oracle's", "of plain relative ζ's, the oracle's"]
    note = f"A Region 1 of fewer than {FEWEST} checkpoints is not judged."
    return f"{write_table('pool', [*columns, *shared], rows)}\n\n{note}"


def _write_cells(ways: Record) -> list[str]:
    cells = []
    for way in ways.values():
        mean = f"{format_points(way['mean'])} ± {format_points(way['spread'])} %"
        cells += [NOTHING if get_stated_mean(way) is None else mean, str(way["count"])]
    return [*cells, *(format_percent(ways[name]["shared"]) for name in list(WAYS)[1:])]


def _list_compared(record: Record) -> list[Record]:
    """Return the pools in which the oracle and ζ have enough checkpoints."""
    return [
        pool
        for pool in record["pools"].values()
        if None not in (get_stated_mean(pool["oracle"]), get_stated_mean(pool["ζ"]))
    ]


def _average_pools(pools: list[Record]) -> dict[str, float | None]:
    return {name: average_known([get_stated_mean(pool[name]) for pool in pools]) for name in WAYS}


def write_finding(record: Record) -> str:
    """Return means over pools."""
    pools = _list_compared(record)
    if not pools:
        return f"No pool has {FEWEST} checkpoints in both Regions 1, so there is no verdict."
    means = _average_pools(pools)
    said = ", ".join(f"{format_percent(value)} by {name}" for name, value in means.items())
    held = sum(map(_is_near, pools))
    return (
        f"Mean test accuracy of Region 1, {count_pools(pools)} of {len(record['pools'])} with at "
        f"least {FEWEST} checkpoints in both: {said}. ζ loses at most 3 points to the oracle in "
        f"{held} of them."
    )


def _is_near(pool: Record) -> bool:
    oracle, zeta = get_stated_mean(pool["oracle"]), get_stated_mean(pool["ζ"])
    return oracle is not None and zeta is not None and oracle - zeta <= _NEAR


def write_brief(record: Record) -> Brief:
    """Return both means."""
    pools = _list_compared(record)
    if not pools:
        return Brief(f"fewer than {FEWEST} checkpoints in Region 1", None)
    means = _average_pools(pools)
    ours = f"oracle {format_points(means['oracle'])}, ζ {format_points(means['ζ'])} %"
    return Brief(ours, judge_claim([_is_near(pool) for pool in pools]))


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each way."""
    rows = [
        {"pool": pool, "way": name, "accuracy": way["mean"]}
        for pool, ways in record["pools"].items()
        for name, way in ways.items()
        if way["mean"] is not None
    ]
    titles = ("", "test accuracy of Region 1")
    return draw_panels(rows, "bar", "way:N", "accuracy:Q", titles=titles, color="way:N")


STUDY = Study(
    name="oracle-regions",
    title="Region 1 of an oracle against Region 1 of ζ",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_made,
    draw=draw,
    paper=("fig:figure1", "fig:figure1svhn", "fig:figure1cifar100"),
    cause="The order is that of the paper; accuracies are lower because of 2,000 samples and "
    "small networks. The overlap of the two Regions 1 varies a lot (last columns): they agree "
    "more in accuracy than in the checkpoints that they contain.",
    brief=write_brief,
    cause_at_medium=(
        "The oracle knows which labels are wrong and is not affected by the mean training "
        "accuracy. Region 1 of ζ is, as [regions](regions-medium.md) explains."
    ),
)
