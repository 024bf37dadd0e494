"""Which runs and checkpoints a page shows where there are more than eyes can tell apart."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rote.selection import Booleans, Candidates, Integers

MOST_DRAWN = 10_000
"""Points beyond which a scatter shows no more, and a browser gets slow."""

MOST_RUNS = 1_000
"""Lines beyond which a chart is one stain."""

MOST_LISTED = 200
"""Rows of a table, where not every run has one."""

_NEAR = 50


@dataclass(frozen=True)
class Sample:
    """What is shown.

    Attributes:
        positions: the candidates that are drawn, in order.
        runs: the codes of their runs, increasing.
        listed: the codes of the runs that have a row in the table, increasing.
    """

    positions: Integers
    runs: Integers
    listed: Integers


def sample_of(
    candidates: Candidates,
    always: Collection[int] = (),
    listed: Integers | None = None,
    *,
    most: int = MOST_DRAWN,
) -> Sample:
    """What is shown of candidates: everything, if it is not too much.

    Of too many runs, every n-th in the order of their last ζ, so that slow and fast ones are there
    in proportion; of each of these its first and last checkpoint, and evenly spaced ones between.

    Args:
        candidates: all checkpoints.
        always: positions that are drawn in any case, such as picks.
        listed: codes of the runs that the table lists; they are drawn, too. By default, all.
        most: about how many checkpoints are drawn.
    """
    runs = np.unique(candidates.run)
    if len(runs) > MOST_RUNS:
        ends = np.flatnonzero(np.diff(candidates.run, append=-1))
        order = runs[np.argsort(candidates.zeta[ends], kind="stable")]
        spaced = order[np.linspace(0, len(order) - 1, MOST_RUNS).round().astype(np.int64)]
        more: list[int] = [] if listed is None else listed.tolist()
        runs = np.unique([*spaced, *candidates.run[list(always)], *more])
    is_shown = np.isin(candidates.run, runs)
    keep = _evenly(candidates, is_shown, most)
    keep[list(always)] = True
    return Sample(np.flatnonzero(keep), runs, runs if listed is None else listed)


def notable(candidates: Candidates, thresholds: Mapping[str, float]) -> list[int]:
    """The extremes of ζ and accuracies, and those of Region 1 nearest to its thresholds."""
    found: list[int] = []
    for name in ("zeta", "train_accuracy", "test_accuracy", "noisy_accuracy"):
        values = candidates.values(name)
        if np.isfinite(values).any():
            found += [int(np.nanargmin(values)), int(np.nanargmax(values))]
    inside = _region_one(candidates, thresholds)
    for name, bar in (("zeta", "susceptibility"), ("train_accuracy", "train_accuracy")):
        if len(inside):
            apart = np.abs(candidates.values(name)[inside] - thresholds[bar])
            nearest = np.argpartition(apart, min(_NEAR, len(inside)) - 1)[:_NEAR]
            found += inside[nearest].tolist()
    return found


def most_relevant(
    candidates: Candidates, picks: Collection[int], thresholds: Mapping[str, float]
) -> Integers:
    """The runs to list if not all can be: those of picks, then those with most of Region 1.

    Without regions, those whose last ζ is lowest.
    """
    ends = np.flatnonzero(np.diff(candidates.run, append=-1))
    zeta = candidates.zeta[ends]
    inside = np.bincount(
        candidates.run[_region_one(candidates, thresholds)], minlength=len(candidates.runs)
    )[candidates.run[ends]]
    order = candidates.run[ends][np.lexsort((np.where(np.isnan(zeta), np.inf, zeta), -inside))]
    ranked = dict.fromkeys([*candidates.run[list(picks)].tolist(), *order.tolist()])
    return np.sort(np.array(list(ranked)[:MOST_LISTED], dtype=np.int64))


def _region_one(candidates: Candidates, thresholds: Mapping[str, float]) -> Integers:
    if not thresholds.keys() >= {"susceptibility", "train_accuracy"}:
        return np.zeros(0, dtype=np.int64)
    is_resistant = candidates.zeta <= thresholds["susceptibility"]
    is_trainable = candidates.values("train_accuracy") >= thresholds["train_accuracy"]
    return np.flatnonzero(is_resistant & is_trainable)


def _evenly(candidates: Candidates, is_shown: Booleans, most: int) -> Booleans:
    """At most about ``most``: every n-th from the end of a run, and its first."""
    stride = -(-int(is_shown.sum()) // most)
    ends = np.flatnonzero(np.diff(candidates.run, append=-1))
    lengths = np.diff(ends, prepend=-1)
    to_end = np.repeat(ends, lengths) - np.arange(len(candidates))
    keep = to_end % max(stride, 1) == 0
    keep[ends - lengths + 1] = True
    return np.asarray(keep & is_shown)
