"""The stop rule: it uses noisy validation, the rate of wrong labels, or a rise of ζ."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from rote.arguments import check_choice, check_integer, check_number
from rote.errors import InputError, StateError
from rote.probe import broadcast_from_first
from rote.records import ZETAS, Reading

VALIDATION = "validation_accuracy"
_NOISE_RATE = "noise_rate"
_STATE_KEYS = {"keep", "lowest", "waited", "stopped"}


@dataclass
class StopRule:
    """Stops a run that has learned what it can and now memorizes.

    It uses the best evidence in the first reading; ``reason`` names it:

    - with ``noise_rate``: it keeps the first reading whose training accuracy reaches the share of
      right labels, and stops there;
    - where the noisy validation accuracy is recorded (``given_labels`` of ``rote.track``): it keeps
      the reading with the highest, and stops after ``patience`` readings without a higher one in
      which training accuracy, if it is known, was above what it was there;
    - otherwise by ζ: only readings with ``train_accuracy`` or more, from ``min_epochs`` on, count.
      Of those it keeps the one with the lowest ζ, and stops once ζ has been above that minimum in
      ``patience`` counted readings since. docs/stopping.md says how much worse that is.

    Of equal readings, the first is kept, as in ``rote.select``. With several ranks, all call
    ``update``, and all decide by the readings of the first rank.

    Args:
        train_accuracy: the lowest training accuracy that counts as high: about the share of labels
            that you believe to be right. A network that fits all right labels and no wrong one is a
            little above it.
        patience: the number of readings that are waited for.
        min_epochs: it does not stop before this ``step``; by ζ, earlier readings do not count.
        min_rise: how far above its minimum ζ has risen, as a share of the minimum.
        column: the column to use, whatever else is recorded: one of the four ζ, or
            ``validation_accuracy``.
        noise_rate: the share of labels that are wrong; stands for a ``train_accuracy`` of one minus
            it.

    Attributes:
        keep: the ``step`` of the reading whose checkpoint is the one to keep, so far.
        stopped: whether training should stop. It never becomes false again.

    Raises:
        InputError: if an argument is out of its range, or ``column`` and ``noise_rate`` are given.

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
    patience: int = 5
    min_epochs: int = 5
    min_rise: float = 0.0
    column: str | None = None
    noise_rate: float | None = None
    keep: int | None = field(default=None, init=False)
    stopped: bool = field(default=False, init=False)
    _by: str | None = field(default=None, init=False, repr=False)
    _lowest: float = field(default=math.inf, init=False, repr=False)
    _waited: int = field(default=0, init=False, repr=False)
    _trained: float | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        check_number("train_accuracy", self.train_accuracy, least=0, most=1)
        check_integer("patience", self.patience, least=1)
        check_integer("min_epochs", self.min_epochs, least=0)
        check_number("min_rise", self.min_rise, least=0)
        if self.column is not None:
            check_choice("column", self.column, (*ZETAS, VALIDATION))
        if self.noise_rate is not None:
            if self.column is not None:
                raise InputError(
                    f"`noise_rate` ({self.noise_rate!r}) and `column` ({self.column!r}) exclude "
                    "each other. Pass one of them."
                )
            check_number("noise_rate", self.noise_rate, least=0, below=1)
            self.train_accuracy = 1 - self.noise_rate

    @property
    def reason(self) -> str | None:
        """Why training should stop, in a sentence; None as long as it should not."""
        if not self.stopped:
            return None
        if self._by == _NOISE_RATE:
            why = (
                f"training accuracy ({-self._lowest:.1%}) has reached the share of right labels "
                f"({self.train_accuracy:.1%})"
            )
        elif self._by == VALIDATION:
            why = (
                f"noisy validation accuracy has not been above its best ({-self._lowest:.1%} at "
                f"step {self.keep}) in {self._waited} readings since, with a higher training "
                "accuracy"
            )
        else:
            why = (
                f"ζ has been above its lowest value ({self._lowest:.4g} at step {self.keep}) in "
                f"{self._waited} readings since, with a training accuracy of "
                f"{self.train_accuracy:.0%} or more"
            )
        return f"{why}: keep step {self.keep}."

    def update(self, reading: Reading | None) -> bool:
        """Process the next reading, which may also come from a run on disk.

        Args:
            reading: what ``tracker.probe`` returned; ``None`` (not due) changes nothing.

        Returns:
            Whether training should stop.

        Raises:
            InputError: if it is not a reading, or lacks the column that the rule uses.
        """
        if reading is not None and not isinstance(reading, Reading):
            raise InputError(
                f"Expected `reading` to be what tracker.probe returned, got {reading!r}. Call "
                "rule.update(tracker.probe(train_accuracy=...))."
            )
        if reading is None or self.stopped:
            return self.stopped
        self._by, value, trained = broadcast_from_first(self._look_at(reading))
        if math.isnan(value):
            return False
        if value < self._lowest and not (self._by == _NOISE_RATE and self.keep is not None):
            self.keep, self._lowest, self._waited = reading.step, value, 0
            self._trained = trained
        elif self._has_worsened(value, trained):
            self._waited += 1
        is_over = self._waited >= self.patience or self._by == _NOISE_RATE
        self.stopped = is_over and reading.step >= self.min_epochs
        return self.stopped

    def replay(self, readings: Iterable[Reading]) -> tuple[int | None, int | None]:
        """Return the decisions of a new rule with these settings on the readings of a finished run.

        Args:
            readings: all readings of the run, such as ``rote.store.read_run(path).readings``.

        Returns:
            The step to keep (the last one, if none counted), and the step at which it stops
            (``None`` if it does not).

        Raises:
            InputError: if a reading lacks the column that the rule uses.
        """
        rule, step = replace(self), None
        for reading in readings:
            step = reading.step
            if rule.update(reading):
                return rule.keep, step
        return step if rule.keep is None else rule.keep, None

    def state_dict(self) -> dict[str, Any]:
        """Return the state of the rule, which consists of numbers."""
        lowest = None if math.isinf(self._lowest) else self._lowest
        return {
            "keep": self.keep,
            "lowest": lowest,
            "waited": self._waited,
            "stopped": self.stopped,
            "by": self._by,
            "trained": self._trained,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a state.

        Raises:
            StateError: if an entry is missing or unknown.
        """
        if set(state) - {"by", "trained"} != _STATE_KEYS:  # which older ones do not have
            raise StateError(
                f"Expected the state of a stop rule to have {sorted(_STATE_KEYS)}, got "
                f"{sorted(state)}."
            )
        self.keep, self.stopped, self._waited = state["keep"], state["stopped"], state["waited"]
        self._lowest = math.inf if state["lowest"] is None else state["lowest"]
        self._by, self._trained = state.get("by"), state.get("trained")

    def _has_worsened(self, value: float, trained: float | None) -> bool:
        if self._by != VALIDATION:
            return value > self._lowest + self.min_rise * abs(self._lowest)
        # A network that has not begun to learn does not improve either.
        return trained is None or self._trained is None or trained > self._trained

    def _look_at(self, reading: Reading) -> tuple[str, float, float | None]:
        """Return what the rule uses, how low that is (NaN: does not count), training accuracy."""
        by = self._by or self._choose(reading)
        if by == VALIDATION:
            if reading.validation_accuracy is None:
                raise InputError(
                    "The reading has no `validation_accuracy`. Pass `given_labels` to rote.track."
                )
            return by, -reading.validation_accuracy, reading.metrics.get("train_accuracy")
        accuracy = self._get_accuracy(reading)
        is_high = accuracy >= self.train_accuracy  # never, if it is NaN
        if by == _NOISE_RATE:
            return by, -accuracy if is_high else math.nan, accuracy
        zeta = getattr(reading, by)
        if zeta is None:
            raise InputError(
                f"The reading has no `{by}`: the policy measures no plain step. Choose another "
                "column."
            )
        counts = is_high and reading.step >= self.min_epochs
        return by, zeta if counts else math.nan, accuracy

    def _choose(self, reading: Reading) -> str:
        if self.noise_rate is not None:
            return _NOISE_RATE
        if self.column is not None:
            return self.column
        return "susceptibility" if reading.validation_accuracy is None else VALIDATION

    def _get_accuracy(self, reading: Reading) -> float:
        accuracy = reading.metrics.get("train_accuracy")
        if accuracy is None:
            raise InputError(
                "The reading has no `train_accuracy`. Pass it to the probe: "
                "tracker.probe(train_accuracy=...)."
            )
        if accuracy > 1:
            raise InputError(
                f"Expected `train_accuracy` to be a share from 0 to 1, got {accuracy:g}. Divide "
                "percent by 100."
            )
        return accuracy
