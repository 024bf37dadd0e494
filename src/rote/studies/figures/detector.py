"""The accuracy that a label-error detector needs to select as well as ζ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import (
    NOISY,
    PLAIN,
    ZETA,
    average_known,
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
    "plain relative ζ": (PLAIN, "train_accuracy"),
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


def _average_pools(record: Record) -> dict[str, float]:
    pools = record["pools"].values()
    means = {way: average_known([pool.get(way) for pool in pools]) for way in WAYS}
    return {way: mean for way, mean in means.items() if mean is not None}


def _find_equal_detector(means: dict[str, float]) -> int | None:
    """Return the accuracy of the best detector that does not beat ζ; 0 if all of them beat it."""
    if "ζ" not in means or not any(name in means for name in _DETECTORS):
        return None
    beaten = [x for name, x in _DETECTORS.items() if means.get(name, 2.0) <= means["ζ"] + _NEAR]
    return max(beaten, default=0)


def write_brief(record: Record) -> Brief:
    """Return the best detector that does not beat ζ by more than a point."""
    means = _average_pools(record)
    equal = _find_equal_detector(means)
    if equal is None:
        return Brief("too few checkpoints in Region 1", None)
    words = (
        f"ζ ({format_points(means['ζ'])} %) equals X = {equal} %" if equal else "every X beats ζ"
    )
    least = min(_DETECTORS.values())
    verdict = CONFIRMED if equal >= 96 else IN_PART if equal > least else NOT_CONFIRMED
    return Brief(words, verdict)


def write_finding(record: Record) -> str:
    """Return the least accurate detector that matches ζ, by the means over pools."""
    known = _average_pools(record)
    said = ", ".join(f"{name} {format_percent(mean)}" for name, mean in known.items())
    ours = max((mean for name, mean in known.items() if "ζ" in name), default=0.0)
    better = [name for name, mean in known.items() if "ζ" not in name and mean >= ours]
    words = f"the better ζ falls behind from {better[0]} on" if better else "no detector beats it"
    return f"Means over {count_pools(record['pools'])}: {said}; {words} (paper: beyond 96 %)."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each way."""
    rows = [
        {"pool": pool, "way": name, "accuracy": mean}
        for pool, ways in record["pools"].items()
        for name, mean in ways.items()
        if mean is not None
    ]
    titles = ("mean test accuracy of Region 1", "")
    return draw_panels(rows, "bar", "accuracy:Q", "way:N", titles=titles)


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
        "Networks that memorize raise the mean training accuracy, which harms Region 1 of ζ, as "
        "[regions](regions-medium.md) explains. A label-error detector is not affected, so even a "
        "poor one beats ζ."
    ),
)
