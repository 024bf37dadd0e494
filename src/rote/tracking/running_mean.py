"""The running mean of the finite values so far: the definition of ζ."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields

from rote.errors import StateError

FEW = 3
"""With fewer values than this, one of them is half of the mean by necessity."""


@dataclass
class RunningMean:
    """ζ(t) = (1/t) Σ drop(τ) over the finite drops, with the largest one remembered.

    Attributes:
        count: how many finite values.
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
        """The mean, NaN as long as nothing finite was seen."""
        return self.total / self.count if self.count else math.nan

    @property
    def is_dominated(self) -> bool:
        """Whether one value makes up more than half of the mean."""
        return self.count >= FEW and self.largest > abs(self.total) / 2

    def update(self, value: float, step: int) -> float:
        """Take a value in, unless it is not finite.

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
        """Everything it remembers."""
        return asdict(self)

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Go on from a state.

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
