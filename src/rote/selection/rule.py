"""The interface of rules, and the records of their decisions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from rote.selection.candidates import ZETA

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats

Grade: TypeAlias = Literal["strong", "fair", "weak"]
"""The strength of the evidence behind a decision."""

ReasonKind: TypeAlias = Literal[
    "rule", "choice", "threshold", "estimate", "dropped", "limits", "improvement"
]


@dataclass(frozen=True)
class Reason:
    """One sentence about a decision, with the facts in it.

    Attributes:
        kind: what it is about: ``rule`` (which rule decided, and why that one), ``choice`` (why
            this checkpoint), ``threshold``, ``estimate``, ``dropped`` (a checkpoint that was
            passed over because training accuracy dropped there), ``limits`` (what the rule cannot
            see), ``improvement`` (what would give better evidence).
        text: the sentence.
        facts: the numbers and names in it.

    Example:
        >>> print(Reason("choice", "It has the highest accuracy: 80.0%.", {"accuracy": 0.8}))
        It has the highest accuracy: 80.0%.
    """

    kind: ReasonKind
    text: str
    facts: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return the sentence."""
        return self.text


def explain_dropped(checkpoint: str, score: str = "") -> Reason:
    """Explain that a checkpoint was skipped because training accuracy dropped there."""
    return Reason(
        "dropped",
        f"Not selected: {checkpoint}{score}, because training accuracy dropped at this step.",
        {"checkpoint": checkpoint},
    )


@dataclass(frozen=True)
class Suspect:
    """A holdout sample whose given label is probably wrong.

    Attributes:
        sample: its position in the holdout.
        given: the label that it has.
        believed: the most probable class.
        probability: that the given label is wrong.
    """

    sample: int
    given: int
    believed: int
    probability: float


@dataclass(frozen=True)
class Findings:
    """The findings of a rule about the holdout and its labels; None if unknown.

    Attributes:
        noise_rate: the estimated share of given labels that are wrong.
        noise_matrix: true class × given label, where the noise seems to depend on the class.
        labels: the number of given or clean labels the holdout has.
        confidence: the probability that the selected checkpoint is within a point of the best.
        beats_last: the probability that it is better than the last checkpoint.
        expected_loss: the expected accuracy that it lacks to the best checkpoint.
        suspects: samples whose label is probably wrong, the most probable first.
    """

    noise_rate: float | None = None
    noise_matrix: tuple[tuple[float, ...], ...] | None = None
    labels: int | None = None
    confidence: float | None = None
    beats_last: float | None = None
    expected_loss: float | None = None
    suspects: tuple[Suspect, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The decision of a rule.

    Attributes:
        pick: the position of the checkpoint to keep among the candidates.
        reasons: why; a plain sentence becomes a reason of kind ``choice``.
        thresholds: by name; those for ``susceptibility`` and ``train_accuracy`` divide the
            checkpoints into regions, and are the paper's if the rule has none of its own.
        warnings: sentences about what makes the decision doubtful.
        score: the score of every candidate, if it is no column of the table.
        interval: the 95 % interval of the score, or of the validation accuracy, of the pick.
        columns: more values of every candidate, for the table.
        findings: the rule's findings about the holdout and its labels.
        evidence: how strong the evidence is, where it depends on the data; by default the rule's.
        by: the rule that decided, where this one delegates.
        column: the ζ that was used, if it is another than was asked for.

    Example:
        >>> Decision(0, ("It has the highest score.",)).why[0].kind
        'choice'
    """

    pick: int
    reasons: tuple[Reason | str, ...]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    score: Floats | None = None
    interval: tuple[float, float] | None = None
    columns: Mapping[str, Floats] = field(default_factory=dict)
    findings: Findings = Findings()
    evidence: Grade | None = None
    by: Rule | None = None
    column: str | None = None

    @property
    def why(self) -> tuple[Reason, ...]:
        """Return the reasons as records."""
        return tuple(
            reason if isinstance(reason, Reason) else Reason("choice", reason)
            for reason in self.reasons
        )


class Rule(Protocol):
    """A way to select a checkpoint; its options are its fields.

    A file in ``rote/selection/rules`` with such a class is a new rule, and nothing else needs its
    name; ``rule="package.module:Name"`` takes one from anywhere. A rule may also have the
    attributes that ``About`` lists.

    Example:
        >>> from rote.selection import find_rule
        >>> rule = find_rule("last")
        >>> rule.name, rule.needs
        ('last', ())
    """

    @property
    def name(self) -> str:
        """Return the name that ``select`` takes."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Return the columns in which a candidate must have a value; others are left out.

        ``zeta`` is the ζ that is selected by, whichever of the four it is. A rule that needs a
        column of kind ``truth`` is an upper bound to compare with: it never leads a report.
        """
        ...

    @property
    def compares_runs(self) -> bool:
        """Return whether it is meant for the checkpoints of several runs."""
        ...

    def judge(self, candidates: Candidates) -> Decision:
        """Select among at least one candidate; all have the required columns."""
        ...


@dataclass(frozen=True)
class About:
    """The properties of a rule: its attributes, or the defaults here.

    Attributes:
        explanation: a sentence; by default the first line of its docstring.
        divides_by: which of ``zeta`` and ``train_accuracy`` it sets thresholds for; if both, the
            regions are its own, otherwise the paper's.
        not_resampled: why it cannot be evaluated by resampling runs; None if it can.
        is_baseline: whether it exists only to compare with.
        evidence: how strong the evidence behind its decisions is.
        order: its place in lists; rules of the same order are sorted by name.
    """

    explanation: str
    divides_by: tuple[str, ...] = ()
    not_resampled: str | None = None
    is_baseline: bool = False
    evidence: Grade = "weak"
    order: int = 500

    @property
    def divides(self) -> bool:
        """Return whether it divides the checkpoints into regions of its own."""
        return {ZETA, "train_accuracy"} <= set(self.divides_by)


def describe_rule(rule: Rule | type[Any]) -> About:
    """Return the properties of a rule or of a class of rules.

    Args:
        rule: the rule or its class.

    Returns:
        Its attributes, with defaults for those that it does not have.

    Example:
        >>> from rote.selection import RULES
        >>> describe_rule(RULES["last"]).is_baseline
        True
    """
    known = {
        entry.name: getattr(rule, entry.name)
        for entry in fields(About)
        if hasattr(rule, entry.name)
    }
    lines = (rule.__doc__ or "").strip().splitlines()
    return About(**({"explanation": lines[0] if lines else ""} | known))
