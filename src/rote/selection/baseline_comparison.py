"""Where the pick stands: beside the last checkpoint, the median one, and the best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from rote.selection.candidates import spread_of
from rote.selection.rules import RULES

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates
    from rote.selection.rule import Verdict

ESTIMATE = "estimated_accuracy"


@dataclass(frozen=True)
class Baseline:
    """One accuracy of the pick, and of what one would keep without a rule.

    Attributes:
        column: which accuracy.
        pick: that of the pick.
        last: of the last checkpoint; of several runs, of the best-trained last one. None if nobody
            knows it.
        median: the median of all checkpoints for which it is known.
        best: the highest.
    """

    column: str
    pick: float
    last: float | None
    median: float
    best: float


def compare_with_baselines(usable: Candidates, verdict: Verdict) -> tuple[Baseline, ...]:
    """Compare by estimate, or by the holdout's given labels; and by the truth where known."""
    estimated = verdict.columns.get(ESTIMATE)
    measured = {"validation_accuracy": usable.values("validation_accuracy")}
    columns = measured if estimated is None else {ESTIMATE: estimated}
    columns["test_accuracy"] = usable.values("test_accuracy")
    last = RULES["last"]().judge(usable).pick
    return tuple(
        Baseline(
            name,
            float(values[verdict.pick]),
            float(values[last]) if np.isfinite(values[last]) else None,
            *(spread_of(values) if values is estimated else usable.spread(name)),
        )
        for name, values in columns.items()
        if np.isfinite(values[verdict.pick])
    )
