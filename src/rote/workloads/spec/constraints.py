"""What a number in a spec may be, beyond its type: what is in it fits, its text says what does."""

from dataclasses import dataclass


@dataclass(frozen=True)
class AtLeast:
    """Not smaller than ``low``."""

    low: float

    def __contains__(self, value: float) -> bool:
        return value >= self.low

    def __str__(self) -> str:
        return f"of at least {self.low}"


@dataclass(frozen=True)
class Above:
    """Larger than ``low``."""

    low: float

    def __contains__(self, value: float) -> bool:
        return value > self.low

    def __str__(self) -> str:
        return f"above {self.low}"


@dataclass(frozen=True)
class Between:
    """From ``low`` to ``high``, both allowed unless ``below`` excludes ``high``."""

    low: float
    high: float
    below: bool = False

    def __contains__(self, value: float) -> bool:
        return self.low <= value and (value < self.high if self.below else value <= self.high)

    def __str__(self) -> str:
        return f"from {self.low} {'below' if self.below else 'to'} {self.high}"
