"""The ζ filter compared with noisy validation, by noise level and size of the validation set."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_heat
from rote.studies.checkpoints import ZETA, average_known, correlate_columns
from rote.studies.figures.validation_size import SIZES
from rote.studies.markdown import format_number, write_table
from rote.studies.pool import describe_pool
from rote.studies.selector import TRUTH
from rote.studies.study import (
    Brief,
    Record,
    Study,
    is_broad,
    judge_claim,
    match_group,
    measure_by_pool,
)

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

SYMMETRIC = "symmetric-inclusive"
_HIGH, _SMALL = 0.5, 256
"""Where ζ is better in the paper: at least half of the labels noisy, sets of at most this size."""


def measure_pool(pool: Pool, candidates: Candidates) -> Record:
    """Return Kendall's τ of the filter minus that of a validation set of each size."""
    ours = correlate_columns(candidates, "train_accuracy", TRUTH, kind="kendall", zeta=ZETA)[0]
    lead = {}
    for size in SIZES:
        column = f"noisy_validation_{size}"
        if ours is not None and candidates.known(column).any():
            theirs = correlate_columns(candidates, column, TRUTH, kind="kendall")[0]
            lead[str(size)] = None if theirs is None else ours - theirs
    return {"rate": pool.space.base["noise"]["rate"], "lead": lead}


def write_text(record: Record) -> str:
    """Return a row for each pool, by noise level."""
    pools = sorted(record["pools"].items(), key=lambda entry: entry[1]["rate"])
    sizes = [str(size) for size in SIZES if any(str(size) in pool["lead"] for _, pool in pools)]
    return write_table(
        "τ of the ζ filter − τ of validation",
        ["noise level", *(f"n = {size}" for size in sizes)],
        {
            name: [
                format_number(pool["rate"]),
                *(format_number(pool["lead"].get(size)) for size in sizes),
            ]
            for name, pool in pools
        },
    )


def write_finding(record: Record) -> str:
    """Return in which cells the ζ filter is better."""
    cells = [
        (pool["rate"], int(size), lead)
        for pool in record["pools"].values()
        for size, lead in pool["lead"].items()
        if lead is not None
    ]
    ahead = sum(lead > 0 for *_, lead in cells)
    said = [_count_ahead(cells, rate) for rate in sorted({rate for rate, *_ in cells})]
    return (
        f"The ζ filter is ahead of noisy validation in {ahead} of {len(cells)} cells (pools and "
        f"sizes): {'; '.join(said)}."
    )


def _count_ahead(cells: list[tuple[float, int, float]], rate: float) -> str:
    """Describe for one noise level in how many pools the filter is ahead, by size."""
    leads: dict[int, list[bool]] = {}
    for level, size, lead in sorted(cells):
        if level == rate:
            leads.setdefault(size, []).append(lead > 0)
    each = ", ".join(f"{sum(held)} of {len(held)} at n = {size}" for size, held in leads.items())
    return f"{100 * rate:.0f} % noise {each}"


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a square for each noise level and size: the mean over pools of the same data."""
    leads: dict[tuple[str, float, str], list[float]] = {}
    for name, pool in record["pools"].items():
        for size, lead in pool["lead"].items():
            if lead is not None:
                data = describe_pool(name).partition(",")[0]
                leads.setdefault((data, pool["rate"], size), []).append(lead)
    rows = [
        {"data": data, "rate": rate, "size": int(size), "lead": average_known(of)}
        for (data, rate, size), of in leads.items()
    ]
    titles = ("size of the set", "noise level", "τ(ζ filter) − τ(validation)")
    return draw_heat(rows, "size", "rate", "lead", titles=titles, by="data")


def write_brief(record: Record) -> Brief:
    """Return how many cells ζ wins, of all and of those that it wins in the paper."""
    cells = [
        (pool["rate"], int(size), lead)
        for pool in record["pools"].values()
        for size, lead in pool["lead"].items()
        if lead is not None
    ]
    there = [lead > 0 for rate, size, lead in cells if rate >= _HIGH and size <= _SMALL]
    ahead = sum(lead > 0 for _, _, lead in cells)
    ours = (
        f"ahead in {ahead} of {len(cells)} cells; from {_HIGH:.0%} noise on, with at most {_SMALL} "
        f"labels, in {sum(there)} of {len(there)}"
    )
    return Brief(ours.replace("%", " %"), judge_claim(there))


STUDY = Study(
    name="noise-map",
    title="the ζ filter against noisy validation, by noise level and size of the set",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=lambda pool: pool.noise == SYMMETRIC and (is_broad(pool) or match_group("noise")(pool)),
    draw=draw,
    paper=("fig:pareto",),
    cause="As in the paper, the lead is largest for the smallest set and the highest noise, and "
    "on its architectures (cifar10-symmetric) ζ is ahead at every size. On MNIST and "
    "Fashion-MNIST, where three recipes are mixed, sets of 128 or more labels are equal or better.",
    cause_at_medium=(
        "As in the paper, the filter is ahead for the smallest sets and at high noise, and behind "
        "where labels are many. On MNIST and Fashion-MNIST, where nearly all networks memorize, "
        "it is ahead of ten labels only ([filter](filter-medium.md))."
    ),
    brief=write_brief,
)
