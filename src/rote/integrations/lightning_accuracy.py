"""The training accuracy in a Lightning trainer: as the module logs it, or else measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

from torch import Tensor

from rote.errors import InputError
from rote.integrations.accuracy_warning import warn_of_accuracy
from rote.integrations.labelled_batch import LabelledBatch
from rote.integrations.lightning_training import as_in_training, training_samples
from rote.integrations.samples import LABEL_KEYS, inputs_in
from rote.probe import Inputs, mean_over_ranks

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer

    from rote.tracking import Tracker


class TrainingAccuracy:
    """Finds the training accuracy at every probe of one run.

    The first probe decides whether it is the module's or measured: of two kinds in one run, no two
    could be compared.

    Attributes:
        is_measured: what was decided; ``None`` as long as nothing was.

    Args:
        name: of the metric that the module logs; ``None``: none is looked for.
        samples: on how many samples of the training set it is measured instead; 0: never.
        inputs_of: takes a batch and returns what the network takes.
        seed: of the choice of samples.
    """

    def __init__(
        self,
        name: str | None,
        samples: int,
        inputs_of: Callable[[Any], Inputs] | None,
        *,
        seed: int,
    ) -> None:
        self.is_measured: bool | None = None
        self._name, self._samples = name, samples
        self._inputs_of, self._seed = inputs_of, seed
        self._earlier: Tensor | None = None
        self._known: LabelledBatch | None = None

    def start(self, is_measured: bool | None) -> None:
        """Begin a run, or go on with one.

        Args:
            is_measured: what was decided before.
        """
        self.is_measured, self._known, self._earlier = is_measured, None, None

    def remember(self, trainer: Trainer) -> None:
        """Note the value of the epoch before, which is not this epoch's."""
        self._earlier = trainer.callback_metrics.get(self._name or "")

    def find(
        self, trainer: Trainer, module: LightningModule, tracker: Tracker, *, late: bool = False
    ) -> dict[str, float]:
        """The training accuracy, the mean over ranks, by its name; nothing if there is none.

        Args:
            trainer: the trainer, at a probe.
            module: the module in training.
            tracker: predicts.
            late: whether the epoch has ended long since, so that what it logged is lost.
        """
        if self.is_measured:
            found = _mean(self._measured(trainer, module, tracker))
        else:
            found = _mean(self._logged(trainer))
        if self.is_measured is None and not late:
            self.is_measured = False
            if found is None:
                found = self._decided(trainer, module, tracker)
        return {} if found is None else {"train_accuracy": found}

    def refuse(self, trainer: Trainer, tracker: Tracker | None) -> None:
        """Refuse to stop by what is never known. After a resume, one epoch may lack it.

        Args:
            trainer: the trainer, after a probe.
            tracker: knows the readings so far.

        Raises:
            InputError: if no reading has a training accuracy.
        """
        readings = [] if tracker is None else tracker.readings
        if not any("train_accuracy" in reading.metrics for reading in readings):
            raise InputError(
                f"Expected the module to have logged `{self._name}` in this epoch before the "
                f"probe, which `stop` needs, got {sorted(trainer.callback_metrics)}. Log it in "
                "training_step with on_epoch=True, or name another with `train_accuracy=`. It "
                "is measured (`measure_accuracy=512`) only in batches of the form (inputs, labels)."
            )

    def _decided(self, trainer: Trainer, module: LightningModule, tracker: Tracker) -> float | None:
        found = _mean(self._measured(trainer, module, tracker)) if self._samples else None
        self.is_measured = found is not None
        if trainer.is_global_zero:
            logged, samples = sorted(trainer.callback_metrics), self._samples
            warn_of_accuracy(self._name, logged, samples=samples, is_measured=self.is_measured)
        return found

    def _logged(self, trainer: Trainer) -> float | None:
        found = trainer.callback_metrics.get(self._name or "")
        return None if found is None or found is self._earlier else float(found)

    def _measured(
        self, trainer: Trainer, module: LightningModule, tracker: Tracker
    ) -> float | None:
        try:
            if self._known is None:
                self._known = self._drawn(trainer, module)
            given = self._known.given
            with as_in_training(trainer, module):
                return None if given is None else tracker.accuracy(self._known.inputs, given)
        except InputError:  # nothing to draw from, or no labels of one class per sample
            return None

    def _drawn(self, trainer: Trainer, module: LightningModule) -> LabelledBatch:
        own = self._inputs_of or inputs_in

        def split(batch: Any) -> Any:  # noqa: ANN401
            return LabelledBatch(own(batch), _labels_in(batch))

        drawn: Any = training_samples(trainer, module, self._samples, split, seed=self._seed)
        return cast("LabelledBatch", drawn)


def _labels_in(batch: object) -> Tensor | None:
    """The labels of a batch where it is clear which they are."""
    found = []
    if isinstance(batch, Mapping):
        found = [value for key, value in batch.items() if key in LABEL_KEYS]
    elif isinstance(batch, tuple | list) and len(batch) == 2:
        found = [batch[1]]
    labels = found[0] if len(found) == 1 else None
    is_classes = isinstance(labels, Tensor) and not labels.is_floating_point()
    return labels if is_classes else None


def _mean(value: float | None) -> float | None:
    """The mean over the ranks that know one; all ranks call this."""
    total, count = mean_over_ranks([0.0, 0.0] if value is None else [value, 1.0])
    return total / count if count else None
