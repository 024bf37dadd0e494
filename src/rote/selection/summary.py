"""A selection in words: the headline, the six-line summary, the explanation, the notebook table."""

from __future__ import annotations

import html
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rote.formatting import escape_invisible, format_points, format_share

if TYPE_CHECKING:
    from rote.selection.selection import Baseline, Selection

HOLDOUT_HINT = (
    "hold out about 300 samples and pass them to rote.track as inputs=, with their labels as "
    "given_labels="
)
"""How to get better evidence in a training loop; a trainer's callback has its own argument."""

CONDITION = "if label errors are not systematic"
_HEAD = "text-align:left;vertical-align:top;white-space:nowrap"
_CELL = "text-align:left;white-space:normal"
_WORDS = {"estimated_accuracy": "estimated-accuracy", "validation_accuracy": "given-labels"}
_MEASURES = {
    "estimated_accuracy": "Estimated accuracy",
    "validation_accuracy": "Noisy validation accuracy",
    "test_accuracy": "Test accuracy",
}


@dataclass(frozen=True)
class SummaryRow:
    """One row of the small table of a summary.

    Attributes:
        label: the quantity.
        value: the figure.
        note: a remark on the figure; may be empty.
        word: the entry of the page's glossary that explains the label; may be empty.
    """

    label: str
    value: str
    note: str = ""
    word: str = ""


@dataclass(frozen=True)
class Summary:
    """The summary of a selection in a few lines.

    Attributes:
        headline: the checkpoint to keep, as a sentence.
        file: its weights, or else the directory of its run; None if there is neither.
        rows: accuracy, gain over the last checkpoint, label noise, evidence.
        rule: the rule that decided, and why this rule.
        caution: the first warning; None if there is none.
        next_steps: suggested next steps, the most useful first.
    """

    headline: str
    file: str | None
    rows: tuple[SummaryRow, ...]
    rule: str
    caution: str | None
    next_steps: tuple[str, ...]

    @property
    def lines(self) -> tuple[str, ...]:
        """Return the lines of the terminal form, without colors."""
        label = max((len(row.label) for row in self.rows), default=0)
        value = max((len(row.value) for row in self.rows if row.note), default=0)
        table = [
            f"  {row.label:<{label}}   {row.value:<{value}}   {row.note}".rstrip()
            for row in self.rows
        ]
        caution = [f"Caution: {self.caution}"] if self.caution else []
        steps = [f"Next: {' · '.join(self.next_steps)}"] if self.next_steps else []
        file = [self.file] if self.file else []
        return (self.headline, *file, "", *table, "", self.rule, *caution, *steps)

    @property
    def text(self) -> str:
        """Return the terminal form as one text."""
        return "\n".join(self.lines)

    def __str__(self) -> str:
        """Return the terminal form."""
        return self.text


@dataclass(frozen=True)
class SummarySection:
    """A part of an explanation.

    Attributes:
        heading: the heading.
        sentences: in order.
    """

    heading: str
    sentences: tuple[str, ...]


@dataclass(frozen=True)
class Explanation:
    """The details that a summary omits.

    Attributes:
        sections: in order; none is empty.
    """

    sections: tuple[SummarySection, ...]

    def __str__(self) -> str:
        """Return headings and sentences as text."""
        return "\n\n".join(
            "\n".join([part.heading, *(f"  {sentence}" for sentence in part.sentences)])
            for part in self.sections
        )


def write_headline(selection: Selection) -> str:
    """Write which checkpoint to keep; a weak selection is only tentative."""
    pick = selection.pick
    verb = "Tentative:" if selection.evidence.grade == "weak" else "Keep"
    return escape_invisible(f"{verb} step {pick.step} of {pick.run}")


def summarize(selection: Selection, holdout_hint: str = HOLDOUT_HINT) -> Summary:
    """Write the summary of a selection.

    Args:
        selection: the selection.
        holdout_hint: how to get better evidence with the trainer in use, as a clause.

    Returns:
        Headline, file, rows, rule, first warning and next steps.
    """
    pick = selection.pick
    place = pick.path if pick.file is None else pick.file
    return Summary(
        headline=write_headline(selection),
        file=None if place is None else escape_invisible(place),
        rows=tuple(
            replace(row, value=escape_invisible(row.value), note=escape_invisible(row.note))
            for row in _make_rows(selection)
        ),
        rule=escape_invisible(next(r.text for r in selection.reasons if r.kind == "rule")),
        caution=_write_caution(selection),
        next_steps=tuple(map(escape_invisible, _list_next_steps(selection, holdout_hint))),
    )


def _make_rows(selection: Selection) -> Iterator[SummaryRow]:
    measured = [entry for entry in selection.baselines if entry.column != "test_accuracy"]
    tested = [entry for entry in selection.baselines if entry.column == "test_accuracy"]
    for entry in measured:
        yield SummaryRow(
            _MEASURES[entry.column],
            format_share(entry.pick, 1),
            _qualify(selection, entry),
            word=_WORDS[entry.column],
        )
        yield from _make_gain_rows(selection, entry)
    if not measured:
        yield from _describe_training(selection)
    for entry in tested:
        last = "" if entry.last is None else f"last checkpoint {format_share(entry.last, 1)}, "
        note = f"{last}best {format_share(entry.best, 1)}"
        yield SummaryRow(_MEASURES[entry.column], format_share(entry.pick, 1), note)
    if selection.noise_rate is not None and selection.labels:
        share = f"about {selection.noise_rate:.0%} of {selection.labels} given labels look wrong"
        yield SummaryRow("Label noise", share, word="noise-rate")
    evidence = selection.evidence
    yield SummaryRow("Evidence", evidence.grade, evidence.short_cost, word="evidence")


def _qualify(selection: Selection, entry: Baseline) -> str:
    """Return the interval of an accuracy, and its condition or the most that is possible."""
    parts = []
    if selection.pick.interval is not None:
        low, high = (f"{100 * end:.1f}" for end in selection.pick.interval)
        parts.append(f"95% interval {low}–{high}%")
    if entry.column == "estimated_accuracy":
        parts += [CONDITION] if parts else []
    elif selection.noise_rate is not None:
        parts.append(f"about {1 - selection.noise_rate:.0%} is the most possible")
    return ", ".join(parts)


def _make_gain_rows(selection: Selection, entry: Baseline) -> Iterator[SummaryRow]:
    if entry.last is None:
        return
    if selection.beats_last is not None:
        note = f"better with {_write_probability(selection.beats_last)}"
    else:
        is_last = selection.is_last_step and entry.pick == entry.last
        note = "this is the last checkpoint" if is_last else ""
    yield SummaryRow("vs last checkpoint", format_points(entry.pick, entry.last), note)


def _write_probability(probability: float) -> str:
    """Write a probability in percent, never as certainty.

    Example:
        >>> _write_probability(0.97), _write_probability(0.999), _write_probability(0.001)
        ('97% probability', 'more than 99% probability', 'less than 1% probability')
    """
    if probability > 0.99:
        return "more than 99% probability"
    return "less than 1% probability" if probability < 0.01 else f"{probability:.0%} probability"


def _describe_training(selection: Selection) -> Iterator[SummaryRow]:
    pick = selection.pick
    if pick.train_accuracy is not None:
        yield SummaryRow("Training accuracy", format_share(pick.train_accuracy, 1))
    if pick.susceptibility is not None:
        note = "of the reference step" if "plain" in selection.column else ""
        zeta = f"{pick.susceptibility:.2g}"
        yield SummaryRow("Susceptibility ζ", zeta, note, word="susceptibility")


def _write_caution(selection: Selection) -> str | None:
    first, *others = (*selection.warnings, None)
    if first is None:
        return None
    more = len(others) - 1
    return escape_invisible(first) + (f" ({more} more: --explain)" if more else "")


def _list_next_steps(selection: Selection, holdout_hint: str) -> Iterator[str]:
    if selection.evidence.grade == "weak":
        yield f"for better evidence, {holdout_hint}"
    if selection.source is not None:
        place = selection.source
        yield f"rote report {place}"
        if selection.suspects:
            yield f"rote suspects {place}"
        yield f"rote select {place} --explain"


def explain(selection: Selection) -> Explanation:
    """Write everything that the summary leaves out, under headings.

    Args:
        selection: the selection.

    Returns:
        Sections with short sentences.
    """
    texts: dict[str, list[str]] = {}
    for reason in selection.reasons:
        heading = {"limits": "Caution", "improvement": "Better evidence"}.get(reason.kind)
        texts.setdefault(heading or "Why this checkpoint", []).append(reason.text)
    parts = {
        "Why this checkpoint": texts.get("Why this checkpoint", []),
        "Comparison": [compare(entry) for entry in selection.baselines],
        "Confidence": list(_describe_confidence(selection)),
        "Label noise": list(_label_noise(selection)),
        "Susceptibility": list(_describe_susceptibility(selection)),
        "Evidence": [f"The evidence is {selection.evidence.text}".rstrip(".") + "."],
        "Caution": [*texts.get("Caution", []), *selection.warnings],
        "Better evidence": texts.get("Better evidence", []),
    }
    return Explanation(
        tuple(
            SummarySection(heading, tuple(map(escape_invisible, sentences)))
            for heading, sentences in parts.items()
            if sentences
        )
    )


def compare(entry: Baseline) -> str:
    """Write one accuracy of the selected checkpoint beside that of the baselines.

    Args:
        entry: the accuracies.

    Returns:
        A sentence.

    Example:
        >>> from rote.selection.selection import Baseline
        >>> compare(Baseline("estimated_accuracy", 0.9, None, 0.8, 0.9))
        'Estimated accuracy: 90.0%, +10.0 points vs the median checkpoint.'
    """
    others = {"the last checkpoint": entry.last, "the median checkpoint": entry.median}
    if entry.column == "test_accuracy":  # here the best is known, and not only estimated
        others["the best checkpoint"] = entry.best
    gaps = [
        f"{format_points(entry.pick, value)} vs {name}"
        for name, value in others.items()
        if value is not None
    ]
    return f"{_MEASURES[entry.column]}: {', '.join([format_share(entry.pick, 1), *gaps])}."


def _describe_confidence(selection: Selection) -> Iterator[str]:
    if selection.beats_last is not None:
        chance = _write_probability(selection.beats_last)
        yield f"The selected checkpoint is better than the last one with {chance}."
    if selection.expected_loss is not None:
        yield (
            f"It is expected to be {100 * selection.expected_loss:.1f} points below the best "
            "checkpoint."
        )
    if selection.confidence is not None:
        yield (
            f"Confidence: {selection.confidence:.0%} that this is within 1 point of the best "
            "checkpoint."
        )


def _label_noise(selection: Selection) -> Iterator[str]:
    accuracy, rate = selection.pick.validation_accuracy, selection.noise_rate
    if rate is None:
        if accuracy is not None and accuracy <= 1:
            yield (
                f"{format_share(accuracy, 1)} of your given labels match. Some of these labels are "
                "wrong, so the most possible is the share of correct ones; noise_rate= "
                "(--noise-rate) tells how much that is."
            )
        return
    yield f"About {rate:.0%} of the given labels of the holdout look wrong."
    if accuracy is not None and accuracy <= 1:
        yield (
            f"{format_share(accuracy, 1)} of your given labels match; with about {rate:.0%} of "
            f"them wrong, about {1 - rate:.0%} is the most possible."
        )
    if selection.noise_matrix is not None:
        yield "The label noise depends on the class: see the noise matrix (`noise_matrix`)."


def _describe_susceptibility(selection: Selection) -> Iterator[str]:
    zeta = selection.pick.susceptibility
    if zeta is not None and (level := selection.perspective):
        yield f"ζ is {zeta:.2g}: {level}."


def as_html(selection: Selection) -> str:
    """Write the summary as a table for notebooks; every name in it is text."""
    summary = summarize(selection)
    rows = {"keep": summary.headline}
    if summary.file is not None:
        rows["file"] = summary.file
    rows |= {row.label: f"{row.value} {row.note}".rstrip() for row in summary.rows}
    rows["why"] = " ".join(reason.text for reason in selection.reasons)
    if selection.warnings:
        rows["caution"] = " ".join(selection.warnings)
    cells = (
        f'<tr><th scope="row" style="{_HEAD}">{html.escape(escape_invisible(name))}</th>'
        f'<td style="{_CELL}"><bdi>{html.escape(escape_invisible(value))}</bdi></td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"
