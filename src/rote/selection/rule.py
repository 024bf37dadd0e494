"""What a rule is: it takes candidates and says which one to keep, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rote.selection.candidates import Candidates, Floats


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
    """

    pick: int
    reasons: tuple[str, ...]
    thresholds: Mapping[str, float] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    score: Floats | None = None
    interval: tuple[float, float] | None = None


class Rule(Protocol):
    """A way to choose a checkpoint. Its options are its fields."""

    @property
    def name(self) -> str:
        """How ``select`` calls it."""
        ...

    @property
    def needs(self) -> tuple[str, ...]:
        """Which values a candidate must have; those without are left out."""
        ...

    @property
    def compares_runs(self) -> bool:
        """Whether it is meant for the checkpoints of several runs."""
        ...

    def judge(self, candidates: Candidates) -> Verdict:
        """Choose among at least one candidate, all of which have what is needed."""
        ...
