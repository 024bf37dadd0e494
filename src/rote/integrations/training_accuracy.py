"""The training accuracy of a reading: logged by the trainer, or else measured."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from rote.errors import InputError, ProbeMemoryError, SkippedReadingWarning
from rote.integrations.messages import list_names, warn
from rote.integrations.training_batch import LabeledBatch
from rote.probe import average_over_ranks

DEFAULT_METRIC = "train_accuracy"
"""The name of the default metric."""

Draw = Callable[[int], LabeledBatch]
Measure = Callable[[Any, Tensor], float]


@dataclass
class TrainingAccuracy:
    """Find the accuracy of one training; warn once if it may not be the expected one.

    Attributes:
        name: The metric that is looked for; ``None`` for none.
        samples: On how many samples the accuracy is measured if none was logged; 0 for never.
        decides_once: Whether the first probe decides between both for the whole training.
        known: Training samples with labels to measure it on, once some were drawn.
        is_measured: What was decided; ``None`` before that.
        seen: The metrics that were logged before the last probe.
        lacked_memory: Whether the last measurement was skipped for lack of memory.
    """

    name: str | None
    samples: int
    decides_once: bool
    known: LabeledBatch | None = None
    is_measured: bool | None = None
    seen: Sequence[str] = ()
    lacked_memory: bool = False
    _stale: object = None
    _is_checked: bool = False

    def resume(self, is_measured: bool | None) -> None:
        """Restore the decision that was made before the training was interrupted."""
        self.is_measured, self._is_checked = is_measured, is_measured is not None

    def expire(self, metrics: Mapping[str, Any]) -> None:
        """Record that an epoch begins, so that earlier values of the metric no longer count."""
        self._stale = metrics.get(self.name or "")

    def find(
        self, metrics: Mapping[str, Any], draw: Draw, measure: Measure, *, late: bool
    ) -> dict[str, float]:
        """Return the mean over ranks, by its name; nothing if there is none.

        Args:
            metrics: What was logged, by name; ``None`` for what is too old to count.
            draw: Draws a batch of a number of training samples.
            measure: Measures the accuracy on inputs and labels.
            late: Whether the epoch has ended long since, so that its metrics are lost.
        """
        self.seen, self.lacked_memory = list(metrics), False
        value = metrics.get(self.name or "")
        logged = None if value is None or value is self._stale else float(value)
        found = None if self.is_measured else _average_over_ranks(logged)
        is_logged = found is not None
        may_measure = self.is_measured or (self.is_measured is None and not late)
        if found is None and self.samples and may_measure:
            found = _average_over_ranks(self._measure(draw, measure))
        is_measured = found is not None and not is_logged
        if not late and not self.lacked_memory:
            if not is_logged and not self._is_checked:
                self._is_checked = True
                self._warn(is_measured=is_measured)
            if self.decides_once and self.is_measured is None:
                self.is_measured = is_measured
        return {} if found is None else {"train_accuracy": found}

    def _measure(self, draw: Draw, measure: Measure) -> float | None:
        try:
            known = self.known = self.known or draw(self.samples)
            if known.given is not None and len(known.given) > self.samples:
                known = known.first(self.samples)  # some of S̃, which is larger
            return None if known.given is None else measure(known.inputs, known.given)
        except InputError:  # nothing to draw from, or no labels of one class per sample
            return None
        except ProbeMemoryError as error:
            self.lacked_memory = True
            message = f"{error} This reading has no training accuracy; training continues."
            warnings.warn(SkippedReadingWarning(message), stacklevel=6)
            return None

    def _warn(self, *, is_measured: bool) -> None:
        # A metric that was logged, but at another time, is no reason to warn.
        is_odd = self.name != DEFAULT_METRIC or (self.samples > 0 and not is_measured)
        if self.name is None or self.name in self.seen or not is_odd:
            return
        outcome = (
            f"It is measured instead, on at most {self.samples} training samples"
            if is_measured
            else "The readings have no training accuracy, which a stop rule and most rules of "
            "`rote select` need"
        )
        warn(
            f"The metric `{self.name}` was not logged before the first probe, only "
            f"{list_names(self.seen)}. {outcome}. Log it, name another with `train_accuracy=`, or "
            "pass None to look for none."
        )


def _average_over_ranks(value: float | None) -> float | None:
    """Return the mean over the ranks that know a value; all ranks call this."""
    total, count = average_over_ranks([0.0, 0.0] if value is None else [value, 1.0])
    return total / count if count else None
