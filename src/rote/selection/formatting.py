"""How people read a number or a name: shares in per cent, nothing that hides or steers."""

import unicodedata

from rote.records import Column

_UNSEEN = {"Cc", "Cf", "Cs", "Zl", "Zp"}
_JOINERS = {"\u200c", "\u200d"}
"""Signs that show nothing themselves, but that emoji and several scripts are written with."""


def is_share(value: float, digits: int = 1) -> bool:
    """Whether a value can be a share: one that is written as more than 100 % is none.

    Whoever records accuracies in per cent gets back what was recorded, never 6800 %.
    """
    return value < 1 + 0.5 * 10.0 ** -(digits + 2)


def as_percent(value: float, digits: int = 2) -> str:
    """A share in per cent; as it was recorded if it cannot be one.

    Example:
        >>> as_percent(0.543), as_percent(54.3)
        ('54.30%', '54.3')
    """
    return f"{value:.{digits}%}" if is_share(value, digits) else f"{value:.4g}"


def as_text(value: float, column: Column) -> str:
    """A number of a column, with its unit.

    Example:
        >>> as_text(0.543, Column("f1", "F1", unit="share")), as_text(54.3, Column("f1", "F1"))
        ('54.30%', '54.3')
    """
    if column.unit == "share":
        return as_percent(value)
    return f"{value:.4g} s" if column.unit == "seconds" else f"{value:.4g}"


def visible(text: object) -> str:
    r"""A text in which signs that show nothing, or turn the text around them, are named.

    Example:
        >>> visible("run\u202e1"), visible("a\tb")
        ('run‹U+202E›1', 'a‹U+0009›b')
    """
    return "".join(
        f"‹U+{ord(sign):04X}›"
        if unicodedata.category(sign) in _UNSEEN and sign not in _JOINERS
        else sign
        for sign in str(text)
    )
