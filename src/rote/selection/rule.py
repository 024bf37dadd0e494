"""What a rule is: it takes candidates and says which one to keep, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Protocol

from rote.selection.candidates import ZETA

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats


@dataclass(frozen=True)
class Suspect:
    """A sample of the holdout whose given label is probably wrong.

    Attributes:
        sample: its position in the holdout.
        given: the label that it has.
        believed: the class that it probably is of.
        probability: that the given label is wrong.
    """

    sample: int
    given: int
    believed: int
    probability: float


@dataclass(frozen=True)
class Findings:
    """What a rule has learned about the holdout and its labels; None where it has not.

    Attributes:
        noise_rate: the share of given labels that are taken to be wrong.
        noise_matrix: true class × given label, where the noise is believed to know classes.
        confidence: the probability that the pick is within a point of the best.
        suspects: samples whose label is probably wrong, the surest first.
    """

    noise_rate: float | None = None
    noise_matrix: tuple[tuple[float, ...], ...] | None = None
    confidence: float | None = None
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """What a rule says.

    Attributes:
        pick: the position of the checkpoint to keep among the candidates.
        reasons: sentences.
        thresholds: by name; those for ``susceptibility`` and ``train_accuracy`` divide the
            checkpoints into regions, and are the paper's if the rule has none of its own.
        warnings: sentences about what makes the pick doubtful.
        score: what the rule went by, one number per candidate, if it is no column of the table.
        interval: in which the pick's score, or validation accuracy, lies with 95 % confidence.
        columns: what else it knows about every candidate, for the table.
        findings: what it has learned about the holdout and its labels.
        by: the rule that has spoken, where this one has let another speak.
        column: which ζ that one went by, if it was another than was asked for.
    """

    pick: int
    reasons: tuple[str, ...]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    score: Floats | None = None
    interval: tuple[float, float] | None = None
    columns: Mapping[str, Floats] = field(default_factory=dict)
    findings: Findings = Findings()
    by: Rule | None = None
    column: str | None = None


class Rule(Protocol):
    """A way to choose a checkpoint; its options are its fields.

    A file in ``rote/selection/rules`` with such a class is a new rule, and nothing else knows its
    name; ``rule="package.module:Name"`` takes one from anywhere. What ``About`` lists it may have
    as attributes, too.
    """

    @property
    def name(self) -> str:
        """How ``select`` calls it."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns in which a candidate must have a value; those without are left out.

        ``zeta`` is the ζ that is selected by, whichever of the four it is. A rule that needs a
        column of kind ``truth`` is a bound to compare with: it leads no report by itself.
        """
        ...

    @property
    def compares_runs(self) -> bool:
        """Whether it is meant for the checkpoints of several runs."""
        ...

    def judge(self, candidates: Candidates) -> Verdict:
        """Choose among at least one candidate, all of which have what is needed."""
        ...


@dataclass(frozen=True)
class About:
    """What a rule says about itself besides: attributes of it, or else as here.

    Attributes:
        explanation: a sentence; the first line of its docstring.
        divides_by: which of ``zeta`` and ``train_accuracy`` it sets thresholds for; if both, the
            regions are its own, otherwise the paper's.
        not_resampled: why it cannot be judged by drawing runs anew; None if it can.
        is_baseline: whether it is there to compare with, and not to be used.
        order: where it stands in lists; those of the same order, by name.
    """

    explanation: str
    divides_by: tuple[str, ...] = ()
    not_resampled: str | None = None
    is_baseline: bool = False
    order: int = 500

    @property
    def divides(self) -> bool:
        """Whether it divides the checkpoints into regions of its own."""
        return {ZETA, "train_accuracy"} <= set(self.divides_by)


def about(rule: Rule | type[Any]) -> About:
    """What a rule, or a class of rules, says about itself."""
    said = {
        entry.name: getattr(rule, entry.name)
        for entry in fields(About)
        if hasattr(rule, entry.name)
    }
    lines = (rule.__doc__ or "").strip().splitlines()
    return About(**({"explanation": lines[0] if lines else ""} | said))
