"""When to stop without a validation set: ζ rises while training accuracy is already high."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError, StateError
from rote.probe import from_first_rank
from rote.records import ZETAS, Reading

_STATE_KEYS = {"keep", "lowest", "waited", "stopped"}


@dataclass
class StopRule:
    """Stops a run that has learned what it can and now memorizes.

    Only readings with ``train_accuracy`` or more, from ``min_epochs`` on, count. Of those, the one
    with the lowest ζ is the checkpoint to keep; of equals the first, as in ``rote.select``. Once ζ
    has been above that minimum in ``patience`` counted readings since, training should stop.

    With several ranks, all call ``update`` and all decide by what the first one measured.

    Args:
        train_accuracy: what counts as high: about the share of labels that you believe to be
            right. A network that fits all right labels and no wrong one is a little above it.
        patience: how many readings with a risen ζ are waited for.
        min_epochs: readings before this ``step`` do not count.
        min_rise: how far above its minimum ζ has risen, as a share of the minimum.
        column: which of the four ζ to go by.

    Attributes:
        keep: the ``step`` of the reading whose checkpoint is the one to keep, so far.
        stopped: whether training should stop. It never becomes false again.

    Raises:
        InputError: if an argument is out of its range.

    Example:
        >>> rule = StopRule(train_accuracy=0.5, patience=2, min_epochs=1)
        >>> def read(step, zeta):
        ...     return Reading(step, 2.3, 2.3 - zeta, zeta, zeta, 0.0,
        ...                    metrics={"train_accuracy": 0.6})
        >>> [rule.update(read(step, zeta)) for step, zeta in enumerate([0.03, 0.02, 0.03, 0.04], 1)]
        [False, False, False, True]
        >>> rule.keep
        2
    """

    train_accuracy: float = 0.5
    patience: int = 3
    min_epochs: int = 5
    min_rise: float = 0.0
    column: str = "susceptibility"
    keep: int | None = field(default=None, init=False)
    stopped: bool = field(default=False, init=False)
    _lowest: float = field(default=math.inf, init=False, repr=False)
    _waited: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("train_accuracy", self.train_accuracy, least=0, most=1)
        check_integer("patience", self.patience, least=1)
        check_integer("min_epochs", self.min_epochs, least=0)
        check_number("min_rise", self.min_rise, least=0)
        check_choice("column", self.column, ZETAS)

    @property
    def reason(self) -> str | None:
        """Why training should stop, in a sentence; None as long as it should not."""
        if not self.stopped:
            return None
        return (
            f"ζ has been above its lowest value ({self._lowest:.4g} at step {self.keep}) in "
            f"{self._waited} readings since, with a training accuracy of "
            f"{self.train_accuracy:.0%} or more: keep step {self.keep}."
        )

    def update(self, reading: Reading | None) -> bool:
        """Take the next reading in.

        Args:
            reading: what ``tracker.probe`` returned; ``None`` (not due) changes nothing.

        Returns:
            Whether training should stop.

        Raises:
            InputError: if it is no reading, or one without ``train_accuracy`` or this ζ.
        """
        if reading is not None and not isinstance(reading, Reading):
            raise InputError(
                f"Expected `reading` to be what tracker.probe returned, got {reading!r}. Call "
                "rule.update(tracker.probe(train_accuracy=...))."
            )
        if reading is None or self.stopped:
            return self.stopped
        accuracy, zeta = from_first_rank(self._both_metrics(reading))
        is_high = accuracy >= self.train_accuracy  # never, if it is NaN
        if reading.step < self.min_epochs or not is_high or math.isnan(zeta):
            return False
        if zeta < self._lowest:
            self.keep, self._lowest, self._waited = reading.step, zeta, 0
        elif zeta > self._lowest + self.min_rise * abs(self._lowest):
            self._waited += 1
        self.stopped = self._waited >= self.patience
        return self.stopped

    def state_dict(self) -> dict[str, Any]:
        """What it remembers: numbers only."""
        lowest = None if math.isinf(self._lowest) else self._lowest
        return {
            "keep": self.keep,
            "lowest": lowest,
            "waited": self._waited,
            "stopped": self.stopped,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from a state.

        Raises:
            StateError: if an entry is missing or unknown.
        """
        if set(state) != _STATE_KEYS:
            raise StateError(
                f"Expected the state of a stop rule to have {sorted(_STATE_KEYS)}, got "
                f"{sorted(state)}."
            )
        self.keep, self.stopped, self._waited = state["keep"], state["stopped"], state["waited"]
        self._lowest = math.inf if state["lowest"] is None else state["lowest"]

    def _both_metrics(self, reading: Reading) -> tuple[float, float]:
        accuracy = reading.metrics.get("train_accuracy")
        if accuracy is None:
            raise InputError(
                "Expected the reading to have a `train_accuracy`, got none. Pass it to the probe: "
                "tracker.probe(train_accuracy=...)."
            )
        if accuracy > 1:
            raise InputError(
                f"Expected `train_accuracy` to be a share from 0 to 1, got {accuracy:g}. Divide "
                "per cent by 100."
            )
        zeta = getattr(reading, self.column)
        if zeta is None:
            raise InputError(
                f"Expected the reading to have `{self.column}`, got None. The policy measures no "
                "plain step; choose another column."
            )
        return accuracy, zeta
