"""Region 1 over all thresholds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_heat_panels
from rote.studies.checkpoints import (
    FEWEST,
    ZETA,
    average_known,
    average_regions,
    find_regions,
    get_stated_mean,
)
from rote.studies.markdown import NOTHING, format_percent, format_points, write_table
from rote.studies.study import (
    CONFIRMED,
    IN_PART,
    NOT_CONFIRMED,
    Brief,
    Record,
    Study,
    is_broad,
    measure_by_pool,
)

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

PERCENTILES = tuple(range(5, 100, 10))
_PAPER = (35, 55)
_NEAR = 0.03


def measure_pool(_pool: Pool, candidates: Candidates) -> Record:
    """Return Region 1 and its lead over Region 2 on a grid of percentiles, and by the means.

    Both percentiles are the paper's: Region 1 has ζ below the percentile of ζ, and training
    accuracy above the percentile of training accuracy counted from the top.
    """
    cells = []
    for of_zeta in PERCENTILES:
        for of_accuracy in PERCENTILES:
            at = (float(of_zeta), float(of_accuracy))
            one, two = average_regions(
                candidates, find_regions(candidates, ZETA, "train_accuracy", at)
            )[:2]
            first, second = get_stated_mean(one), get_stated_mean(two)
            lead = None if first is None or second is None else first - second
            cells.append(
                {"zeta": of_zeta, "train": of_accuracy, "count": one["count"]}
                | {"mean": first, "lead": lead}
            )
    by_means = average_regions(candidates, find_regions(candidates, ZETA, "train_accuracy"))[0]
    filled = [cell for cell in cells if cell["mean"] is not None]
    best = max(filled, key=lambda cell: cell["mean"]) if filled else None
    return {"cells": cells, "best": best, "means": get_stated_mean(by_means)}


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    rows = {}
    for name, pool in record["pools"].items():
        best, leads = pool["best"], [c["lead"] for c in pool["cells"] if c["lead"] is not None]
        rows[name] = [
            format_percent(pool["means"]),
            format_percent(best["mean"]) if best else NOTHING,
            best["zeta"] if best else NOTHING,
            best["train"] if best else NOTHING,
            f"{sum(lead > 0 for lead in leads)} of {len(leads)}",
        ]
    columns = [
        *("Region 1 by the means", "best Region 1", "percentile of ζ"),
        *("percentile of training accuracy, from the top", "cells with Region 1 ahead of Region 2"),
    ]
    note = f"Only cells with at least {FEWEST} checkpoints in each compared region count."
    return f"{write_table('pool', columns, rows)}\n\n{note}"


def write_finding(record: Record) -> str:
    """Return the gain of tuned percentiles, and where the best ones lie."""
    pools = _list_known(record)
    if not pools:
        return f"No Region 1 has {FEWEST} checkpoints."
    zeta, train = ([pool["best"][key] for pool in pools] for key in ("zeta", "train"))
    return (
        "Region 1 has a mean test accuracy of "
        f"{format_percent(average_known([p['means'] for p in pools]))} by the means, and of "
        f"{format_percent(average_known([p['best']['mean'] for p in pools]))} if both percentiles "
        f"could be tuned on the truth. The best percentiles are {_format_range(zeta)} of ζ and "
        f"{_format_range(train)} of training accuracy, counted from the top as in the paper "
        "(there: 35 to 55)."
    )


def _list_known(record: Record) -> list[Record]:
    return [p for p in record["pools"].values() if p["best"] and p["means"] is not None]


def _format_range(values: list[int]) -> str:
    low, high = min(values), max(values)
    return str(low) if low == high else f"{low} to {high}"


def write_brief(record: Record) -> Brief:
    """Return Region 1 by the means and tuned, the best percentiles, and the verdict."""
    pools = _list_known(record)
    if not pools:
        return Brief(f"fewer than {FEWEST} checkpoints in Region 1", None)
    means, tuned = (
        average_known([p["means"] for p in pools]),
        average_known([p["best"]["mean"] for p in pools]),
    )
    places = [pool["best"][key] for pool in pools for key in ("zeta", "train")]
    ours = (
        f"means {format_points(means)}, tuned {format_points(tuned)} %; best percentiles "
        f"{_format_range(places)}"
    )
    is_near = means is not None and tuned is not None and tuned - means <= _NEAR
    is_there = all(_PAPER[0] <= place <= _PAPER[1] for place in places)
    both = {2: CONFIRMED, 1: IN_PART, 0: NOT_CONFIRMED}
    return Brief(ours, both[is_near + is_there])


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw two squares for each pool: Region 1, and its lead over Region 2.

    Cells without enough checkpoints stay empty.
    """
    rows = [
        {"pool": name, "zeta": cell["zeta"], "train": cell["train"]}
        | {"mean": cell["mean"], "lead": cell["lead"]}
        for name, pool in record["pools"].items()
        for cell in pool["cells"]
        if cell["mean"] is not None
    ]
    titles = ("percentile of ζ", "percentile of training accuracy")
    values = {"mean": "Region 1", "lead": "Region 1 − Region 2"}
    return draw_heat_panels(rows, "zeta", "train", values, titles=titles, diverging=("lead",))


STUDY = Study(
    name="thresholds",
    title="Region 1 over the thresholds of ζ and of training accuracy",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:thresholds",),
    cause="A few very large ζ raise the mean, so a lower percentile is better. Architectures that "
    "memorize at different speeds favor a higher percentile. The best of a hundred cells is also "
    "too good by chance.",
    brief=write_brief,
    cause_at_medium=(
        "The mean training accuracy is above what resistant networks reach "
        "([regions](regions-medium.md)), so a lower threshold (a higher percentile from the top) "
        "gains a lot. The best of a hundred cells is also too good by chance."
    ),
)
