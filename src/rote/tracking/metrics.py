"""What else the caller measured at the time of a probe."""

import warnings
from collections.abc import Mapping
from typing import Any

from rote.errors import InputError, RoteWarning
from rote.probe import is_first_rank
from rote.records import SHARES
from rote.store import is_reserved

_ROUNDING = 1e-6  # a mean of ones in single precision


def as_numbers(metrics: Mapping[str, Any]) -> dict[str, float]:
    """What a caller measured, as numbers.

    Raises:
        InputError: if a value is no number, or a name is in use.
    """
    numbers = {}
    for name, value in metrics.items():
        if is_reserved(name):
            raise InputError(
                f"Expected a metric's name to be free, got `{name}`, which every reading has."
            )
        try:
            numbers[name] = _as_number(value)
        except (TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise InputError(f"Expected metric `{name}` to be a number, got {value!r}.") from error
    return numbers


def warn_of_per_cent(metrics: Mapping[str, float], warned: set[str]) -> None:
    """Say so, once and on the first rank, if an accuracy is no share."""
    odd = [name for name in SHARES if metrics.get(name, 0.0) > 1 + _ROUNDING]
    if odd and "per_cent" not in warned and is_first_rank():
        warned.add("per_cent")
        warnings.warn(
            f"Expected accuracies to be shares from 0 to 1, got {odd[0]}={metrics[odd[0]]:g}. "
            "Divide per cent by 100: rules of selection go by shares.",
            RoteWarning,
            stacklevel=3,
        )


def _as_number(value: Any) -> float:  # noqa: ANN401
    if isinstance(value, str):
        raise TypeError("a text is no number, even if it reads like one")
    return float(value)
