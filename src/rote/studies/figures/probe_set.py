"""The size of S̃, and the seed of its labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import panels
from rote.studies.checkpoints import NOISY, ZETA, correlation
from rote.studies.markdown import interval, number, percent, table
from rote.studies.study import Brief, Record, Study, by_pool, of_group, verdict_of

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool


_FLAT, _LOW = 0.2, 0.15
"""The range of correlations that counts as flat, and the relative spread that counts as low."""


def pool_record(pool: Pool, candidates: Candidates) -> Record:
    """Return the correlation by size (seed 0), and the spread of the final ζ over seeds."""
    specs = [pool.specs[run] for run in candidates.runs]
    sizes, seeds = (np.array([getattr(s.probe, key) for s in specs]) for key in ("batch", "seed"))
    by_size = {
        str(size): correlation(
            candidates, ZETA, NOISY, among=((sizes == size) & (seeds == 0))[candidates.run]
        )
        for size in np.unique(sizes)
    }
    last = candidates.last()
    ends: dict[tuple[str, int], list[float]] = {}
    for spec, at in zip(specs, last, strict=True):
        key = (f"{spec.architecture} {spec.optimizer}", spec.probe.batch)
        ends.setdefault(key, []).append(float(candidates.values(ZETA)[at]))
    spreads = [float(np.std(of, ddof=1) / np.mean(of)) for of in ends.values() if len(of) > 1]
    return {
        "sizes": by_size,
        "spread": float(np.mean(spreads)) if spreads else None,
        "seeds": len(np.unique(seeds)),
    }


def text(record: Record) -> str:
    """Return a row for each size in each pool."""
    rows = {
        f"{name} | {size}": [interval(found)]
        for name, pool in record["pools"].items()
        for size, found in pool["sizes"].items()
    }
    return table("pool", ["size of S̃", "Pearson of ζ with memorization"], rows)


def finding(record: Record) -> str:
    """Return the correlation by size, and the spread by seed."""
    said = []
    for pool in record["pools"].values():
        sizes = ", ".join(f"{size} {number(found[0])}" for size, found in pool["sizes"].items())
        said.append(
            f"Pearson with memorization by size of S̃: {sizes}; over {pool['seeds']} seeds, ζ at "
            f"the end has a standard deviation of {percent(pool['spread'])} of its mean."
        )
    return " ".join(said)


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each size."""
    rows = [
        {"pool": name, "size": size, "pearson": found[0]}
        for name, pool in record["pools"].items()
        for size, found in pool["sizes"].items()
        if found[0] is not None
    ]
    titles = ("samples of random labels", "Pearson")
    return panels(rows, "bar", "size:N", "pearson:Q", titles=titles)


def brief(record: Record) -> Brief:
    """Return the range over sizes, and the spread over seeds."""
    found = [f[0] for pool in record["pools"].values() for f in pool["sizes"].values() if f[0]]
    spreads = [p["spread"] for p in record["pools"].values() if p["spread"] is not None]
    if not found or not spreads:
        return Brief("not known", None)
    flat, low = max(found) - min(found) <= _FLAT, max(spreads) <= _LOW
    ours = (
        f"ρ {number(min(found))} to {number(max(found))} over sizes; spread {percent(spreads[0])}"
    )
    return Brief(ours, verdict_of([flat, low]))


STUDY = Study(
    name="probe-set",
    title="the size of S̃ and the seed of its labels",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=of_group("probe"),
    draw=draw,
    paper=("fig:sout",),
    cause="As in the paper, the size hardly matters and seeds differ little. The level is "
    "lower: two networks under a cosine schedule (schedules).",
    brief=brief,
)
