"""Frozen records that rooms hand to each other. Nothing here knows torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from pathlib import Path

    import numpy as np

Kind: TypeAlias = Literal["zeta", "loss", "accuracy", "truth", "signal", "other"]
Unit: TypeAlias = Literal["", "share", "seconds"]
Better: TypeAlias = Literal["higher", "lower"]


@dataclass(frozen=True)
class Column:
    """What a number means that is recorded at every reading.

    Attributes:
        name: in journals and tables.
        label: for people, as it stands in a sentence.
        kind: ``zeta``, ``loss``, ``accuracy`` (on labels that may be wrong), ``truth`` (needs
            clean labels), ``signal`` (anything else to select by) or
            ``other`` (a setting, a time).
        unit: ``share`` is shown in percent.
        better: which way a better checkpoint lies, if that is known.
        rule: the rule that reads it, as ``rote select --rule`` takes it.
        heading: its heading in the table of runs of a report; without one it has no column there.

    Example:
        >>> COLUMNS["validation_accuracy"].better
        'higher'
    """

    name: str
    label: str
    kind: Kind = "other"
    unit: Unit = ""
    better: Better | None = None
    rule: str | None = None
    heading: str = ""

    def describe(self) -> dict[str, Any]:
        """Return the fields that are set, as ``run.json`` has them under the column's name."""
        return {key: value for key, value in asdict(self).items() if value and key != "name"}

    @classmethod
    def from_description(cls, name: str, values: Mapping[str, Any]) -> Column:
        """Invert ``describe``; what a later version added, or cannot be, is passed over."""
        allowed = {"kind": _KINDS, "unit": _UNITS, "better": _BETTERS}
        texts = {
            key: values[key]
            for key in ("label", "rule", "heading")
            if isinstance(values.get(key), str)
        }
        chosen = {key: values[key] for key, known in allowed.items() if values.get(key) in known}
        return cls(**{"name": name, "label": name, **texts, **chosen})


_KINDS = ("zeta", "loss", "accuracy", "truth", "signal", "other")
_UNITS = ("share", "seconds")
_BETTERS = ("higher", "lower")

COLUMNS: dict[str, Column] = {
    column.name: column
    for column in (
        Column("loss_before", "loss on S̃", "loss"),
        Column("loss_after", "loss on S̃ after the step", "loss"),
        Column("drop", "drop of the loss on S̃"),
        Column("susceptibility", "ζ", "zeta", better="lower", heading="ζ"),
        Column("susceptibility_relative", "relative ζ", "zeta", better="lower"),
        Column("loss_after_plain", "loss on S̃ after the reference step", "loss"),
        Column("drop_plain", "drop of the loss on S̃, reference step"),
        Column("susceptibility_plain", "ζ of the reference step", "zeta", better="lower"),
        Column(
            "susceptibility_plain_relative",
            "relative ζ of the reference step",
            "zeta",
            better="lower",
        ),
        Column(
            "validation_accuracy",
            "accuracy on the holdout's given labels",
            "accuracy",
            "share",
            "higher",
            "noisy-validation",
            heading="Noisy validation",
        ),
        Column("seconds", "time of the probe", unit="seconds"),
        Column("train_accuracy", "training accuracy", "accuracy", "share", heading="Train"),
        Column(
            "test_accuracy", "test accuracy", "truth", "share", "higher", "oracle", heading="Test"
        ),
        Column("clean_accuracy", "accuracy on clean labels", "truth", "share", "higher"),
        Column(
            "noisy_accuracy",
            "accuracy on noisy labels",
            "truth",
            "share",
            "lower",
            heading="Noisy labels",
        ),
        Column("train_loss", "training loss", "loss"),
        Column("drop_cross_entropy", "drop of the cross entropy on S̃"),
        Column("lr", "learning rate"),
        Column("epoch", "epoch"),
        Column("global_step", "step of the trainer"),
    )
}
"""Every column that rote knows by itself; a run describes those of its signals."""

ZETAS = tuple(column.name for column in COLUMNS.values() if column.kind == "zeta")
"""The four ζ: of the live or the plain step, absolute or relative to the loss before it."""

SHARES = tuple(column.name for column in COLUMNS.values() if column.unit == "share")
"""The accuracies that rote knows: from 0 to 1."""


def find_column(name: str, described: Mapping[str, Any] | None = None) -> Column:
    """Return what is known about a column.

    Args:
        name: of the column.
        described: what a run says about its own columns (``columns`` in ``run.json``).

    Returns:
        A column with only a name, if it has no description.

    Example:
        >>> find_column("gwa", {"gwa": {"kind": "signal", "better": "higher"}}).better
        'higher'
        >>> find_column("f1").label
        'f1'
    """
    if name in COLUMNS:
        return COLUMNS[name]
    values = (described or {}).get(name)
    return Column.from_description(name, values if isinstance(values, Mapping) else {})


@dataclass(frozen=True)
class Reading:
    """One probe, and the running means up to it.

    Attributes:
        step: the unit of training (epoch, or step) after which the probe was taken, from 1.
        loss_before: Φ̃(W), the loss on S̃ before the throw-away step.
        loss_after: Φ̃(W̃), the loss on S̃ after it.
        drop: loss_before − loss_after.
        susceptibility: ζ, the mean of the finite drops so far.
        susceptibility_relative: the mean of drop / loss_before so far; at most 1 for losses that
            are not negative.
        loss_after_plain: the loss after the reference step instead.
        drop_plain: loss_before − loss_after_plain.
        susceptibility_plain: the mean of drop_plain so far.
        susceptibility_plain_relative: the mean of drop_plain / loss_before so far.
        validation_accuracy: the share of the holdout whose given, possibly noisy label is
            predicted.
        seconds: how long the probe took.
        flags: what is unusual: ``non_finite`` (left out of the mean), ``diverging`` (a drop
            of more than ten times the loss of a uniform guess), ``dominated`` (of three readings
            or more, a large one makes up more than half of the mean), ``unresolved`` (a drop below
            the resolution of the loss); with ``_plain`` behind it, of the plain step;
            ``undefined_predictions`` (NaN logits in eval mode: no validation accuracy).
        metrics: whatever else the caller measured; also readable as attributes.
        predictions: the predicted class of each sample of the holdout.
        sample_rows: further numbers per sample, by the name of their row file.
        note: what happened, in a sentence; mostly empty. It follows from this reading and those
            before it, and is not kept: ``rote.interpretation.find_notes`` says it again.

    Example:
        >>> reading = Reading(step=1, loss_before=2.0, loss_after=1.5, drop=0.5, susceptibility=0.5,
        ...     susceptibility_relative=0.25, metrics={"train_accuracy": 0.8})
        >>> reading.drop, reading.train_accuracy
        (0.5, 0.8)
    """

    step: int
    loss_before: float
    loss_after: float
    drop: float
    susceptibility: float
    susceptibility_relative: float
    loss_after_plain: float | None = None
    drop_plain: float | None = None
    susceptibility_plain: float | None = None
    susceptibility_plain_relative: float | None = None
    validation_accuracy: float | None = None
    seconds: float = 0.0
    flags: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    predictions: np.ndarray | None = field(default=None, compare=False, repr=False)
    sample_rows: Mapping[str, np.ndarray] = field(default_factory=dict, compare=False, repr=False)
    note: str = field(default="", compare=False, repr=False)

    def __getattr__(self, name: str) -> float:
        """Return a metric that was given to the probe, as an attribute."""
        metrics: Mapping[str, float] = self.__dict__.get("metrics", {})
        if name in metrics:
            return metrics[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def to_dict(self) -> dict[str, Any]:
        """Plain values, without what there is per sample, and without the note."""
        names = [entry.name for entry in fields(self) if entry.name not in _NOT_PLAIN]
        values = {name: getattr(self, name) for name in names}
        return values | {"flags": list(self.flags), "metrics": dict(self.metrics)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Reading:
        """Invert ``to_dict``; names that a later version added are passed over."""
        known = {entry.name for entry in fields(cls)}
        kept = {name: value for name, value in values.items() if name in known}
        return cls(**(kept | {"flags": tuple(values.get("flags", ()))}))


_NOT_PLAIN = ("predictions", "sample_rows", "note")


@dataclass(frozen=True)
class RunRecord:
    """A run as it stands on disk.

    Attributes:
        path: its directory.
        description: what was run: seed, versions, policy, holdout, labels (``run.json``).
        readings: every reading that counts, in order.
        rows: which row of the row files belongs to each.
        row_checks: the CRC-32 of each one's row, or None, by the name of the row file.
        synced_rows: how many rows were surely on the disk when the last reading was written; a
            power cut may have taken later ones.
    """

    path: Path
    description: Mapping[str, Any]
    readings: tuple[Reading, ...]
    rows: tuple[int, ...] = ()
    row_checks: Mapping[str, Sequence[float | None]] = field(default_factory=dict)
    synced_rows: int = 0


@dataclass(frozen=True)
class BoundsRow:
    """Theorem 2 at one noise level and one k̃.

    Attributes:
        noise: the label noise level LNL.
        k_tilde: steps on the random labels.
        lower: ``μ/2 - sqrt(Σ/δ)``, drawn dashed.
        upper: ``μ/2 + sqrt(Σ/δ)``, drawn solid.
        mu: μ, twice the part of the mean objective that the noise changes.
        variance: Σ, the variance of the objective.
        floor: ``½ Σ_i (1 - ηλ_i)^(2k̃)``, the part of the mean objective that no noise changes.

    Example:
        >>> row = BoundsRow(noise=0.5, k_tilde=1, lower=0.1, upper=0.3, mu=0.4, variance=0.01,
        ...     floor=0.2)
        >>> row.lower <= row.mu / 2 <= row.upper
        True
    """

    noise: float
    k_tilde: int
    lower: float
    upper: float
    mu: float
    variance: float
    floor: float


@dataclass(frozen=True)
class BoundsTable:
    """Rows for a figure, and what has to be said on it.

    Attributes:
        rows: noise levels in the order given, k̃ within each.
        labels: how labels of ±1 were made from the classes, in words.
        samples: the number n of samples.
        eta: the learning rate η.
        k: steps on the training labels.
        delta: the probability δ of a value outside the bounds.
        trace_error: what a low-rank spectrum leaves out, as a share of the trace: 0 when exact.
        reversed_from: the first of the k̃ given at which noise no longer lowers the mean objective
            (``rote.theory.alignment``), or None: where Proposition 1 stops to hold.

    Example:
        >>> table = BoundsTable(rows=(), labels="even and odd classes", samples=100, eta=0.1, k=10,
        ...     delta=0.05, trace_error=0.0, reversed_from=None)
        >>> table.samples
        100
    """

    rows: tuple[BoundsRow, ...]
    labels: str
    samples: int
    eta: float
    k: int
    delta: float
    trace_error: float
    reversed_from: int | None
