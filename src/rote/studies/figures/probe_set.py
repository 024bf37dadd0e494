"""The effect of the size, seed and origin of the probe set S̃."""

from __future__ import annotations

import re
from statistics import fmean
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import NOISY, average_known, correlate_columns
from rote.studies.markdown import format_interval, format_number, format_percent, write_table
from rote.studies.study import Brief, Record, Study, judge_claim, match_group, measure_by_pool

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rote.selection import Candidates
    from rote.studies.pool import Pool


_FLAT, _LOW = 0.2, 0.15
"""The range of correlations that counts as flat, and the relative spread that counts as low."""

_VERY_SMALL = 10
"""The paper says that the size does not matter unless S̃ is very small."""

_COLUMN = re.compile(r"zeta_([a-z]+)_(\d+)_(\d+)")
"""Columns that the signal `probe_sets` records: origin, size, seed."""


def measure_pool(pool: Pool, candidates: Candidates) -> Record:
    """Return correlation with memorization and spread over seeds, by origin and size of S̃."""
    rates = np.array([pool.specs[run].optimizer.lr for run in candidates.runs])[candidates.run]
    found: dict[str, dict[int, list[str]]] = {}
    for column in candidates.table.frame.columns:
        if (parts := _COLUMN.fullmatch(column)) and candidates.known(column, NOISY).any():
            origin, size = parts[1], int(parts[2])
            found.setdefault(origin, {}).setdefault(size, []).append(column)
    return {
        origin: {
            str(size): _measure_size(candidates, sets, rates)
            for size, sets in sorted(sizes.items())
        }
        for origin, sizes in found.items()
    }


def _measure_size(candidates: Candidates, sets: list[str], rates: np.ndarray) -> Record:
    known = _correlate_sets(candidates, sets)
    last = candidates.last()
    ends = np.array([candidates.values(column)[last] for column in sets])
    spread = ends.std(axis=0, ddof=1) / abs(ends.mean(axis=0)) if len(sets) > 1 else None
    return {
        "pearson": [fmean(known), min(known), max(known)] if known else [None],
        "rates": {
            f"{rate:g}": average_known(_correlate_sets(candidates, sets, rates == rate))
            for rate in np.unique(rates)
        },
        "spread": None if spread is None else float(spread.mean()),
        "seeds": len(sets),
    }


def _correlate_sets(
    candidates: Candidates, sets: list[str], among: np.ndarray | None = None
) -> list[float]:
    each = [correlate_columns(candidates, column, NOISY, among=among)[0] for column in sets]
    return [pearson for pearson in each if pearson is not None]


def _list_rows(record: Record) -> Iterator[tuple[str, str, str, Record]]:
    """Yield pool, origin, size and the numbers for these."""
    for name, origins in record["pools"].items():
        for origin, sizes in origins.items():
            for size, found in sizes.items():
                yield name, origin, size, found


def write_text(record: Record) -> str:
    """Return a row for each origin and size in each pool; intervals are ranges over seeds."""
    rows = {
        f"{name} | {origin} | {size}": [
            format_interval(found["pearson"]),
            ", ".join(f"{rate}: {format_number(mean)}" for rate, mean in found["rates"].items()),
            format_percent(found["spread"]),
        ]
        for name, origin, size, found in _list_rows(record)
    }
    columns = [
        *("samples from", "size of S̃", "Pearson of ζ with memorization"),
        *("within a learning rate", "spread of ζ"),
    ]
    return write_table("pool", columns, rows)


def write_finding(record: Record) -> str:
    """Return the correlation and the spread by size."""
    said = []
    for name, origins in record["pools"].items():
        for origin, sizes in origins.items():
            each = ", ".join(
                f"{size}: {format_number(found['pearson'][0])} ({format_percent(found['spread'])})"
                for size, found in sizes.items()
            )
            said.append(f"{name}, S̃ from the {origin} set: {each}.")
    return (
        "Pearson of ζ with memorization by size of S̃, and in parentheses the standard deviation "
        f"of ζ at the end over seeds, relative to its mean. {' '.join(said)}"
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: correlation and spread over sizes, a line for each origin."""
    panels = ("Pearson of ζ with memorization", "spread of ζ over seeds, relative to its mean")
    rows = [
        {"what": what, "origin": f"S̃ from the {origin} set", "size": int(size), "value": value}
        for what in panels
        for _, origin, size, found in _list_rows(record)
        for value in [found["pearson"][0] if what == panels[0] else found["spread"]]
        if value is not None
    ]
    titles = ("samples in S̃", "")
    return draw_panels(
        rows,
        "line",
        "size:O",
        "value:Q",
        titles=titles,
        by="what",
        color="origin:N",
        own_heights=True,
    )


def write_brief(record: Record) -> Brief:
    """Return the range over sizes, and the spread over seeds at the paper's size."""
    rows = list(_list_rows(record))
    by_origin: dict[tuple[str, str], list[float]] = {}
    for name, origin, size, f in rows:
        if f["pearson"][0] is not None and int(size) > _VERY_SMALL:
            by_origin.setdefault((name, origin), []).append(f["pearson"][0])
    spreads = [f["spread"] for *_, size, f in rows if size == "128" and f["spread"] is not None]
    if not by_origin or not spreads:
        return Brief("not known", None)
    flat = [max(found) - min(found) <= _FLAT for found in by_origin.values()]
    every = [value for found in by_origin.values() for value in found]
    return Brief(
        f"ρ {format_number(min(every))} to {format_number(max(every))} over sizes above "
        f"{_VERY_SMALL}; spread {format_percent(max(spreads))} at 128",
        judge_claim([*flat, max(spreads) <= _LOW]),
    )


STUDY = Study(
    name="probe-set",
    title="the size, seed and origin of S̃",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=match_group("probe"),
    draw=draw,
    paper=("fig:sout",),
    cause="At the lower learning rate, the size hardly matters, as in the paper. At the higher "
    "one, and therefore over both, a larger S̃ lowers the correlation, also for the network with "
    "batch norm. We do not know why.",
    cause_at_medium=(
        "At the paper’s size of 128, ζ tracks memorization best and depends least on the seed. "
        "One step on more random labels lowers their loss less, because the gradients of "
        "unrelated labels cancel, so ζ of large sets is small compared with its scatter. That "
        "Figure 34 of the paper does not show this may be due to its higher learning rate. "
        "Whether S̃ was trained on hardly matters."
    ),
    brief=write_brief,
)
