"""ζ in skorch: one callback that writes it into the history, and can stop by it."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any

from torch import Tensor, nn

from rote.extras import require
from rote.integrations.adapter import Adapter
from rote.integrations.messages import logged_of
from rote.integrations.training_signals import TrainingSignals

try:
    from skorch.callbacks import Callback
except ImportError:
    require("skorch", extra="skorch")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(Adapter, Callback):
    """Probes ``net.module_`` after every epoch, or every n batches, and records what it finds.

    ``susceptibility`` (ζ), ``susceptibility_plain``, ``probe/drop`` and ``train_accuracy`` are in
    ``net.history`` (with ``every=n``, the newest of the epoch), and so in the printed table. The
    objective is ``net.get_loss``, which knows whether the module returns logits or probabilities.
    The training accuracy is the column ``train_accuracy`` of the history if there is one (of an
    ``EpochScoring`` before this callback), or else it is measured. ``num_classes`` is the number
    of ``net.classes_`` by default. ``partial_fit`` goes on; ``fit`` begins anew.

    Args:
        others: what all callbacks take, described in ``Adapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10)
        >>> callback.keep is None
        True
    """

    _resumed_by = "partial_fit"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._batches = 0

    def on_train_begin(self, net: Any, *_: Any, **__: Any) -> None:
        self._loader = None  # the training set comes with the first epoch

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, *_: Any, **__: Any) -> None:
        if self._loader is not None:
            return
        saved = self._state_for(net.module_)
        self._loader = net.get_iterator(dataset_train, training=True)
        classes = self.num_classes or len(getattr(net, "classes_", ())) or None
        loss_fn = self.loss_fn or _Objective(net)
        self._begin(net.module_, net.optimizer_, saved, num_classes=classes, loss_fn=loss_fn)
        self._batches = self._batches if saved else 0

    def on_batch_begin(self, net: Any, *_: Any, training: bool = False, **__: Any) -> None:
        if training:
            self._listen()

    def on_batch_end(
        self, net: Any, batch: Any = None, training: bool | None = None, **step: Any
    ) -> None:
        if not training:
            return
        self._watching.show(batch, loss=step.get("loss"))
        self._batches += 1
        if self.every != "epoch" and self._batches % self.every == 0:
            self._probe(net)

    def on_epoch_end(self, net: Any, *_: Any, **__: Any) -> None:
        if self.every == "epoch":
            self._probe(net)

    def on_train_end(self, net: Any, *_: Any, **__: Any) -> None:
        self._close()
        self._conclude()

    def _probe(self, net: Any) -> None:
        row = net.history[-1]
        reading = self._read(row, epoch=row["epoch"], global_step=self._batches)
        if reading is None:
            return
        for name, value in {**reading.metrics, **logged_of(reading)}.items():
            if name not in ("epoch", "global_step"):
                net.history.record(name, value)
        # The next probe of this epoch must not take what was measured here for the net's own.
        self._accuracy.leave(net.history[-1])
        if self._should_stop(reading):
            raise KeyboardInterrupt  # so does skorch's own EarlyStopping

    def _get_param_names(self) -> list[str]:
        return [entry.name for entry in fields(self) if entry.init]

    def __getstate__(self) -> dict[str, Any]:
        """Return what a pickled net remembers, without the tracker, which holds the network."""
        own = {"tracker": None, "_watching": TrainingSignals(), "_loader": None, "_accuracy": None}
        return {**vars(self), **own, "_network": _nothing}


class _Objective(nn.Module):
    """The net's own, of which a probe sees the criterion, but not the net with all it holds."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.criterion = net.criterion_
        self._net: Callable[[], Any] = weakref.ref(net)

    def forward(self, output: Any, labels: Tensor) -> Tensor:
        if isinstance(self.criterion, nn.BCEWithLogitsLoss | nn.BCELoss):
            labels = labels.to(output.dtype).reshape(output.shape)
        loss: Tensor = self._net().get_loss(output, labels, training=True)
        return loss


def _nothing() -> None:
    return None
