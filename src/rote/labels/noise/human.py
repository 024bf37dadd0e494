"""Labels that people gave, such as those of CIFAR-10N."""

from numpy.typing import ArrayLike

from rote.errors import InputError
from rote.labels.noise.record import Draw, Labels
from rote.labels.noise.validation import check_labels


def human(labels: Labels, *, num_classes: int, table: ArrayLike | None) -> Draw:
    """Take the labels of a table in place of the clean ones.

    Args:
        labels: clean labels.
        num_classes: how many classes.
        table: one human label per sample, in the order of ``labels``.

    Returns:
        The labels of the table.

    Raises:
        InputError: if the table is missing, has another length, or holds other than classes.
    """
    if table is None:
        raise InputError("Expected `table` to be given for model 'human', got None.")
    given = check_labels("table", table, num_classes)
    if len(given) != len(labels):
        raise InputError(
            f"Expected `table` to hold one label per sample ({len(labels)}), got {len(given)}."
        )
    return Draw(given)
