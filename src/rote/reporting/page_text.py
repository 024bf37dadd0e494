"""Numbers and names as the page writes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rote.formatting import as_percent, is_share, visible

if TYPE_CHECKING:
    import markupsafe

    from rote.selection import Estimate

_DASH = "–"


def percent(value: float | None, digits: int = 1) -> str:
    """A share as people read it; what is too large to be one, as it was recorded.

    Example:
        >>> percent(0.8254), percent(None), percent(67.0)
        ('82.5%', '–', '67')
    """
    return _DASH if value is None else as_percent(value, digits).replace("-", "−")


def points(best: float, found: float) -> str:
    """How far an accuracy is from the best one, in percentage points.

    Example:
        >>> points(0.9, 0.85), points(90.0, 85.0)
        ('5.0', '5.0')
    """
    return f"{(best - found) * (100 if is_share(best) else 1):.1f}"


def number(value: float | None) -> str:
    """A number with four significant digits.

    Example:
        >>> number(0.0433562), number(-0.5), number(None)
        ('0.04336', '−0.5', '–')
    """
    return _DASH if value is None else f"{value:.4g}".replace("-", "−")


def counted(count: int, noun: str) -> str:
    """How many of something.

    Example:
        >>> counted(1, "run"), counted(1200, "run")
        ('1 run', '1,200 runs')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def interval(estimate: Estimate) -> str:
    """An estimate with its interval, or why there is none."""
    if estimate.value is None:
        return f"not defined: {(estimate.reason or '').rstrip('.')}"
    ends = "" if estimate.low is None else f", 95% interval {estimate.low:.2f} to "
    ends += "" if estimate.high is None else f"{estimate.high:.2f}"
    return f"{estimate.value:.2f}{ends}".replace("-", "−")


def named(name: object) -> markupsafe.Markup:
    r"""A name as HTML that is written in its own direction, and leaves the text around it alone.

    Example:
        >>> str(named("<b>\u202e"))
        '<bdi>&lt;b&gt;‹U+202E›</bdi>'
    """
    import markupsafe

    return markupsafe.Markup(f"<bdi>{markupsafe.escape(visible(name))}</bdi>")


def breakable(name: object) -> markupsafe.Markup:
    """A dotted name as HTML that may go on in a new line after each dot.

    Example:
        >>> str(breakable("noise.rate"))
        '<bdi>noise.<wbr>rate</bdi>'
    """
    import markupsafe

    return named(name).replace(".", markupsafe.Markup(".<wbr>"))


def coded(sentence: str) -> markupsafe.Markup:
    """A sentence as HTML, in which what stands between backquotes is set as code.

    Example:
        >>> str(coded("Try `staged` <now>"))
        'Try <code>staged</code> &lt;now&gt;'
    """
    import markupsafe

    text = str(markupsafe.escape(visible(sentence)))
    return markupsafe.Markup(re.sub("`([^`]+)`", r"<code>\1</code>", text))
