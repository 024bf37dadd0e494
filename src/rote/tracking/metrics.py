"""What else the caller measured at the time of a probe."""

from collections.abc import Mapping
from typing import Any

from rote.errors import InputError
from rote.store import RESERVED


def as_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What a caller measured, as numbers.

    Args:
        metrics: numbers or tensors of one element, by name.

    Raises:
        InputError: if a value is no number, or a name is in use.
    """
    numbers = {}
    for name, value in metrics.items():
        if name in RESERVED:
            raise InputError(
                f"Expected a metric's name to be free, got `{name}`, which every reading has."
            )
        try:
            numbers[name] = _as_number(value)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(f"Expected metric `{name}` to be a number, got {value!r}.") from error
    return numbers


def _as_number(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, str):
        raise TypeError("a text is no number, even if it reads like one")
    return float(value)
