"""How good a label-error detector must be to select as well as ζ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import NOISY, PLAIN, ZETA, mean_of, region_means, regions
from rote.studies.markdown import counted, percent, table
from rote.studies.study import Record, Study, by_pool, is_broad

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

_DETECTORS = {f"detector {x} %": x for x in (80, 90, 96)}
WAYS = {
    **{name: (f"detector_{x}_noisy", f"detector_{x}_clean") for name, x in _DETECTORS.items()},
    "detector 100 %": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "plain relative ζ": (PLAIN, "train_accuracy"),
}


def pool_record(_pool: Pool, candidates: Candidates) -> Record | None:
    """Return the mean test accuracy in the Region 1 of each way."""
    if not candidates.known("detector_80_noisy").any():
        return None
    return {
        name: region_means(candidates, regions(candidates, *columns))[0]["mean"]
        for name, columns in WAYS.items()
    }


def text(record: Record) -> str:
    """Return a row for each pool."""
    rows = {name: [percent(pool[w]) for w in WAYS] for name, pool in record["pools"].items()}
    return table("mean test accuracy of Region 1", list(WAYS), rows)


def finding(record: Record) -> str:
    """Return the worst detector that is as good as ζ, by the means over pools."""
    means = {w: mean_of([pool[w] for pool in record["pools"].values()]) for w in WAYS}
    said = ", ".join(f"{name} {percent(mean)}" for name, mean in means.items())
    known = {name: mean for name, mean in means.items() if mean is not None}
    ours = max((mean for name, mean in known.items() if "ζ" in name), default=0.0)
    better = [name for name, mean in known.items() if "ζ" not in name and mean >= ours]
    words = f"the better ζ falls behind from {better[0]} on" if better else "no detector is ahead"
    return f"Means over {counted(record['pools'])}: {said}; {words} (paper: beyond 96 %)."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each way."""
    rows = [
        {"pool": pool, "way": name, "accuracy": mean}
        for pool, ways in record["pools"].items()
        for name, mean in ways.items()
        if mean is not None
    ]
    titles = ("mean test accuracy of Region 1", "")
    return panels(rows, "bar", "accuracy:Q", "way:N", titles=titles)


STUDY = Study(
    name="detector",
    title="how good a label-error detector must be to select as well as ζ",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_broad,
    draw=draw,
    paper=("fig:noisysel",),
    cause="A detector that is right four times in five ranks these checkpoints as well as the "
    "truth does: the mean over fifteen hundred labels and more hides single mistakes. ζ "
    "is behind where recipes are mixed (tracking), and level or ahead where they matter "
    "less (yoruba, fashion-symmetric, cifar10-mistaken).",
)
