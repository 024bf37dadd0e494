"""The result of a selection: the checkpoint to keep, and the facts about the choice."""

from __future__ import annotations

import filecmp
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from math import nan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, StoreError
from rote.interpretation import RELATIVE_ZETAS, explain_susceptibility
from rote.records import Reading
from rote.selection.rule import describe_rule
from rote.selection.summary import (
    HOLDOUT_HINT,
    Explanation,
    Summary,
    as_html,
    explain,
    summarize,
    write_headline,
)
from rote.store import replace_file

if TYPE_CHECKING:
    import polars as pl

    from rote.selection.regions import RegionSummary
    from rote.selection.rule import Decision, Grade, Reason, Rule, Suspect

ESTIMATE = "estimated_accuracy"

_ODD = re.compile(r"[^\w.=+-]+", re.ASCII)
_LONGEST = 100


@dataclass(frozen=True)
class Pick:
    """The checkpoint to keep; unknown values are None.

    Attributes:
        run: the name of its run.
        step: after how many units of training.
        susceptibility: its ζ, in the column that was selected by.
        train_accuracy: on the training set.
        region: from 1 to 4.
        test_accuracy: on the test set.
        validation_accuracy: on the given labels of the holdout.
        score: the score by which the rule ranked it, if that is no column.
        interval: the 95 % interval of the score or validation accuracy.
        path: the directory of its run.
        file: its weights, if they were saved: a file, or the folder of a trainer.

    Example:
        >>> Pick("a", step=3, susceptibility=0.1, train_accuracy=0.8, region=1).step
        3
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
class Baseline:
    """One accuracy of the selected checkpoint and of the baselines.

    Attributes:
        column: which accuracy.
        pick: that of the selected checkpoint.
        last: of the last checkpoint; of several runs, of the best-trained last one. None if it is
            not known.
        median: the median over all checkpoints for which it is known.
        best: the highest.
    """

    column: str
    pick: float
    last: float | None
    median: float
    best: float


@dataclass(frozen=True)
class Selection:
    r"""Which checkpoint a rule keeps, and why.

    ``print`` it for a summary of a few lines; ``explanation`` has the rest.

    Attributes:
        rule: the name of the rule that decided.
        column: which of the four ζ it used.
        thresholds: by name.
        pick: the selected checkpoint.
        table: every checkpoint, with its ``region`` (and ``score``, if the rule gives one).
        regions: summaries of the four regions.
        reasons: why, as records with a text.
        warnings: sentences about what makes the selection doubtful.
        evidence: the strength of the evidence behind it.
        noise_rate: the estimated share of the holdout's given labels that are wrong.
        noise_matrix: true class × given label, where the noise seems to depend on the class.
        labels: the number of labels of the holdout are known.
        confidence: the probability that the selected checkpoint is within a point of the best.
        beats_last: the probability that it is better than the last checkpoint.
        expected_loss: the expected accuracy that it lacks to the best checkpoint.
        suspects: holdout samples whose given label is probably wrong, the most probable first.
        has_regions: whether the regions are the rule's own, and not the paper's.
        baselines: the selected checkpoint beside the last and the median one: by the estimate or
            the given labels, and by test accuracy where it is known.
        start: ζ of the untrained network of the selected run, by column.
        source: the arguments with which commands such as ``rote report`` read the same runs,
            quoted for a shell; None if they are not known.

    Example:
        >>> import rote
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> with TemporaryDirectory() as folder:
        ...     table = "step,train_accuracy,validation_accuracy\n1,0.5,0.4\n2,0.9,0.3\n"
        ...     _ = (Path(folder) / "a.csv").write_text(table)
        ...     selection = rote.select(f"csv:{folder}/a.csv")
        >>> selection.pick.step, selection.rule, selection.evidence.grade
        (1, 'noisy-validation', 'fair')
    """

    rule: str
    column: str
    thresholds: Mapping[str, float]
    pick: Pick
    table: pl.DataFrame
    regions: tuple[RegionSummary, ...]
    reasons: tuple[Reason, ...]
    warnings: tuple[str, ...]
    evidence: Evidence
    noise_rate: float | None = None
    noise_matrix: tuple[tuple[float, ...], ...] | None = None
    labels: int | None = None
    confidence: float | None = None
    beats_last: float | None = None
    expected_loss: float | None = None
    suspects: tuple[Suspect, ...] = ()
    has_regions: bool = False
    baselines: tuple[Baseline, ...] = ()
    start: Mapping[str, float] = field(default_factory=dict)
    source: str | None = None

    def __str__(self) -> str:
        """Return the summary: what to keep, how good it is, how strong the evidence is."""
        return self.summary.text

    def _repr_html_(self) -> str:
        """Return a small table, for notebooks."""
        return as_html(self)

    @property
    def headline(self) -> str:
        """Return what to keep: "Keep step 15 of run", or "Tentative: …" for weak evidence."""
        return write_headline(self)

    @property
    def summary(self) -> Summary:
        """Return the verdict in a few lines, as records and as text (``summary.text``)."""
        return summarize(self)

    def summarize(self, holdout_hint: str = HOLDOUT_HINT) -> Summary:
        """Return the summary with a trainer's own advice on how to get better evidence.

        Args:
            holdout_hint: a clause, such as "pass holdout=... to SusceptibilityCallback".

        Returns:
            The summary.
        """
        return summarize(self, holdout_hint)

    @property
    def explanation(self) -> Explanation:
        """Return the details that the summary omits, under headings."""
        return explain(self)

    @property
    def perspective(self) -> str:
        """Return how high ζ is, beside its run's minimum and the untrained network."""
        found = _list_readings(self.table, self.pick.run, self.pick.step)
        return explain_susceptibility(found, self.start)

    @property
    def is_last_step(self) -> bool:
        """Return whether the selected step is the last one of its run."""
        steps = self.table.filter(self.table["run"] == self.pick.run)["step"]
        return bool(self.pick.step == steps.max())

    @property
    def estimated_accuracy(self) -> float | None:
        """Return the estimated clean accuracy of the pick, if the rule estimates it."""
        return next((s.pick for s in self.baselines if s.column == ESTIMATE), None)

    def to_json(self) -> dict[str, Any]:
        """Return the object that ``rote select --json`` prints; test accuracy where it is known."""
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
            "headline": self.headline,
            "evidence": asdict(self.evidence),
            "confidence": self.confidence,
            "beats_last": self.beats_last,
            "expected_loss": self.expected_loss,
            "noise_rate": self.noise_rate,
            "noise_matrix": self.noise_matrix,
            "suspects": [asdict(suspect) for suspect in self.suspects],
            "baselines": [asdict(baseline) for baseline in self.baselines],
            "regions": [self._describe_region(entry) for entry in self.regions],
            "reasons": [asdict(reason) for reason in self.reasons],
            "warnings": list(self.warnings),
        }

    def _describe_region(self, entry: RegionSummary) -> dict[str, Any]:
        values = {
            "region": entry.region,
            "count": entry.count,
            "train_accuracy": entry.train_accuracy,
            "susceptibility": entry.susceptibility,
        }
        is_known = any(other.test_accuracy is not None for other in self.regions)
        return values | ({"test_accuracy": entry.test_accuracy} if is_known else {})


def _list_readings(frame: pl.DataFrame, run: str, step: int) -> list[Reading]:
    """Return the readings of a run up to a step, with what ``explain_susceptibility`` needs."""
    import polars as pl

    names = [name for name in (*RELATIVE_ZETAS, "train_accuracy") if name in frame.columns]
    rows = frame.filter((pl.col("run") == run) & (pl.col("step") <= step)).select("step", *names)
    return [_make_reading(row) for row in rows.sort("step").to_dicts()]


def _make_reading(row: dict[str, Any]) -> Reading:
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


def copy_checkpoint(pick: Pick, folder: Path | str) -> Path:
    """Copy the weights of the selected checkpoint into a folder, whole or not at all.

    The copy is named after its run and its step. An identical copy that is there already stays.

    Args:
        pick: the selected checkpoint.
        folder: where to copy it; made if it does not exist.

    Returns:
        The copy.

    Raises:
        InputError: if the weights were not saved, or the folder has another file of that name.
        StoreError: if it cannot be written.

    Example:
        >>> from tempfile import mkdtemp
        >>> folder = Path(mkdtemp())
        >>> _ = (folder / "step3.safetensors").write_bytes(b"weights")
        >>> pick = Pick("a", step=3, susceptibility=None, train_accuracy=None, region=None,
        ...     file=folder / "step3.safetensors")
        >>> copy_checkpoint(pick, folder / "kept").read_bytes()
        b'weights'
    """
    if pick.file is None:
        raise InputError(
            f"No weights were saved for step {pick.step} of {pick.run}. Next time, set "
            'checkpoints = { keep = "all" } in a spec; in your own loop, save them after every '
            f"probe as step-{pick.step}.pt in the run's folder."
        )
    if pick.file.is_dir():
        raise InputError(
            f"The weights are a folder, {pick.file}, and not one file. Copy the folder yourself."
        )
    target = Path(folder).expanduser() / _name_copy(pick, pick.file)
    if target.exists():
        if target.is_file() and filecmp.cmp(pick.file, target, shallow=False):
            return target
        raise InputError(f"Another file exists at {target}. Move it, or copy elsewhere.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with replace_file(target, shared=True) as draft:
            shutil.copyfile(pick.file, draft)
    except OSError as error:
        raise StoreError(
            f"Cannot write {target}: {error.strerror or error}. Choose another folder."
        ) from error
    return target


def _name_copy(pick: Pick, file: Path) -> str:
    run = _ODD.sub("-", pick.run).strip("-.")[:_LONGEST] or "run"
    return f"{run}-step-{pick.step:05d}{file.suffix}"


COSTS_FILE = "rule_costs.json"
"""Made from docs/results/leaderboard.json by ``python -P benchmarks/rule_costs.py``."""


@dataclass(frozen=True)
class Evidence:
    """The strength of the evidence behind a selection.

    Attributes:
        grade: ``strong``, ``fair`` or ``weak``.
        basis: the data that the rule used, in words.
        points_lost: the points of test accuracy that the rule loses on average in our pools;
            None if it was not measured there.
        pools: the number of these pools.
        is_one_run: whether that was within one run, or among all runs of a pool.
    """

    grade: Grade
    basis: str
    points_lost: float | None = None
    pools: int = 0
    is_one_run: bool = False

    @property
    def cost(self) -> str:
        """Return the measured cost of the rule as a sentence; empty if it was not measured."""
        if self.points_lost is None:
            return ""
        among = "within one run" if self.is_one_run else "among all runs of a pool"
        return (
            f"In our {self.pools} pools this rule lost {self.points_lost:.1f} points on "
            f"average, {among}."
        )

    @property
    def short_cost(self) -> str:
        """Return the measured cost in a few words; empty if it was not measured."""
        if self.points_lost is None:
            return ""
        return f"lost {self.points_lost:.1f} points on average in our {self.pools} pools"

    @property
    def text(self) -> str:
        """Return grade, basis and cost in one line."""
        basis = f" ({self.basis})" if self.basis else ""
        return f"{self.grade}{basis}" + (f". {self.cost}" if self.cost else "")


def grade_evidence(rule: Rule, decision: Decision, runs: int) -> Evidence:
    """Grade the evidence behind a decision.

    Args:
        rule: the rule that decided.
        decision: its decision.
        runs: among how many runs.

    Returns:
        The grade, with what the data were and what the rule has cost in our pools.
    """
    grade = decision.evidence or describe_rule(rule).evidence
    basis = next((r.facts["because"] for r in decision.why if "because" in r.facts), "")
    costs = _read_costs()
    measured = costs["rules"].get(rule.name, {})
    within = runs == 1
    lost = measured.get("one_run" if within else "all_runs")
    return Evidence(grade, basis, lost, costs["pools"] if lost is not None else 0, within)


@cache
def _read_costs() -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads(
        files("rote.selection").joinpath(COSTS_FILE).read_text(encoding="utf-8")
    )
    return found
