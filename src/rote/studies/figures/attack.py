"""Success of a black-box attack, plotted against ζ and memorization."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rote.selection import correlate
from rote.studies.chart import draw_panels
from rote.studies.checkpoints import DRAWS, NOISY, ZETA, list_values
from rote.studies.markdown import format_interval, format_number, format_percent, write_table
from rote.studies.networks import NETWORKS, has_learned, load_networks
from rote.studies.study import Brief, Measured, Record, Study, judge_claim, match_group

if TYPE_CHECKING:
    from pathlib import Path

    from rote.store import RunTable
    from rote.studies.networks import Network
    from rote.studies.pool import Pool

EPSILON, ITERATIONS, IMAGES = 0.2, 1000, 64
"""Settings: published ε (share of the pixel range), the paper's iterations, test samples."""

GAUGES = {"ζ": ZETA, "accuracy on noisy labels": NOISY}
OUTCOMES = {"success": "success rate", "tried": "pixels tried"}


def examine(pool: Pool, table: RunTable, data_dir: Path | None) -> Record:
    """Attack every network that was trained on noisy labels."""
    found = load_networks(pool, table, data_dir)
    return {"networks": [_attack(network) for network in found if network.is_noisy]}


def _attack(network: Network) -> Record:
    import torch

    from rote.studies.simba import attack_by_pixels

    images, labels = (part[:IMAGES].contiguous() for part in network.load_test_set())
    # The normalized values of black and white pixels, for every position in a channel.
    low, high = (
        end[:, None, None].expand(images.shape[1:]).flatten()
        for end in (images.amin((0, 2, 3)), images.amax((0, 2, 3)))
    )
    with torch.no_grad():
        right = network.model(images).argmax(1) == labels
    generator = torch.Generator().manual_seed(0)
    order = torch.rand(len(images), low.numel(), generator=generator).argsort(1)[:, :ITERATIONS]
    found = attack_by_pixels(
        network.model,
        images[right],
        labels[right],
        order[right],
        epsilon=EPSILON * (high - low),
        low=low,
        high=high,
    )
    return {
        "run": network.run,
        **network.numbers,
        "attacked": int(right.sum()),
        "success": round(float(found.fooled.float().mean()), 5),
        "tried": round(float(found.tried.float().mean()), 2),
    }


def measure(found: Measured) -> Record:
    """Return the correlation of each outcome with ζ and memorization, with intervals."""
    judged = {pool.name: list(filter(_is_judged, record["networks"])) for pool, record in found}
    return {"pools": {name: _measure_pool(known) for name, known in judged.items() if known}}


def _is_judged(network: Record) -> bool:
    """Return whether a network is clearly better than chance; others cannot be fooled."""
    return bool(network["attacked"]) and has_learned(network)


def _measure_pool(known: list[Record]) -> Record:
    columns = {name: np.array([n[name] for n in known]) for name in (*GAUGES.values(), *OUTCOMES)}
    run = np.arange(len(known))
    return {
        "pearson": {
            outcome: {
                gauge: list_values(correlate(columns[c], columns[outcome], run, "pearson", DRAWS))
                for gauge, c in GAUGES.items()
            }
            for outcome in OUTCOMES
        },
        "success": [float(end(columns["success"])) for end in (np.min, np.mean, np.max)],
        "always": int((columns["success"] >= 1).sum()),
        "points": [
            {"zeta": n[ZETA], "memorized": n[NOISY], "success": n["success"], "tried": n["tried"]}
            for n in known
        ],
    }


def write_text(record: Record) -> str:
    """Return a row for each outcome in each pool."""
    return write_table(
        "pool",
        ["outcome", *(f"Pearson with {gauge}" for gauge in GAUGES)],
        {
            f"{name} | {words}": [
                format_interval(pool["pearson"][outcome][gauge]) for gauge in GAUGES
            ]
            for name, pool in record["pools"].items()
            for outcome, words in OUTCOMES.items()
        },
    )


def write_finding(record: Record) -> str:
    """Describe success rates, correlations, and how many of these differ from 0."""
    said = []
    for pool in record["pools"].values():
        low, mean, high = pool["success"]
        found = pool["pearson"]
        cells = "; ".join(
            f"{words} with {gauge} {format_interval(found[outcome][gauge])}"
            for outcome, words in OUTCOMES.items()
            for gauge in GAUGES
        )
        known = [e for by in found.values() for e in by.values() if e[1] is not None]
        sure = sum(e[1] > 0 or e[2] < 0 for e in known)
        words = f"{sure} of {len(known)} differ from 0" if known else "too few networks to say"
        if is_saturated(pool):
            words += "; if most networks are always fooled, the paper's claim cannot be tested"
        said.append(
            f"SimBA fools {len(pool['points'])} networks on {format_percent(low)} to "
            f"{format_percent(high)} of the samples that they classified correctly (mean "
            f"{format_percent(mean)}), {pool['always']} of them on all samples; "
            f"Pearson correlation of {cells}: {words}."
        )
    return " ".join(said) or "No network is clearly better than chance."


def draw(record: Record) -> Any:  # noqa: ANN401
    """Draw the paper's figure: success over the accuracy on noisy labels, and over ζ."""
    rows = [
        {"gauge": f"against {words}", "x": point[column], "success": point["success"]}
        for pool in record["pools"].values()
        for words, column in (("the accuracy on noisy labels", "memorized"), ("ζ", "zeta"))
        for point in pool["points"]
    ]
    titles = ("", "success rate of the attack")
    return draw_panels(rows, "circle", "x:Q", "success:Q", titles=titles, by="gauge")


def is_saturated(pool: Record) -> bool:
    """Return whether at least half of the networks are fooled on every sample."""
    return bool(2 * pool["always"] >= len(pool["points"]))


def write_brief(record: Record) -> Brief:
    """Return the correlation with ζ; there is no verdict if most networks are always fooled."""
    pools = list(record["pools"].values())
    if not pools:
        return Brief("too few networks above chance", None)
    found = pools[0]["pearson"]["success"]["ζ"]
    fooled = ", ".join(f"{p['always']} of {len(p['points'])} always fooled" for p in pools)
    if any(map(is_saturated, pools)) or found[1] is None:
        return Brief(f"ρ {format_number(found[0])}; {fooled}", None)
    return Brief(f"ρ {format_number(found[0])}; {fooled}", judge_claim([found[1] <= 0 <= found[2]]))


STUDY = Study(
    name="attack",
    title="success of the SimBA attack against ζ",
    measure=measure,
    text=write_text,
    finding=write_finding,
    wants=match_group(NETWORKS),
    draw=draw,
    paper=("fig:advapp",),
    examine=examine,
    cause="Most networks are fooled on every sample that they classified correctly. A success "
    "rate that does not vary cannot correlate with anything, so this result says nothing about "
    "the paper’s claim.",
    cause_at_medium=(
        "SimBA fools every network on every sample that it classified correctly, so the success "
        "rate cannot correlate with anything, and the claim cannot be tested."
    ),
    brief=write_brief,
)
