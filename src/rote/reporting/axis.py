"""Axes of ζ and accuracy: their ends, and the positions of a slider on them.

A slider position is an integer multiple of a small unit. Page and Python divide the same two
integers and so compare with the same threshold.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rote.formatting import is_share

if TYPE_CHECKING:
    from rote.selection import Floats

_DIGITS = 5
_STOPS = 500
_SMALLEST = 1e-8
"""Below this, differences of losses are rounding errors."""

_FARTHEST = 1e15
"""The largest end of an axis, well within the integers that a browser represents exactly."""

_FAR = 3.0
"""How far an axis extends from the median, in units of the spread of the values."""


@dataclass(frozen=True)
class Axis:
    """The range of an axis and the positions of its slider.

    Attributes:
        low: the lower end.
        high: the upper end.
        places: decimal places of a slider position.
        step: units between two slider positions.
    """

    low: float
    high: float
    places: int
    step: int

    @property
    def unit(self) -> int:
        """The number of units in 1."""
        return int(10**self.places)

    @property
    def first_stop(self) -> int:
        """The lowest slider position, in units."""
        return math.floor(self.low * self.unit / self.step) * self.step

    @property
    def last_stop(self) -> int:
        """The highest slider position, in units."""
        return math.ceil(self.high * self.unit / self.step) * self.step

    @property
    def tick_format(self) -> str:
        """The number format of accuracies on this axis."""
        return choose_tick_format(self.high)

    @property
    def stops(self) -> Floats:
        """All slider positions, computed as the page computes them."""
        return np.arange(self.first_stop, self.last_stop + 1, self.step) / self.unit

    def with_stops(self, most: int) -> Axis:
        """Return the same axis with about ``most`` slider positions, a round number apart.

        Example:
            >>> axis = make_accuracy_axis(np.array([0.0, 1.0])).with_stops(200)
            >>> len(axis.stops), axis.stops[1].item()
            (201, 0.005)
        """
        apart = (self.high - self.low) * self.unit / most
        if self.step >= apart:
            return self
        power = 10 ** math.floor(math.log10(apart))
        return replace(self, step=next(n * power for n in (1, 2, 5, 10) if n * power >= apart))

    def beyond(self, values: Floats) -> int:
        """Count the finite values outside the axis, which are drawn at its edge."""
        return int(((values < self.low) | (values > self.high)).sum())


def choose_tick_format(highest: float) -> str:
    """Return the number format for accuracies: percent, unless a value exceeds 1."""
    return "%" if is_share(highest) else ",~f"


def make_accuracy_axis(values: Floats) -> Axis:
    """Return an axis from a round number below the lowest accuracy to 1.

    Example:
        >>> axis = make_accuracy_axis(np.array([0.537, 0.9]))
        >>> axis.low, axis.high, axis.first_stop, axis.last_stop
        (0.5, 1.0, 50000, 100000)
    """
    known = np.clip(values[np.isfinite(values)], -_FARTHEST, _FARTHEST)
    low = math.floor(float(known.min()) * 10) / 10 if len(known) else 0.0
    high = max(1.0, math.ceil(float(known.max()) * 10) / 10) if len(known) else 1.0
    return Axis(min(low, 0.9), high, places=_DIGITS, step=100)


def make_zeta_axis(values: Floats) -> Axis:
    """Return an axis over all values of ζ, without a few outliers.

    Example:
        >>> axis = make_zeta_axis(np.append(np.linspace(0.0, 0.4, 200), 1e6))
        >>> axis.high < 2, axis.beyond(np.array([0.1, 1e6]))
        (True, 1)
    """
    known = values[np.isfinite(values)]
    if not len(known):
        return Axis(0.0, 1.0, places=_DIGITS, step=100)
    lowest, highest = float(known.min()), float(known.max())
    low, middle, high = (float(value) for value in np.percentile(known, [2, 50, 98]))
    reach = _FAR * max(high - middle, middle - low, abs(middle) / 10)
    lowest, highest = max(lowest, middle - reach), min(highest, middle + reach)
    lowest, highest = (min(max(end, -_FARTHEST), _FARTHEST) for end in (lowest, highest))
    spread = highest - lowest or abs(highest) or 1.0
    margin = max(0.02 * spread, _SMALLEST)
    lowest, highest = lowest - margin, highest + margin
    magnitude = math.floor(math.log10(highest - lowest))
    places = min(max(_DIGITS - 1 - magnitude, 0), 15)
    stop = (highest - lowest) / _STOPS * 10**places
    step = max(1, int(10 ** math.floor(math.log10(stop)))) if stop >= 1 else 1
    return Axis(lowest, highest, places=places, step=step)
