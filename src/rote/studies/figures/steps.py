"""ζ of the training optimizer's step and ζ of the reference step, as measures of memorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import draw_panels
from rote.studies.checkpoints import DRAWS, NOISY, average_known, correlate_columns
from rote.studies.markdown import (
    count_pools,
    format_interval,
    format_number,
    format_percent,
    write_table,
)
from rote.studies.selector import Selector, judge
from rote.studies.study import Record, Study, is_broad, measure_by_pool

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

STEPS = {
    "live step (the paper's ζ)": "susceptibility",
    "live step, relative": "susceptibility_relative",
    "reference step": "susceptibility_plain",
    "reference step, relative": "susceptibility_plain_relative",
}


def measure_pool(_pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlation with memorization, and the points lost by selecting the lowest ζ."""
    if not candidates.known(NOISY).any():
        return None
    found: dict[str, Any] = {}
    for name, column in STEPS.items():
        judged = judge(Selector(name, f"min:{column}"), candidates, DRAWS)
        found[name] = {
            "pearson": correlate_columns(candidates, column, NOISY),
            "lost": None if judged is None else average_known(list(judged.per_run)),
        }
    return found


def write_text(record: Record) -> str:
    """Return a row for each pool."""
    return write_table(
        "pool",
        [f"{name}: {what}" for name in STEPS for what in ("Pearson", "points lost by the lowest")],
        {
            name: [
                cell
                for step in STEPS
                for cell in (
                    format_interval(pool[step]["pearson"]),
                    format_percent(pool[step]["lost"]),
                )
            ]
            for name, pool in record["pools"].items()
        },
    )


def write_finding(record: Record) -> str:
    """Return means over pools."""
    pools = list(record["pools"].values())
    means = {name: average_known([pool[name]["pearson"][0] for pool in pools]) for name in STEPS}
    said = ", ".join(f"{name} {format_number(mean)}" for name, mean in means.items())
    return f"Mean Pearson with memorization over {count_pools(pools)} of mixed optimizers: {said}."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each step."""
    rows = [
        {"pool": pool, "step": name, "pearson": found["pearson"][0]}
        for pool, steps in record["pools"].items()
        for name, found in steps.items()
        if found["pearson"][0] is not None
    ]
    titles = ("Pearson, accuracy on noisy labels", "")
    return draw_panels(rows, "bar", "pearson:Q", "step:N", titles=titles)


STUDY = Study(
    name="steps",
    title="the reference step compared with the live step",
    measure=measure_by_pool(measure_pool),
    text=write_text,
    finding=write_finding,
    wants=is_broad,
    draw=draw,
)
