"""The training accuracy of a reading: what the trainer logged, or else measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rote.errors import InputError
from rote.integrations.messages import listed, warn
from rote.integrations.training_batch import LabeledBatch
from rote.probe import mean_over_ranks

DEFAULT_METRIC = "train_accuracy"
"""The name that is looked for if nobody named one."""

Draw = Callable[[int], LabeledBatch]
Measure = Callable[[Any, Tensor], float]


@dataclass
class TrainingAccuracy:
    """Finds the accuracy of one training, and says once if it is not what the user may think.

    Attributes:
        name: the metric that is looked for; ``None``: none is.
        samples: on how many samples it is measured where none is found; 0: on none.
        decides_once: whether the first probe decides for the whole training which of both it is.
        known: training samples with labels to measure it on, once some were drawn.
        is_measured: what was decided, if anything was.
        seen: the metrics that there were at the last probe.
    """

    name: str | None
    samples: int
    decides_once: bool
    known: LabeledBatch | None = None
    is_measured: bool | None = None
    seen: Sequence[str] = ()
    _stale: object = None
    _is_checked: bool = False

    def go_on(self, is_measured: bool | None) -> None:
        """Take over what was decided before the training was interrupted."""
        self.is_measured, self._is_checked = is_measured, is_measured is not None

    def leave(self, metrics: Mapping[str, Any]) -> None:
        """Mark the start of an epoch: the present value is that of the epoch before."""
        self._stale = metrics.get(self.name or "")

    def find(
        self, metrics: Mapping[str, Any], draw: Draw, measure: Measure, *, late: bool
    ) -> dict[str, float]:
        """Return the mean over ranks, by its name; nothing if there is none.

        Args:
            metrics: what was logged, by name; ``None`` for what is too old to count.
            draw: makes a batch of so many training samples.
            measure: the accuracy on inputs and labels.
            late: whether the epoch has ended long since, so that what it logged is lost.
        """
        self.seen = list(metrics)
        value = metrics.get(self.name or "")
        logged = None if value is None or value is self._stale else float(value)
        found = None if self.is_measured else _mean(logged)
        is_logged = found is not None
        may_measure = self.is_measured or (self.is_measured is None and not late)
        if found is None and self.samples and may_measure:
            found = _mean(self._measured(draw, measure))
        is_measured = found is not None and not is_logged
        if not late:
            if not is_logged and not self._is_checked:
                self._is_checked = True
                self._warn(is_measured=is_measured)
            if self.decides_once and self.is_measured is None:
                self.is_measured = is_measured
        return {} if found is None else {"train_accuracy": found}

    def _measured(self, draw: Draw, measure: Measure) -> float | None:
        try:
            known = self.known = self.known or draw(self.samples)
            if known.given is not None and len(known.given) > self.samples:
                known = known.first(self.samples)  # some of S̃, which is larger
            return None if known.given is None else measure(known.inputs, known.given)
        except InputError:  # nothing to draw from, or no labels of one class per sample
            return None

    def _warn(self, *, is_measured: bool) -> None:
        """Nothing is said of a metric that was logged, but at another time."""
        is_odd = self.name != DEFAULT_METRIC or (self.samples > 0 and not is_measured)
        if self.name is None or self.name in self.seen or not is_odd:
            return
        outcome = (
            f"It is measured instead, on {self.samples} training samples or fewer"
            if is_measured
            else "The readings have no training accuracy, which a stop rule and most rules of "
            "`rote select` need"
        )
        warn(
            f"Expected the metric `{self.name}` to be logged before the first probe, got "
            f"{listed(self.seen)}. {outcome}. Log it, name another with `train_accuracy=`, or pass "
            "None to look for none."
        )


def _mean(value: float | None) -> float | None:
    """Return the mean over the ranks that know one; all ranks call this."""
    total, count = mean_over_ranks([0.0, 0.0] if value is None else [value, 1.0])
    return total / count if count else None
