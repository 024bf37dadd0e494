"""How numbers and names are written for people: percentages, units, visible characters."""

import unicodedata

from rote.records import Column

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = {"\u200c", "\u200d"}
"""Characters that are invisible themselves, but part of emoji and of several scripts."""


def is_share(value: float, digits: int = 1) -> bool:
    """Return whether a value can be a share: at most 1, after rounding to that many digits.

    Accuracies that were recorded in percent are printed as they were recorded, never as 6800 %.
    """
    return value < 1 + 0.5 * 10.0 ** -(digits + 2)


def format_share(value: float, digits: int = 2) -> str:
    """Write a share as a percentage; a value that cannot be a share, as it was recorded.

    Example:
        >>> format_share(0.543), format_share(54.3)
        ('54.30%', '54.3')
    """
    return f"{value:.{digits}%}" if is_share(value, digits) else f"{value:.4g}"


def format_points(mine: float, theirs: float) -> str:
    """Write how many points one accuracy is above another, with its sign.

    Example:
        >>> format_points(0.9, 0.75), format_points(60.0, 65.0), format_points(0.5, 0.5)
        ('+15.0 points', '-5.0 points', '±0.0 points')
    """
    gap = round((mine - theirs) * (100 if is_share(max(mine, theirs)) else 1), 1)
    return f"{gap:+.1f} points" if gap else "±0.0 points"


def format_with_unit(value: float, column: Column) -> str:
    """Write a number of a column with its unit.

    Example:
        >>> format_with_unit(0.543, Column("f1", "F1", unit="share"))
        '54.30%'
    """
    if column.unit == "share":
        return format_share(value)
    return f"{value:.4g} s" if column.unit == "seconds" else f"{value:.4g}"


def escape_invisible(text: object) -> str:
    r"""Replace characters that are invisible, or that reorder the text, by their code points.

    Example:
        >>> escape_invisible("run\u202e1"), escape_invisible("a\tb")
        ('run‹U+202E›1', 'a‹U+0009›b')
    """
    return "".join(
        f"‹U+{ord(character):04X}›"
        if unicodedata.category(character) in _UNSEEN and character not in _JOINERS
        else character
        for character in str(text)
    )
