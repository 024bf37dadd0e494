"""The axis of ζ or of accuracy: where it ends, and where a slider can stop.

A stop is a whole number of a small unit, so that page and Python divide the same two numbers and
compare with the same threshold.
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
"""Where every axis ends at the latest, well within what a browser can count to."""

_FAR = 3.0
"""How far from the middle values, in their own spread, an axis goes before it cuts off."""


@dataclass(frozen=True)
class Axis:
    """Where values are drawn, and where a slider can stop.

    Attributes:
        low: the lower end.
        high: the upper end.
        places: decimal places of a stop.
        step: units between two stops of a slider.
    """

    low: float
    high: float
    places: int
    step: int

    @property
    def unit(self) -> int:
        """How many units make 1."""
        return int(10**self.places)

    @property
    def first_stop(self) -> int:
        """The lowest stop of a slider, in units."""
        return math.floor(self.low * self.unit / self.step) * self.step

    @property
    def last_stop(self) -> int:
        """The highest stop of a slider, in units."""
        return math.ceil(self.high * self.unit / self.step) * self.step

    @property
    def ticks(self) -> str:
        """How a chart writes an accuracy on it."""
        return ticks(self.high)

    @property
    def stops(self) -> Floats:
        """Where a slider can stop, as the page computes it."""
        return np.arange(self.first_stop, self.last_stop + 1, self.step) / self.unit

    def with_stops(self, most: int) -> Axis:
        """The same with at most about so many stops, a round number apart.

        Example:
            >>> axis = accuracy_axis(np.array([0.0, 1.0])).with_stops(200)
            >>> len(axis.stops), axis.stops[1].item()
            (201, 0.005)
        """
        apart = (self.high - self.low) * self.unit / most
        if self.step >= apart:
            return self
        power = 10 ** math.floor(math.log10(apart))
        return replace(self, step=next(n * power for n in (1, 2, 5, 10) if n * power >= apart))

    def beyond(self, values: Floats) -> int:
        """How many finite values lie outside, and are drawn at the edge."""
        return int(((values < self.low) | (values > self.high)).sum())


def ticks(highest: float) -> str:
    """How a chart writes accuracies up to one: as shares, unless they cannot be."""
    return "%" if is_share(highest) else ",~f"


def accuracy_axis(values: Floats) -> Axis:
    """From a round number below the lowest accuracy to 1.

    Example:
        >>> axis = accuracy_axis(np.array([0.537, 0.9]))
        >>> axis.low, axis.high, axis.first_stop, axis.last_stop
        (0.5, 1.0, 50000, 100000)
    """
    known = np.clip(values[np.isfinite(values)], -_FARTHEST, _FARTHEST)
    low = math.floor(float(known.min()) * 10) / 10 if len(known) else 0.0
    high = max(1.0, math.ceil(float(known.max()) * 10) / 10) if len(known) else 1.0
    return Axis(min(low, 0.9), high, places=_DIGITS, step=100)


def zeta_axis(values: Floats) -> Axis:
    """Over all values of ζ, or over most of them where a few are far out.

    Example:
        >>> axis = zeta_axis(np.append(np.linspace(0.0, 0.4, 200), 1e6))
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
