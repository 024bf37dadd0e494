"""Formats of numbers and names on the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rote.formatting import escape_invisible, format_share, is_share

if TYPE_CHECKING:
    import markupsafe

    from rote.selection import Estimate, Selection

_DASH = "–"
_LONG_NAME = 40


def format_percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent; a value above 1 stays as recorded.

    Example:
        >>> format_percent(0.8254), format_percent(None), format_percent(67.0)
        ('82.5%', '–', '67')
    """
    return _DASH if value is None else format_share(value, digits).replace("-", "−")


def count_points(best: float, found: float) -> str:
    """Return how far an accuracy is below the best one, in percentage points.

    Example:
        >>> count_points(0.9, 0.85), count_points(90.0, 85.0)
        ('5.0', '5.0')
    """
    return f"{(best - found) * (100 if is_share(best) else 1):.1f}"


def format_number(value: float | None) -> str:
    """Format a number with four significant digits.

    Example:
        >>> format_number(0.0433562), format_number(-0.5), format_number(None)
        ('0.04336', '−0.5', '–')
    """
    return _DASH if value is None else f"{value:.4g}".replace("-", "−")


def count(count: int, noun: str) -> str:
    """Format a count with its noun.

    Example:
        >>> count(1, "run"), count(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def format_estimate(estimate: Estimate) -> str:
    """Format an estimate with its interval, or the reason why there is none."""
    if estimate.value is None:
        return f"not defined: {(estimate.reason or '').rstrip('.')}"
    ends = "" if estimate.low is None else f", 95% interval {estimate.low:.2f} to "
    ends += "" if estimate.high is None else f"{estimate.high:.2f}"
    return f"{estimate.value:.2f}{ends}".replace("-", "−")


def mark_headline(selection: Selection, is_live: bool) -> markupsafe.Markup:
    """Return the headline of a verdict as HTML, with the name of the run set apart.

    Args:
        selection: the verdict.
        is_live: whether runs are still in progress, so that it is only the best so far.
    """
    import markupsafe

    pick = selection.pick
    start = selection.headline.removesuffix(escape_invisible(pick.run))
    if is_live:
        start = f"Best so far: step {pick.step} of "
    long = " long" if len(pick.run) > _LONG_NAME else ""
    name = f'<span class="run-name{long}">{isolate(pick.run)}</span>'
    return markupsafe.Markup(f"{markupsafe.escape(start)}{name}")


def use_minus(text: str) -> str:
    """Replace the hyphen before a number by a minus sign.

    Example:
        >>> use_minus("-4.1 points, cnn-1")
        '−4.1 points, cnn-1'
    """
    return re.sub(r"(?<![\w-])-(?=\d)", "−", text)


def isolate(name: object) -> markupsafe.Markup:
    r"""Return a name as HTML whose text direction does not affect the text around it.

    Example:
        >>> str(isolate("<b>\u202e"))
        '<bdi>&lt;b&gt;‹U+202E›</bdi>'
    """
    import markupsafe

    return markupsafe.Markup(f"<bdi>{markupsafe.escape(escape_invisible(name))}</bdi>")


def isolate_dotted(name: object) -> markupsafe.Markup:
    """Return a dotted name as HTML that may break after each dot.

    Example:
        >>> str(isolate_dotted("noise.rate"))
        '<bdi>noise.<wbr>rate</bdi>'
    """
    import markupsafe

    return isolate(name).replace(".", markupsafe.Markup(".<wbr>"))


def mark_code(sentence: str) -> markupsafe.Markup:
    """Return a sentence as HTML, with text between backquotes as code.

    Example:
        >>> str(mark_code("Try `staged` <now>"))
        'Try <code>staged</code> &lt;now&gt;'
    """
    import markupsafe

    text = str(markupsafe.escape(escape_invisible(sentence)))
    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", text))


FILTERS = {
    "percent": format_percent,
    "number": format_number,
    "counted": count,
    "interval": format_estimate,
    "visible": escape_invisible,
    "named": isolate,
    "breakable": isolate_dotted,
    "coded": mark_code,
    "headline": mark_headline,
    "minus": use_minus,
}
"""The filters of the templates, by name."""
