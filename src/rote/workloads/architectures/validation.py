"""Checks of the numbers that shape a network."""

import math
from numbers import Integral, Real
from typing import TypeGuard

from rote.errors import InputError


def check_count(name: str, value: int, *, least: int = 1) -> None:
    """Refuse anything but an integer of at least ``least``.

    Args:
        name: the argument, for the message.
        value: what was given.
        least: the smallest value allowed.

    Raises:
        InputError: if ``value`` is not such an integer.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise InputError(f"Expected `{name}` to be an integer of at least {least}, got {value!r}.")


def check_scale(value: object) -> None:
    """Refuse a scale that is not a positive finite number.

    Args:
        value: what was given.

    Raises:
        InputError: if ``value`` is not a positive finite number.
    """
    if not _is_number(value) or not 0 < value < math.inf:
        raise InputError(f"Expected `scale` to be a positive finite number, got {value!r}.")


def check_drop_rate(name: str, value: object) -> None:
    """Refuse a share of dropped units outside [0, 1).

    Args:
        name: the argument, for the message.
        value: what was given.

    Raises:
        InputError: if ``value`` is not a number in [0, 1).
    """
    if not _is_number(value) or not 0 <= value < 1:
        raise InputError(f"Expected `{name}` to be a number in [0, 1), got {value!r}.")


def check_flag(name: str, value: object) -> None:
    """Refuse anything but true or false.

    Args:
        name: the argument, for the message.
        value: what was given.

    Raises:
        InputError: if ``value`` is not a bool.
    """
    if not isinstance(value, bool):
        raise InputError(f"Expected `{name}` to be true or false, got {value!r}.")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)
