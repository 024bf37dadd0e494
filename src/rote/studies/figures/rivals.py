"""Which signal gauges memorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import NOISY, PLAIN, ZETA, correlation, mean_of
from rote.studies.markdown import counted, interval, number, table
from rote.studies.networks import NETWORKS
from rote.studies.study import Record, Study, by_pool, is_for_rules

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

PLAIN_NAME = "plain relative ζ"
SIGNALS = {
    "ζ": ZETA,
    PLAIN_NAME: PLAIN,
    "loss-mixture gap (SELC)": "selc",
    "accuracy drop (PMV)": "pmv",
    "gradient-weight alignment (GWA)": "gwa",
    "gradient disparity": "gradient_disparity",
    "changed predictions (LabelWave)": "label_wave",
    "training accuracy": "train_accuracy",
}


def pool_record(_pool: Pool, candidates: Candidates) -> Record | None:
    """Return the correlation of every signal that is recorded with memorization."""
    if not candidates.known(NOISY).any():
        return None
    return {
        name: correlation(candidates, column, NOISY)
        for name, column in SIGNALS.items()
        if candidates.known(column).any()
    }


def text(record: Record) -> str:
    """Return a row for each signal, a column for each pool."""
    pools = record["pools"]
    return table(
        "Pearson with the accuracy on noisy labels",
        list(pools),
        {name: [interval(pool.get(name)) for pool in pools.values()] for name in SIGNALS},
    )


def finding(record: Record) -> str:
    """Means over pools, the strongest first; of how many, where not all have the signal."""
    pools = list(record["pools"].values())
    found = {name: [pool[name][0] for pool in pools if name in pool] for name in SIGNALS}
    means = {name: mean for name, of in found.items() if (mean := mean_of(of)) is not None}
    order = sorted(means.items(), key=lambda entry: -abs(entry[1]))
    fewer = {name: f" (in {counted(of)})" for name, of in found.items() if len(of) < len(pools)}
    said = ", ".join(f"{name} {number(mean)}{fewer.get(name, '')}" for name, mean in order)
    of_zeta = [name for name, _ in order if "training" not in name][:1] in (["ζ"], [PLAIN_NAME])
    words = "as in the paper, ζ is" if of_zeta else "unlike in the paper, ζ is not"
    return (
        f"Mean Pearson with the accuracy on noisy labels, {counted(pools)}: {said}; "
        f"{words} the strongest of the signals."
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each signal."""
    rows = [
        {"pool": pool, "signal": name, "pearson": found[0]}
        for pool, signals in record["pools"].items()
        for name, found in signals.items()
        if found[0] is not None
    ]
    titles = ("Pearson, accuracy on noisy labels", "")
    return panels(rows, "bar", "pearson:Q", "signal:N", titles=titles)


STUDY = Study(
    name="rivals",
    title="which signal gauges memorization: accuracy drop, loss mixture, GWA, ζ and others",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=lambda pool: is_for_rules(pool) or pool.group == NETWORKS,
    draw=draw,
    paper=("fig:mv",),
)
