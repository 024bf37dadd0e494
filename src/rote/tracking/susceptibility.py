"""The running mean that defines ζ, and the readings that are computed from it."""

import math
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from rote.errors import (
    DivergingReadingWarning,
    DominatedMeanWarning,
    NonFiniteReadingWarning,
    RoteWarning,
    StateError,
    UnresolvedReadingWarning,
)
from rote.probe import Measurement, ProbePolicy
from rote.records import ZETAS, Reading

FEW = 3
"""With fewer values than this, one of them always makes up half of the mean."""


@dataclass
class RunningMean:
    """ζ(t) = (1/t) Σ drop(τ) over the finite drops, with the largest one remembered.

    Attributes:
        count: the number of finite values.
        total: their sum.
        largest: the absolute value of the largest.
        largest_step: when it was read.

    Example:
        >>> mean = RunningMean()
        >>> mean.update(0.5, step=1), mean.update(float("nan"), step=2), mean.update(0.1, step=3)
        (0.5, 0.5, 0.3)
    """

    count: int = 0
    total: float = 0.0
    largest: float = 0.0
    largest_step: int = 0

    @property
    def value(self) -> float:
        """The mean; NaN until there is a finite value."""
        return self.total / self.count if self.count else math.nan

    @property
    def is_dominated(self) -> bool:
        """Whether one value makes up more than half of the mean."""
        return self.count >= FEW and self.largest > abs(self.total) / 2

    def update(self, value: float, step: int) -> float:
        """Add a value to the mean if it is finite.

        Returns:
            The mean so far.
        """
        if math.isfinite(value):
            self.count += 1
            self.total += value
            if abs(value) > self.largest:
                self.largest, self.largest_step = abs(value), step
        return self.value

    def state_dict(self) -> dict[str, float]:
        """Return the state of the mean."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continue from a state.

        Raises:
            StateError: if an entry is missing or unknown.
        """
        names = {entry.name for entry in fields(self)}
        if set(state) != names:
            raise StateError(
                f"Expected the state of a running mean to have {sorted(names)}, "
                f"got {sorted(state)}."
            )
        for name, value in state.items():
            setattr(self, name, value)


DIVERGING = 10.0
"""A drop of this many times the loss of a uniform guess, log(num_classes), is divergence."""

NOTABLE = 0.5
"""A drop of fewer times that loss may be most of a mean near zero; that does no harm."""


def list_zetas(measurement: Measurement, num_classes: int, policy: ProbePolicy) -> dict[str, float]:
    """Return ζ by column for a single measurement, without values that are not finite."""
    reading = Susceptibility(num_classes).read(measurement, 0, policy)
    values = {column: getattr(reading, column) for column in ZETAS}
    return {name: v for name, v in values.items() if v is not None and math.isfinite(v)}


class Susceptibility:
    """ζ and its variants: the main step or the plain one, absolute or relative to the loss.

    Args:
        num_classes: sets the scale above which a drop counts as diverging.
    """

    def __init__(self, num_classes: int) -> None:
        self._guess = math.log(max(num_classes, 2))
        self._means = {column: RunningMean() for column in ZETAS}

    def read(self, measurement: Measurement, step: int, policy: ProbePolicy) -> Reading:
        """Add a measurement to the means.

        Args:
            measurement: the losses of one probe.
            step: the unit of training it belongs to.
            policy: the policy, which defines the main and the plain losses.

        Returns:
            A reading without metrics and time.
        """
        before = measurement.loss_before
        after = measurement.losses_after[policy.optimizer]
        plain = None if policy.plain is None else measurement.losses_after[policy.plain]
        drop, drop_plain = before - after, None if plain is None else before - plain
        means = self.update(step, before, drop, drop_plain)
        return Reading(
            step=step,
            loss_before=before,
            loss_after=after,
            drop=drop,
            loss_after_plain=plain,
            drop_plain=drop_plain,
            flags=(*self._list_flags(drop, drop_plain), *measurement.list_flags(policy)),
            predictions=measurement.predictions,
            **means,
        )

    def update(
        self, step: int, before: float, drop: float, drop_plain: float | None
    ) -> dict[str, Any]:
        """Add drops to the means and return the means."""
        values = (drop, _divide(drop, before), drop_plain, _divide(drop_plain, before))
        for column, value in zip(ZETAS, values, strict=True):
            self._means[column].update(math.nan if value is None else value, step)
        return {
            column: None if value is None else self._means[column].value
            for column, value in zip(ZETAS, values, strict=True)
        }

    def warn(self, reading: Reading, warned: set[str]) -> None:
        """Warn of each kind of problem once; readings carry a flag every time."""
        for flag in reading.flags:
            if flag not in warned:
                warned.add(flag)
                warnings.warn(self._make_warning(flag, reading), stacklevel=3)

    def _make_warning(self, flag: str, reading: Reading) -> RoteWarning:
        if flag == "undefined_predictions":
            return NonFiniteReadingWarning(
                f"At step {reading.step} the logits of some holdout samples are NaN in eval mode. "
                "Their predicted classes are meaningless, and the validation accuracy is left out. "
                "Check the running statistics of normalization layers."
            )
        is_plain = flag.endswith("_plain")
        if flag.startswith("unresolved"):
            return UnresolvedReadingWarning(
                f"At step {reading.step} the loss changed by less than its own resolution in one "
                "step. Compute the loss in float32, or raise the learning rate of the step "
                "(ProbePolicy(plain=rote.PlainStep(lr=...)))."
            )
        zeta = "ζ of the reference step" if is_plain else "ζ"
        after = reading.loss_after_plain if is_plain else reading.loss_after
        if flag.startswith("non_finite"):
            return NonFiniteReadingWarning(
                f"The loss at step {reading.step} is not finite ({reading.loss_before} → {after}); "
                f"the reading is kept, and left out of {zeta}."
            )
        if flag.startswith("diverging"):
            drop = reading.drop_plain if is_plain else reading.drop
            return DivergingReadingWarning(
                f"The loss at step {reading.step} changed by {drop:.4g} in one step; the run may "
                "be diverging. Compare runs by the relative susceptibility."
            )
        step = self._means["susceptibility_plain" if is_plain else "susceptibility"].largest_step
        return DominatedMeanWarning(
            f"The reading at step {step} makes up more than half of {zeta}; read the relative "
            "susceptibility instead."
        )

    def state_dict(self) -> dict[str, dict[str, float]]:
        """Return the state of every mean."""
        return {column: mean.state_dict() for column, mean in self._means.items()}

    def load_state_dict(self, state: Mapping[str, Mapping[str, float]]) -> None:
        """Continue from a state.

        Raises:
            StateError: if a mean is missing, or does not look like one.
        """
        if set(state) != set(ZETAS):
            raise StateError(f"Expected the means {', '.join(ZETAS)}, got {', '.join(state)}.")
        for column, mean in self._means.items():
            mean.load_state_dict(state[column])

    def _list_flags(self, drop: float, drop_plain: float | None) -> tuple[str, ...]:
        odd = self._list_oddities(drop, "susceptibility")
        odd_plain = (
            () if drop_plain is None else self._list_oddities(drop_plain, "susceptibility_plain")
        )
        return (*odd, *(f"{flag}_plain" for flag in odd_plain))

    def _list_oddities(self, drop: float, column: str) -> tuple[str, ...]:
        is_finite = math.isfinite(drop)
        odd = {
            "non_finite": not is_finite,
            "diverging": is_finite and abs(drop) > DIVERGING * self._guess,
            "dominated": self._is_dominated(column),
        }
        return tuple(flag for flag, is_odd in odd.items() if is_odd)

    def _is_dominated(self, column: str) -> bool:
        mean = self._means[column]
        return mean.is_dominated and mean.largest > NOTABLE * self._guess


def _divide(drop: float | None, before: float) -> float | None:
    """Return the drop relative to the loss before it, NaN where that has no meaning."""
    if drop is None:
        return None
    return drop / before if before > 0 and math.isfinite(before) else math.nan
