"""How sentences write an accuracy."""


def as_percent(accuracy: float) -> str:
    """An accuracy as a percentage; as it was recorded if it cannot be a share.

    Example:
        >>> as_percent(0.543), as_percent(54.3)
        ('54.30%', '54.3')
    """
    return f"{accuracy:.2%}" if accuracy <= 1 else f"{accuracy:g}"
