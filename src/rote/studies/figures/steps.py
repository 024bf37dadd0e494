"""The live step of the training optimizer, or a plain step: which ζ gauges memorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import DRAWS, NOISY, correlation, mean_of
from rote.studies.markdown import counted, interval, number, percent, table
from rote.studies.selector import Selector, judge
from rote.studies.study import Record, Study, by_pool, is_broad

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

STEPS = {
    "live step (the paper's ζ)": "susceptibility",
    "live step, relative": "susceptibility_relative",
    "plain step": "susceptibility_plain",
    "plain step, relative": "susceptibility_plain_relative",
}


def pool_record(_pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlation with memorization, and what the lowest ζ loses."""
    if not candidates.known(NOISY).any():
        return None
    found: dict[str, Any] = {}
    for name, column in STEPS.items():
        judged = judge(Selector(name, f"min:{column}"), candidates, DRAWS)
        found[name] = {
            "pearson": correlation(candidates, column, NOISY),
            "lost": None if judged is None else mean_of(list(judged.per_run)),
        }
    return found


def text(record: Record) -> str:
    """Return a row for each pool."""
    return table(
        "pool",
        [f"{name}: {what}" for name in STEPS for what in ("Pearson", "points lost by the lowest")],
        {
            name: [
                cell
                for step in STEPS
                for cell in (interval(pool[step]["pearson"]), percent(pool[step]["lost"]))
            ]
            for name, pool in record["pools"].items()
        },
    )


def finding(record: Record) -> str:
    """Means over pools."""
    pools = list(record["pools"].values())
    means = {name: mean_of([pool[name]["pearson"][0] for pool in pools]) for name in STEPS}
    said = ", ".join(f"{name} {number(mean)}" for name, mean in means.items())
    return f"Mean Pearson with memorization over {counted(pools)} of mixed optimizers: {said}."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each step."""
    rows = [
        {"pool": pool, "step": name, "pearson": found["pearson"][0]}
        for pool, steps in record["pools"].items()
        for name, found in steps.items()
        if found["pearson"][0] is not None
    ]
    titles = ("Pearson, accuracy on noisy labels", "")
    return panels(rows, "bar", "pearson:Q", "step:N", titles=titles)


STUDY = Study(
    name="steps",
    title="the plain step against the live step",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
)
