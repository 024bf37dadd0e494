"""The columns of a table of runs that have a meaning, and those of other people."""

from rote.store.journal_frame import READING_COLUMNS
from rote.store.schema import RESERVED

NUMBERS = tuple(name for name in READING_COLUMNS if name not in ("step", "flags"))
"""The columns of a reading that hold numbers."""

NAMES = (
    *NUMBERS,
    "train_accuracy",
    "test_accuracy",
    "clean_accuracy",
    "noisy_accuracy",
)
"""What can be found under another name: the numbers of a reading, and the metrics of selection."""


def column_of(name: str) -> str:
    """The column of somebody else's metric: if a table needs its name, with ``metric:`` before it.

    Example:
        >>> column_of("accuracy"), column_of("score")
        ('accuracy', 'metric:score')
    """
    is_taken = name in RESERVED and name not in NUMBERS
    return f"metric:{name}" if is_taken else name
