"""ζ where few labels are wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_memorization
from rote.studies.checkpoints import (
    NOISY,
    PLAIN,
    ZETA,
    average_known,
    correlate_columns,
    sample,
)
from rote.studies.figures import oracle_regions
from rote.studies.markdown import format_interval, format_number, write_table
from rote.studies.study import Brief, Record, Study, View, judge_claim, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_LOW = 0.1
_ENOUGH = 0.6
_DRAWN = 300


def is_low(pool: Pool) -> bool:
    """Return whether a pool has synthetic noise of at most 10 %."""
    return pool.noise is not None and pool.space.base["noise"]["rate"] <= _LOW


def measure_pool(pool: Pool, candidates: Candidates) -> Record:
    """Return the correlation with memorization, and Region 1 of the oracle and of ζ."""
    return {
        "ζ": correlate_columns(candidates, ZETA, NOISY),
        "ζ of the reference step": correlate_columns(candidates, PLAIN, NOISY),
        "points": sample(candidates, {"zeta": ZETA, "memorized": NOISY}, most=_DRAWN, pool=pool),
        "regions": oracle_regions.measure_pool(pool, candidates),
    }


def _get_regions(record: Record) -> Record:
    return {"pools": {name: pool["regions"] for name, pool in record["pools"].items()}}


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    ways = ("ζ", "ζ of the reference step")
    rows = {
        name: [format_interval(pool[w]) for w in ways] for name, pool in record["pools"].items()
    }
    correlations = write_table("pool", [f"Pearson with memorization, {way}" for way in ways], rows)
    return f"{correlations}\n\n{oracle_regions.write_text(_get_regions(record))}"


def write_finding(record: Record) -> str:
    """Both."""
    found = ", ".join(f"{name} {format_number(p['ζ'][0])}" for name, p in record["pools"].items())
    return (
        f"Pearson of ζ with memorization: {found}. "
        f"{oracle_regions.write_finding(_get_regions(record))}"
    )


def write_brief(record: Record) -> Brief:
    """Return the correlation of ζ with memorization, and the verdict."""
    found = [p["ζ"][0] for p in record["pools"].values() if p["ζ"][0] is not None]
    held = judge_claim([value >= _ENOUGH for value in found])
    return Brief(f"ρ {format_number(average_known(found))}", held)


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the accuracy on noisy labels over ζ, a color for each architecture."""
    return draw_memorization(record["pools"])


def draw_regions(record: Record) -> Any:  # noqa: ANN401
    """Draw the planes of the oracle and of ζ."""
    return oracle_regions.draw(_get_regions(record))


_REGIONS = View(draw_regions, lambda record: oracle_regions.write_brief(_get_regions(record)))


STUDY = Study(
    name="low-noise",
    title="ζ where one label in ten is resampled",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_low,
    draw=draw,
    views={"fig:figure1_less_cifar10": _REGIONS, "fig:figure1_less_cifar100": _REGIONS},
    paper=(
        *("fig:cifar10less", "fig:figure1_less_cifar10"),
        *("fig:cifar100less", "fig:figure1_less_cifar100"),
    ),
    cause="There are six runs of two recipes. With Adam, ζ rises with memorization. With SGD at "
    "0.1 and a cosine schedule, it starts high and falls as steps get smaller. Region 1 agrees "
    "with the paper. CIFAR at this noise level is declared in presets `medium` and `paper`.",
    cause_at_medium=(
        "ζ tracks memorization as it does at 50 %. Pools of few runs have too few checkpoints for "
        "statements on Region 1."
    ),
    brief=write_brief,
)
