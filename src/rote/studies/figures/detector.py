"""The accuracy that a label-error detector needs to select as well as ζ."""

from __future__ import annotations

from statistics import fmean
from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import (
    FEWEST,
    NOISY,
    PLAIN,
    ZETA,
    average_regions,
    find_regions,
    get_stated_mean,
)
from rote.studies.markdown import count_pools, format_percent, format_points, write_table
from rote.studies.study import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    Brief,
    Record,
    Study,
    is_broad,
    match_group,
    measure_by_pool,
)

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_DETECTORS = {f"detector {x} %": x for x in (50, 60, 70, 80, 90, 96)}
_NEAR = 0.01
WAYS = {
    **{name: (f"detector_{x}_noisy", f"detector_{x}_clean") for name, x in _DETECTORS.items()},
    "detector 100 %": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "ζ of the reference step": (PLAIN, "train_accuracy"),
}


def measure_pool(_pool: Pool, candidates: Candidates) -> Record | None:
    """Return the mean test accuracy in Region 1, for each way with recorded data."""
    if not candidates.known("detector_80_noisy").any():
        return None
    return {
        name: get_stated_mean(average_regions(candidates, find_regions(candidates, *columns))[0])
        for name, columns in WAYS.items()
        if candidates.known(columns[0]).any()
    }


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    ways = [way for way in WAYS if any(way in pool for pool in record["pools"].values())]
    rows = {n: [format_percent(pool.get(w)) for w in ways] for n, pool in record["pools"].items()}
    return write_table("mean test accuracy of Region 1", ways, rows)


def _list_compared(record: Record) -> list[Record]:
    """Return the pools in which Region 1 of ζ and of a detector have enough checkpoints."""
    return [
        pool
        for pool in record["pools"].values()
        if pool.get("ζ") is not None and any(pool.get(name) is not None for name in _DETECTORS)
    ]


def _average_pools(pools: list[Record]) -> dict[str, float]:
    """Return the mean of each way that is known in all of these pools."""
    known = [way for way in WAYS if all(pool.get(way) is not None for pool in pools)]
    return {way: fmean([pool[way] for pool in pools]) for way in known if pools}


def _find_equal_detector(pool: Record) -> int | None:
    """Return the accuracy of the best detector that does not beat ζ; None if all beat it."""
    beaten = [
        x
        for name, x in _DETECTORS.items()
        if pool.get(name) is not None and pool[name] <= pool["ζ"] + _NEAR
    ]
    return max(beaten, default=None)


def _list_tried(pool: Record) -> list[int]:
    return [x for name, x in _DETECTORS.items() if pool.get(name) is not None]


def write_brief(record: Record) -> Brief:
    """Return the best detector that does not beat ζ by more than a point, for each pool."""
    pools = _list_compared(record)
    if not pools:
        return Brief("too few checkpoints in Region 1", None)
    equal = [_find_equal_detector(pool) for pool in pools]
    words = "; ".join(map(_describe_equal, pools))
    best = [x is not None and x >= max(_list_tried(p)) for p, x in zip(pools, equal, strict=True)]
    if all(best):
        return Brief(words, CONFIRMED)
    return Brief(words, NOT_CONFIRMED if all(x is None for x in equal) else IN_PART)


def _describe_equal(pool: Record) -> str:
    equal = _find_equal_detector(pool)
    ours = f"ζ ({format_points(pool['ζ'])} %)"
    if equal is None:
        return f"X = {min(_list_tried(pool))} % beats {ours}"
    return f"{ours} equals X = {equal} %"


def write_finding(record: Record) -> str:
    """Return the means over the pools that can be compared, and what ζ equals in each of them."""
    pools = _list_compared(record)
    if not pools:
        return f"No pool has {FEWEST} checkpoints in Region 1 of ζ and in that of a detector."
    means = _average_pools(pools)
    said = ", ".join(f"{name} {format_percent(mean)}" for name, mean in means.items())
    each = "; ".join(
        f"{name}: {_describe_equal(pool)}"
        for name, pool in record["pools"].items()
        if pool in pools
    )
    return (
        f"Mean test accuracy of Region 1 over {count_pools(pools)} of {len(record['pools'])} where "
        f"ζ and a detector have {FEWEST} checkpoints in it: {said}. {each} (paper: X ≈ 96 %)."
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: a line over the detector's accuracy, and ζ as a level."""
    rows = [
        {"pool": pool, "detector": x, "accuracy": ways[name], "way": "detector of X %"}
        for pool, ways in record["pools"].items()
        for name, x in {**_DETECTORS, "detector 100 %": 100}.items()
        if ways.get(name) is not None
    ]
    levels = [
        {"pool": pool, "detector": x, "accuracy": ways[way], "way": way}
        for pool, ways in record["pools"].items()
        for way in ("ζ", "ζ of the reference step")
        for x in (min(_DETECTORS.values()), 100)
        if ways.get(way) is not None
    ]
    titles = ("accuracy X of the detector in %", "mean test accuracy of Region 1")
    return draw_panels(
        [*rows, *levels],
        "line",
        "detector:Q",
        "accuracy:Q",
        titles=titles,
        color="way:N",
        dash="way:N",
    )


STUDY = Study(
    name="detector",
    title="how good a label-error detector must be to select as well as ζ",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=lambda pool: is_broad(pool) or match_group("objectives")(pool),
    draw=draw,
    paper=("fig:noisysel",),
    cause="A detector with an accuracy of 80 % ranks these checkpoints as well as the truth does: "
    "the mean over 1,500 or more labels hides single mistakes. ζ is worse where recipes are mixed "
    "(tracking), and equal or better where they matter less (yoruba, fashion-symmetric, "
    "cifar10-mistaken).",
    brief=write_brief,
    cause_at_medium=(
        "A detector replaces training accuracy by the accuracy on labels that it takes for right, "
        "so memorization does not raise its threshold. Networks that memorize raise the mean "
        "training accuracy, which harms Region 1 of ζ, as [regions](regions-medium.md) explains. "
        "Detectors of 50 to 70 % hardly separate right from wrong labels: few checkpoints are in "
        "their Region 1."
    ),
)
