"""The callback for skorch: ζ in the history, and stopping by it."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.holdout import SampleSet
from rote.integrations.messages import select_logged
from rote.integrations.training_signals import TrainingSignals

try:
    from skorch.callbacks import Callback
except ImportError:
    require("skorch", extra="skorch")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(TrainerAdapter, Callback):
    """Probe ``net.module_`` after every epoch, or every n batches, and record the readings.

    ``susceptibility`` (ζ), ``susceptibility_plain``, ``probe/drop`` and ``train_accuracy`` are in
    ``net.history`` (with ``every=n``, the newest of the epoch), and so in the printed table. The
    objective is ``net.get_loss``, which knows whether the module returns logits or probabilities.
    The training accuracy is the column ``train_accuracy`` of the history if there is one (of an
    ``EpochScoring`` before this callback), or else it is measured. ``num_classes`` is the number
    of ``net.classes_`` by default. The holdout is of the net's validation data (``train_split``).
    ``partial_fit`` continues the readings; ``fit`` starts over.

    Args:
        others: The options of ``TrainerAdapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10)
        >>> callback.keep is None
        True
    """

    resume_option = "partial_fit"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches = 0
        self._valid: Any = None

    def on_train_begin(self, net: Any, *_: Any, **__: Any) -> None:
        self.loader = None  # the training set comes with the first epoch

    def on_epoch_begin(
        self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **_: Any
    ) -> None:
        if self.loader is not None:
            return
        saved = self.get_earlier_state(net.module_)
        self.loader = net.get_iterator(dataset_train, training=True)
        self._valid = dataset_valid
        classes = self.num_classes or len(getattr(net, "classes_", ())) or None
        options = {"num_classes": classes, "loss_fn": self.loss_fn or _Objective(net)}
        self.begin_tracking(net.module_, net.optimizer_, saved, **options)
        self._batches = self._batches if saved else 0

    def on_batch_begin(self, net: Any, *_: Any, training: bool = False, **__: Any) -> None:
        if training:
            self.listen()

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool | None = None, **step: Any
    ) -> None:
        if not training:
            return
        self.show_batch(batch, loss=step.get("loss"))
        self._batches += 1
        if self.every != "epoch" and self._batches % self.every == 0:
            self._probe(net)

    def on_epoch_end(self, net: Any, *_: Any, **__: Any) -> None:
        if self.every == "epoch":
            self._probe(net)

    def on_train_end(self, net: Any, *_: Any, **__: Any) -> None:
        self.close()
        self._valid = None
        self.conclude()

    def _probe(self, net: Any) -> None:
        row = net.history[-1]
        reading = self.take_reading(row, epoch=row["epoch"], global_step=self._batches)
        if reading is None:
            return
        for name, value in {**reading.metrics, **select_logged(reading)}.items():
            if name not in ("epoch", "global_step"):
                net.history.record(name, value)
        # The next probe of this epoch must not mistake the measured accuracy for the net's own.
        self.accuracy.expire(net.history[-1])
        if self.should_stop(reading):
            raise KeyboardInterrupt  # so does skorch's own EarlyStopping

    def validation_set(self) -> SampleSet | None:
        if self._valid is None:
            return None
        return SampleSet(self._valid, self.loader.collate_fn)

    def _get_param_names(self) -> list[str]:
        return [entry.name for entry in fields(self) if entry.init]

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle, without the tracker, which holds the network."""
        own = {"tracker": None, "watching": TrainingSignals(), "accuracy": None}
        data = {"loader": None, "_valid": None}
        return {**vars(self), **own, **data, "_network": _do_nothing}


class _Objective(nn.Module):
    """The net's objective; the probe sees the criterion, but not the whole net."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.criterion = net.criterion_
        self._net: Callable[[], Any] = weakref.ref(net)

    def forward(self, output: Any, labels: Tensor) -> Tensor:
        if isinstance(self.criterion, nn.BCEWithLogitsLoss | nn.BCELoss):
            labels = labels.to(output.dtype).reshape(output.shape)
        loss: Tensor = self._net().get_loss(output, labels, training=True)
        return loss


def _do_nothing() -> None:
    return None
