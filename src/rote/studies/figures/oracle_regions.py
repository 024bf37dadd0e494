"""Region 1 of an oracle, which knows the wrong labels, and Region 1 of ζ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import Plane, draw_planes
from rote.studies.checkpoints import (
    FEWEST,
    NOISY,
    PLAIN,
    ZETA,
    average_known,
    average_regions,
    find_regions,
    get_stated_mean,
    sample,
)
from rote.studies.markdown import NOTHING, count_pools, format_percent, format_points, write_table
from rote.studies.pool import describe_pool
from rote.studies.selector import TRUTH
from rote.studies.study import Brief, Record, Study, is_made, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {
    "oracle": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "ζ and right labels": (ZETA, "clean_accuracy"),
    "ζ of the reference step": (PLAIN, "train_accuracy"),
}


_NEAR = 0.03
_MOST_DRAWN = 300
_DRAWN = {
    "oracle": ("accuracy on noisy labels", "accuracy on right labels"),
    "ζ": ("ζ", "training accuracy"),
}
"""The ways of the paper's figure, with the titles of their axes."""


def measure_pool(_pool: Pool, candidates: Candidates) -> Record:
    """Return Region 1 of each way, its overlap with the oracle's, and points to draw."""
    oracle = find_regions(candidates, *WAYS["oracle"]) == 1
    found: dict[str, Any] = {}
    for name, columns in WAYS.items():
        region = find_regions(candidates, *columns)
        found[name] = average_regions(candidates, region)[0]
        inside = region == 1
        found[name]["shared"] = float(oracle[inside].mean()) if inside.any() else None
    found["planes"] = {way: _make_plane(candidates, *WAYS[way]) for way in _DRAWN}
    return found


def _make_plane(candidates: Candidates, low: str, high: str) -> Record:
    known = candidates.known(low, high)
    return {
        "points": sample(candidates, {"x": low, "y": high, "test": TRUTH}, most=_MOST_DRAWN),
        "means": [average_known(candidates.values(c)[known].tolist()) for c in (low, high)],
    }


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    columns = [f"{name}: {what}" for name in WAYS for what in ("test accuracy", "checkpoints")]
    rows = {name: _write_cells(ways) for name, ways in record["pools"].items()}
    shared = [f"also in the oracle's: {name}" for name in list(WAYS)[1:]]
    note = (
        f"A Region 1 of fewer than {FEWEST} checkpoints is not judged. “ζ and right labels” has "
        "the oracle's accuracy on right labels in the place of training accuracy."
    )
    return f"{write_table('pool', [*columns, *shared], rows)}\n\n{note}"


def _write_cells(ways: Record) -> list[str]:
    cells = []
    for way in (ways[name] for name in WAYS):
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
    """Draw the paper's figure: the oracle's plane and that of ζ, with test accuracy as color."""
    return draw_planes(
        [
            Plane(
                f"{describe_pool(name)}\n{_describe_region(way, ways[way])}",
                axes,
                plane["points"],
                plane["means"],
            )
            for name, ways in record["pools"].items()
            for way, axes in _DRAWN.items()
            for plane in [ways["planes"][way]]
        ]
    )


def _describe_region(way: str, found: Record) -> str:
    return f"Region 1 of {way}: {format_percent(get_stated_mean(found))}"


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
        "The oracle differs in both axes. Accuracy on right labels is not raised by memorization, "
        "but training accuracy is, so its mean excludes resistant networks. The column “ζ and "
        "right labels” replaces this axis only; what then remains is due to ζ, whose mean is "
        "raised by one recipe ([regions](regions-medium.md))."
    ),
)
