"""What a number in a spec may be, beyond its type."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AtLeast:
    """Not smaller than ``low``."""

    low: float

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"of at least {self.low}"

    def holds(self, value: float) -> bool:
        """Whether it is satisfied."""
        return value >= self.low


@dataclass(frozen=True)
class Above:
    """Larger than ``low``."""

    low: float

    @property
    def words(self) -> str:
        """The condition in words."""
        return f"above {self.low}"

    def holds(self, value: float) -> bool:
        """Whether it is satisfied."""
        return value > self.low


@dataclass(frozen=True)
class Between:
    """From ``low`` to ``high``, both allowed unless ``below`` excludes ``high``."""

    low: float
    high: float
    below: bool = False

    @property
    def words(self) -> str:
        """The condition in words."""
        end = f"below {self.high}" if self.below else f"to {self.high}"
        return f"from {self.low} {end}"

    def holds(self, value: float) -> bool:
        """Whether it is satisfied."""
        return self.low <= value and (value < self.high if self.below else value <= self.high)
