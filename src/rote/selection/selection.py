"""The outcome of a selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from rote.selection.regions import RegionSummary


@dataclass(frozen=True)
class Pick:
    """The checkpoint to keep; what is not known of it is None.

    Attributes:
        run: the name of its run.
        step: after how many units of training.
        susceptibility: its ζ, in the column that was selected by.
        train_accuracy: on the training set.
        region: from 1 to 4.
        test_accuracy: on the test set.
        validation_accuracy: on the given labels of the pool.
        score: what the rule went by, if it is none of these.
        interval: in which score or validation accuracy lies with 95 % confidence.
        path: the directory of its run.
    """

    run: str
    step: int
    susceptibility: float | None
    train_accuracy: float | None
    region: int | None
    test_accuracy: float | None = None
    validation_accuracy: float | None = None
    score: float | None = None
    interval: tuple[float, float] | None = None
    path: Path | None = None


@dataclass(frozen=True)
class Selection:
    """Which checkpoint a rule keeps, and why.

    Attributes:
        rule: its name.
        column: which of the four ζ it used.
        thresholds: by name.
        pick: the checkpoint.
        table: every checkpoint, with its ``region`` (and ``score``, if the rule gives one).
        regions: what the four regions hold.
        reasons: sentences.
        warnings: sentences about what makes the pick doubtful.
    """

    rule: str
    column: str
    thresholds: Mapping[str, float]
    pick: Pick
    table: pl.DataFrame
    regions: tuple[RegionSummary, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """The object that ``rote select --json`` prints; test accuracy only where it is known."""
        pick = self.pick
        return {
            "rule": self.rule,
            "thresholds": dict(self.thresholds),
            "pick": {
                "run": pick.run,
                "step": pick.step,
                "susceptibility": pick.susceptibility,
                "train_accuracy": pick.train_accuracy,
                "region": pick.region,
            },
            "regions": [self._region(entry) for entry in self.regions],
            "warnings": list(self.warnings),
        }

    def _region(self, entry: RegionSummary) -> dict[str, Any]:
        values = {
            "region": entry.region,
            "count": entry.count,
            "train_accuracy": entry.train_accuracy,
            "susceptibility": entry.susceptibility,
        }
        is_known = any(other.test_accuracy is not None for other in self.regions)
        return values | ({"test_accuracy": entry.test_accuracy} if is_known else {})
