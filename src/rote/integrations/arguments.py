"""What both callbacks take, checked when they are built."""

from typing import Any

from rote.errors import InputError
from rote.tracking import StopRule


def check_arguments(*, every: Any, samples: Any, stop: Any) -> None:  # noqa: ANN401
    """Refuse what no training could go by.

    Args:
        every: ``"epoch"``, or a number of steps.
        samples: how many samples make S̃.
        stop: a stop rule, or ``None``.

    Raises:
        InputError: if one does not fit.
    """
    if every != "epoch" and not _is_count(every):
        raise InputError(f"Expected `every` to be 'epoch' or a positive integer, got {every!r}.")
    if not _is_count(samples):
        raise InputError(f"Expected `samples` to be a positive integer, got {samples!r}.")
    if stop is not None and not isinstance(stop, StopRule):
        raise InputError(
            f"Expected `stop` to be a rote.StopRule, got {stop!r}. Pass one, such as "
            "rote.StopRule(train_accuracy=0.5)."
        )


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1
