"""A selection as people read it: one paragraph, or a small table in a notebook."""

from __future__ import annotations

import html
from typing import TYPE_CHECKING

from rote.formatting import as_percent, is_share, visible

if TYPE_CHECKING:
    from rote.selection.baseline_comparison import Baseline
    from rote.selection.selection import Selection

_MOST_WARNINGS = 3
_HEAD = "text-align:left;vertical-align:top;white-space:nowrap"
_CELL = "text-align:left;white-space:normal"
_MEASURES = {
    "estimated_accuracy": "By estimate it is",
    "validation_accuracy": "On the holdout's given labels, some of which may be wrong, it has",
    "test_accuracy": "On test data it has",
}


def headline(selection: Selection) -> str:
    """What to keep: one sentence with the file, if there is one."""
    pick = selection.pick
    where = "" if pick.file is None else f": {pick.file}"
    return visible(f"Keep step {pick.step} of run {pick.run}{where}")


def because(selection: Selection) -> str:
    """How much better than what one would keep without a rule; then why, how sure, its limits."""
    return visible(" ".join([*map(compared, selection.baselines), *why(selection)]))


def compared(baseline: Baseline) -> str:
    """One accuracy of the pick beside that of others.

    Example:
        >>> from rote.selection.baseline_comparison import Baseline
        >>> compared(Baseline("estimated_accuracy", 0.9, None, 0.8, 0.9))
        'By estimate it is 10.0 points better than the median one.'
    """
    others = {"last checkpoint": baseline.last, "median one": baseline.median}
    if baseline.column == "test_accuracy":  # the best is known, and not only believed
        others["best"] = baseline.best
    told = [
        f"{points(baseline.pick, value)} the {name}"
        for name, value in others.items()
        if value is not None
    ]
    is_told = baseline.column == "estimated_accuracy"  # as the rule's first reason
    value = "" if is_told else f" {as_percent(baseline.pick, 1)}:"
    return f"{_MEASURES[baseline.column]}{value} {_joined(told)}."


def _joined(parts: list[str]) -> str:
    """A list as one says it.

    Example:
        >>> _joined(["a"]), _joined(["a", "b"]), _joined(["a", "b", "c"])
        ('a', 'a and b', 'a, b and c')
    """
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def points(mine: float, theirs: float) -> str:
    """How much better one accuracy is than another.

    Example:
        >>> points(0.9, 0.75), points(60.0, 65.0), points(0.5, 0.5)
        ('15.0 points better than', '5.0 points worse than', 'as good as')
    """
    gap = round((mine - theirs) * (100 if is_share(max(mine, theirs)) else 1), 1)
    side = "better" if gap > 0 else "worse"
    return f"{abs(gap):.1f} points {side} than" if gap else "as good as"


def paragraph(selection: Selection) -> str:
    """Keep this, how much better it is, because, how sure; and what makes it doubtful."""
    warnings = selection.warnings[:_MOST_WARNINGS]
    doubts = [f"Careful: {warning}" for warning in warnings]
    more = len(selection.warnings) - len(warnings)
    doubts += [f"({more} more in `.warnings`.)"] if more else []
    return " ".join([f"{headline(selection)}.", because(selection), *map(visible, doubts)])


def as_html(selection: Selection) -> str:
    """A table for notebooks; every name in it is text."""
    pick = selection.pick
    rows = {"keep": f"step {pick.step} of {pick.run}"}
    if pick.file is not None:
        rows["file"] = str(pick.file)
    for baseline in selection.baselines:
        interval = pick.interval if baseline.column == selection.baselines[0].column else None
        ends = "" if interval is None else f" ({' to '.join(as_percent(e, 1) for e in interval)})"
        label = baseline.column.replace("_", " ")
        rows[label] = f"{as_percent(baseline.pick, 1)}{ends}"
        last = "–" if baseline.last is None else as_percent(baseline.last, 1)
        rows[f"{label}, last · median"] = f"{last} · {as_percent(baseline.median, 1)}"
    if selection.confidence is not None:
        rows["within 1 point of the best"] = f"{selection.confidence:.0%} probability"
    if selection.noise_rate is not None:
        rows["labels taken to be wrong"] = f"{selection.noise_rate:.0%}"
    rows["rule"] = selection.rule
    rows["because"] = " ".join(why(selection))
    if selection.warnings:
        rows["careful"] = " ".join(selection.warnings)
    cells = (
        f'<tr><th scope="row" style="{_HEAD}">{_text(name)}</th>'
        f'<td style="{_CELL}"><bdi>{_text(value)}</bdi></td></tr>'
        for name, value in rows.items()
    )
    return f"<table>{''.join(cells)}</table>"


def _text(value: str) -> str:
    return html.escape(visible(value))


def why(selection: Selection) -> tuple[str, ...]:
    """The reasons, without the name of the rule alone, which is told beside them."""
    first, *others = selection.reasons
    is_name = first.startswith(f"Rule `{selection.rule}`, by `")
    return tuple(others) if is_name and others else selection.reasons
