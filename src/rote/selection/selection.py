"""The outcome of a selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import nan
from typing import TYPE_CHECKING, Any

from rote.interpretation import RELATIVE_ZETAS, explain_susceptibility
from rote.records import Reading
from rote.selection.baseline_comparison import ESTIMATE
from rote.selection.selection_text import as_html, because, headline, paragraph, why

if TYPE_CHECKING:
    from pathlib import Path

    import polars as pl

    from rote.selection.baseline_comparison import Baseline
    from rote.selection.regions import RegionSummary
    from rote.selection.rule import Suspect


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
        validation_accuracy: on the given labels of the holdout.
        score: what the rule went by, if it is none of these.
        interval: in which score or validation accuracy lies with 95 % confidence.
        path: the directory of its run.
        file: its weights, if they were saved: a file, or the folder of a trainer.
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
    file: Path | None = None


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
        noise_rate: the share of the holdout's given labels that are taken to be wrong, if the rule
            has estimated it.
        noise_matrix: true class × given label, where the noise is believed to know classes.
        confidence: the probability that the pick is within a point of the best, if it is known.
        suspects: samples of the holdout whose given label is probably wrong, the surest first.
        has_regions: whether the regions are the rule's own, and not only the paper's.
        baselines: the pick beside the last and the median checkpoint: by what is estimated, and by
            the truth where it is known.
        start: the ζ that the network of the pick showed before it was trained, by column.
    """

    rule: str
    column: str
    thresholds: Mapping[str, float]
    pick: Pick
    table: pl.DataFrame
    regions: tuple[RegionSummary, ...]
    reasons: tuple[str, ...]
    warnings: tuple[str, ...]
    noise_rate: float | None = None
    noise_matrix: tuple[tuple[float, ...], ...] | None = None
    confidence: float | None = None
    suspects: tuple[Suspect, ...] = ()
    has_regions: bool = False
    baselines: tuple[Baseline, ...] = ()
    start: Mapping[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """One paragraph: keep this file, how much better it is, because, how sure."""
        return paragraph(self)

    def _repr_html_(self) -> str:
        """A small table, for notebooks."""
        return as_html(self)

    @property
    def headline(self) -> str:
        """What to keep, in one sentence."""
        return headline(self)

    @property
    def why(self) -> tuple[str, ...]:
        """The reasons, one by one, without the name of the rule."""
        return why(self)

    @property
    def because(self) -> str:
        """How much better than the last and the median checkpoint; why, how sure, its limits."""
        return because(self)

    @property
    def perspective(self) -> str:
        """How high the pick's ζ is, beside its run's past and a fresh network; may be empty."""
        found = _readings_up_to(self.table, self.pick.run, self.pick.step)
        return explain_susceptibility(found, self.start)

    @property
    def estimated_accuracy(self) -> float | None:
        """Of the pick, if the rule estimates it."""
        return next((s.pick for s in self.baselines if s.column == ESTIMATE), None)

    def to_json(self) -> dict[str, Any]:
        """The object that ``rote select --json`` prints; test accuracy only where it is known."""
        pick = self.pick
        known = {
            "validation_accuracy": pick.validation_accuracy,
            "test_accuracy": pick.test_accuracy,
            "score": pick.score,
        }
        return {
            "rule": self.rule,
            "column": self.column,
            "thresholds": dict(self.thresholds),
            "pick": {
                "run": pick.run,
                "step": pick.step,
                "susceptibility": pick.susceptibility,
                "train_accuracy": pick.train_accuracy,
                "region": pick.region,
                "file": None if pick.file is None else str(pick.file),
                "path": None if pick.path is None else str(pick.path),
                "estimated_accuracy": self.estimated_accuracy,
                "interval": None if pick.interval is None else list(pick.interval),
            }
            | {name: value for name, value in known.items() if value is not None},
            "confidence": self.confidence,
            "noise_rate": self.noise_rate,
            "noise_matrix": self.noise_matrix,
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "baselines": [asdict(baseline) for baseline in self.baselines],
            "regions": [self._region(entry) for entry in self.regions],
            "reasons": list(self.reasons),
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


def _readings_up_to(frame: pl.DataFrame, run: str, step: int) -> list[Reading]:
    """Return the readings of a run up to a step, with what ``explain_susceptibility`` needs."""
    import polars as pl

    names = [name for name in (*RELATIVE_ZETAS, "train_accuracy") if name in frame.columns]
    rows = frame.filter((pl.col("run") == run) & (pl.col("step") <= step)).select("step", *names)
    return [_reading(row) for row in rows.sort("step").to_dicts()]


def _reading(row: dict[str, Any]) -> Reading:
    plain, live = (row.get(name) for name in RELATIVE_ZETAS)
    trained = row.get("train_accuracy")
    return Reading(
        step=row["step"],
        loss_before=nan,
        loss_after=nan,
        drop=nan,
        susceptibility=nan,
        susceptibility_relative=nan if live is None else live,
        susceptibility_plain_relative=plain,
        metrics={} if trained is None else {"train_accuracy": trained},
    )
