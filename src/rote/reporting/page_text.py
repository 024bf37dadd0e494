"""Formats of numbers and names on the page."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rote.formatting import as_percent, is_share, visible

if TYPE_CHECKING:
    import markupsafe

    from rote.selection import Estimate

_DASH = "–"


def percent(value: float | None, digits: int = 1) -> str:
    """Format a share in percent; a value above 1 stays as recorded.

    Example:
        >>> percent(0.8254), percent(None), percent(67.0)
        ('82.5%', '–', '67')
    """
    return _DASH if value is None else as_percent(value, digits).replace("-", "−")


def points(best: float, found: float) -> str:
    """Return how far an accuracy is below the best one, in percentage points.

    Example:
        >>> points(0.9, 0.85), points(90.0, 85.0)
        ('5.0', '5.0')
    """
    return f"{(best - found) * (100 if is_share(best) else 1):.1f}"


def number(value: float | None) -> str:
    """Format a number with four significant digits.

    Example:
        >>> number(0.0433562), number(-0.5), number(None)
        ('0.04336', '−0.5', '–')
    """
    return _DASH if value is None else f"{value:.4g}".replace("-", "−")


def counted(count: int, noun: str) -> str:
    """Format a count with its noun.

    Example:
        >>> counted(1, "run"), counted(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def interval(estimate: Estimate) -> str:
    """Format an estimate with its interval, or the reason why there is none."""
    if estimate.value is None:
        return f"not defined: {(estimate.reason or '').rstrip('.')}"
    ends = "" if estimate.low is None else f", 95% interval {estimate.low:.2f} to "
    ends += "" if estimate.high is None else f"{estimate.high:.2f}"
    return f"{estimate.value:.2f}{ends}".replace("-", "−")


def named(name: object) -> markupsafe.Markup:
    r"""Return a name as HTML whose text direction does not affect the text around it.

    Example:
        >>> str(named("<b>\u202e"))
        '<bdi>&lt;b&gt;‹U+202E›</bdi>'
    """
    import markupsafe

    return markupsafe.Markup(f"<bdi>{markupsafe.escape(visible(name))}</bdi>")


def breakable(name: object) -> markupsafe.Markup:
    """Return a dotted name as HTML that may break after each dot.

    Example:
        >>> str(breakable("noise.rate"))
        '<bdi>noise.<wbr>rate</bdi>'
    """
    import markupsafe

    return named(name).replace(".", markupsafe.Markup(".<wbr>"))


def coded(sentence: str) -> markupsafe.Markup:
    """Return a sentence as HTML, with text between backquotes as code.

    Example:
        >>> str(coded("Try `staged` <now>"))
        'Try <code>staged</code> &lt;now&gt;'
    """
    import markupsafe

    text = str(markupsafe.escape(visible(sentence)))
    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", text))
