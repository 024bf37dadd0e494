"""Studies of whether ζ tracks memorization within and across the values of one setting."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import NOISY, PLAIN, ZETA, average_known, correlate_columns, sample
from rote.studies.markdown import count_pools, format_interval, format_number, write_table
from rote.studies.study import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    Brief,
    Record,
    Study,
    is_common,
    measure_by_pool,
)

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool
    from rote.workloads import RunSpec

ALL = "all"
_ENOUGH, _SOME = 0.6, 0.4
_LISTED = 3
"""The most settings that the index lists one by one."""
_DRAWN = 150


def make_setting_study(
    setting: Callable[[RunSpec], str | None],
    name: str,
    title: str,
    *,
    wants: Callable[[Pool], bool] = is_common,
    paper: tuple[str, ...] = (),
    cause: str = "",
    cause_at_medium: str = "",
) -> Study:
    """Return a study of one setting: its value in a run, or None if the run does not count."""

    def measure_pool(pool: Pool, candidates: Candidates) -> Record | None:
        values = [
            setting(pool.specs[run]) if run in pool.specs else None for run in candidates.runs
        ]
        known = sorted({value for value in values if value is not None}, key=_order)
        if len(known) < 2 or not candidates.known(NOISY).any():
            return None
        of_checkpoint = np.array([value or "" for value in values])[candidates.run]
        groups = {value: of_checkpoint == value for value in known} | {ALL: of_checkpoint != ""}
        return {value: _measure_runs(pool, candidates, among) for value, among in groups.items()}

    measure = measure_by_pool(measure_pool)
    return Study(
        name,
        title,
        measure,
        write_text,
        write_finding,
        wants,
        draw,
        paper,
        cause,
        cause_at_medium,
        brief=write_brief,
    )


def _order(value: str) -> tuple[int, str]:
    return (int(value), value) if value.isdigit() else (0, value)


def _measure_runs(pool: Pool, candidates: Candidates, among: np.ndarray) -> Record:
    inside = candidates.take(among)
    return {
        "runs": inside.num_runs,
        "ζ": correlate_columns(inside, ZETA, NOISY),
        "spearman": correlate_columns(inside, ZETA, NOISY, kind="spearman"),
        "ζ of the reference step": correlate_columns(inside, PLAIN, NOISY),
        "points": sample(inside, {"zeta": ZETA, "memorized": NOISY}, most=_DRAWN, pool=pool),
    }


def write_text(record: Record) -> str:
    """Return a row for each value of the setting in each pool."""
    ways = ("ζ", "spearman", "ζ of the reference step")
    return write_table(
        "pool",
        ["setting", "runs", "Pearson, ζ", "Spearman, ζ", "Pearson, ζ of the reference step"],
        {
            f"{name} | {value}": [
                str(found["runs"]),
                *(format_interval(found[way]) for way in ways),
            ]
            for name, pool in record["pools"].items()
            for value, found in pool.items()
        },
    )


def write_finding(record: Record) -> str:
    """Return the mean correlations over pools, for each value."""
    if not record["pools"]:
        return "No pool has runs with several values."
    values = list(dict.fromkeys(value for pool in record["pools"].values() for value in pool))
    said = []
    for value in values:
        found = [pool[value] for pool in record["pools"].values() if value in pool]
        linear, ranks = (average_known([f[key][0] for f in found]) for key in ("ζ", "spearman"))
        said.append(f"{value} {format_number(linear)} ({format_number(ranks)})")
    return (
        f"Mean Pearson (in brackets, Spearman) of ζ with memorization over "
        f"{count_pools(record['pools'])}: {', '.join(said)}."
    )


def write_brief(record: Record) -> Brief:
    """Return the mean correlation for each value, and over all of them."""
    pools = list(record["pools"].values())
    values = list(dict.fromkeys(value for pool in pools for value in pool))
    means = {v: average_known([pool[v]["ζ"][0] for pool in pools if v in pool]) for v in values}
    every = means.get(ALL)
    if every is None:
        return Brief("not known", None)
    each = {v: mean for v, mean in means.items() if v != ALL and mean is not None}
    ours = ", ".join(f"{value} {format_number(mean)}" for value, mean in each.items())
    if len(each) > _LISTED:
        low, high = (format_number(find(each.values())) for find in (min, max))
        ours = f"{len(each)} settings: {low} to {high}"
    verdict = CONFIRMED if every >= _ENOUGH else IN_PART if every >= _SOME else NOT_CONFIRMED
    return Brief(f"ρ {format_number(every)} ({ours})", verdict)


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a point for each checkpoint, a color for each value."""
    return _draw_points(record, by="pool", color="setting:N")


def draw_by_architecture(record: Record) -> Any:  # noqa: ANN401
    """Draw a panel for each value, a color for each architecture."""
    return _draw_points(record, by="setting", color="architecture:N")


def _draw_points(record: Record, *, by: str, color: str) -> Any:  # noqa: ANN401
    rows = [
        {"pool": name, "setting": value} | point
        for name, pool in record["pools"].items()
        for value, found in pool.items()
        if value != ALL
        for point in found["points"]
    ]
    titles = ("ζ", "accuracy on noisy labels")
    return draw_panels(rows, "circle", "zeta:Q", "memorized:Q", titles=titles, by=by, color=color)
