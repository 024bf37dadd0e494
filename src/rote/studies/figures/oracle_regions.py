"""Region 1 as an oracle sees it, and as ζ sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rote.studies.chart import panels
from rote.studies.checkpoints import NOISY, PLAIN, ZETA, mean_of, region_means, regions
from rote.studies.markdown import counted, percent, table
from rote.studies.study import Record, Study, by_pool, is_made

if TYPE_CHECKING:
    from rote.selection import Candidates
    from rote.studies.pool import Pool

WAYS = {
    "oracle": (NOISY, "clean_accuracy"),
    "ζ": (ZETA, "train_accuracy"),
    "plain relative ζ": (PLAIN, "train_accuracy"),
}


_NEAR = 0.03


def pool_record(_pool: Pool, candidates: Candidates) -> Record:
    """Region 1 of each way, and how much of it the oracle would take too."""
    oracle = regions(candidates, *WAYS["oracle"]) == 1
    found = {}
    for name, columns in WAYS.items():
        region = regions(candidates, *columns)
        found[name] = region_means(candidates, region)[0]
        inside = region == 1
        found[name]["shared"] = float(oracle[inside].mean()) if inside.any() else None
    return found


def text(record: Record) -> str:
    """Return a row for each pool."""
    columns = [f"{name}: {what}" for name in WAYS for what in ("test accuracy", "checkpoints")]
    return table(
        "pool",
        [*columns, "of ζ's, the oracle's", "of plain relative ζ's, the oracle's"],
        {name: _cells(ways) for name, ways in record["pools"].items()},
    )


def _cells(ways: Record) -> list[str]:
    cells = []
    for way in ways.values():
        spread = "" if way["spread"] is None else f" ± {100 * way['spread']:.1f}"
        cells += [percent(way["mean"]).replace(" %", f"{spread} %"), str(way["count"])]
    return [*cells, *(percent(ways[name]["shared"]) for name in list(WAYS)[1:])]


def finding(record: Record) -> str:
    """Means over pools."""
    means = {
        name: mean_of([pool[name]["mean"] for pool in record["pools"].values()]) for name in WAYS
    }
    said = ", ".join(f"{percent(value)} by {name}" for name, value in means.items())
    oracle, zeta = means["oracle"], means["ζ"]
    is_near = oracle is not None and zeta is not None and oracle - zeta < _NEAR
    words = "as in the paper, ζ loses" if is_near else "unlike in the paper, ζ does not lose"
    return (
        f"Mean test accuracy of Region 1, {counted(record['pools'])}: {said}; {words} less than "
        "3 points to the oracle."
    )


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw a bar for each way."""
    rows = [
        {"pool": pool, "way": name, "accuracy": way["mean"]}
        for pool, ways in record["pools"].items()
        for name, way in ways.items()
        if way["mean"] is not None
    ]
    titles = ("", "test accuracy of Region 1")
    return panels(rows, "bar", "way:N", "accuracy:Q", titles=titles, color="way:N")


STUDY = Study(
    name="oracle-regions",
    title="Region 1 of an oracle against Region 1 of ζ",
    measure=by_pool(pool_record),
    text=text,
    finding=finding,
    wants=is_made,
    draw=draw,
    paper=(
        "fig:figure1",
        "fig:mainsvhn, fig:figure1svhn",
        "fig:maincifar100, fig:figure1cifar100",
    ),
    cause="The order is that of the paper; accuracies are lower since there are two thousand "
    "samples and small networks. How much of ζ’s Region 1 is the oracle’s, too, differs a "
    "lot (last columns): they agree in accuracy more than in which checkpoints they hold.",
)
