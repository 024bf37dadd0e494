"""The callback for Keras on torch: ζ in the logs, and stopping by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.messages import select_logged

try:
    import keras
except ImportError:
    require("keras", extra="keras")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(TrainerAdapter, keras.callbacks.Callback):
    """Probe the model after every epoch, or every n batches, and log the readings.

    Needs ``KERAS_BACKEND=torch``, and ``inputs``: Keras does not show its callbacks the data.
    ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop`` are in the logs of the epoch
    (with ``every=n``, the newest), and so in ``History``, and for callbacks that come after this
    one. The training accuracy is the model's own metric, ``accuracy`` by default. Objective and
    optimizer are those of ``compile``; a loss on one-hot labels gets one-hot random labels. A
    second ``fit`` continues the readings. Signals see no batches.

    Args:
        others: ``num_classes`` and the other options of ``TrainerAdapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, inputs=torch.randn(64, 20))
        >>> callback.keep is None
        True
    """

    train_accuracy: str | None = "accuracy"
    measure_accuracy: int = 0

    resume_option = "a second fit of the same model"

    def __post_init__(self) -> None:
        keras.callbacks.Callback.__init__(self)
        super().__post_init__()
        self._newest: dict[str, float] = {}
        if keras.backend.backend() != "torch":
            raise InputError(
                f"Keras uses the backend {keras.backend.backend()!r}, and rote needs torch. Set "
                "KERAS_BACKEND=torch before keras is imported."
            )

    def on_train_begin(self, logs: Any = None) -> None:
        network = self._network()
        model = network if isinstance(network, _Network) and network.model is self.model else None
        model = model or _Network(self.model)
        loss_fn = self.loss_fn or _Objective(self.model)
        optimizer: Any = _Stepper(self.model)
        self._probed = model  # held here, since the adapter holds it weakly
        self.begin_tracking(model, optimizer, self.get_earlier_state(model), loss_fn=loss_fn)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self.every != "epoch" and self._count_steps() % self.every == 0:
            self._probe(logs or {}, epoch=-1)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.every == "epoch":
            self._probe(logs or {}, epoch=epoch)
        if logs is not None:
            logs.update(self._newest)

    def on_train_end(self, logs: Any = None) -> None:
        self.close()
        self.conclude()

    def _count_steps(self) -> int:
        return int(self.model.optimizer.iterations)

    def _probe(self, logs: Mapping[str, Any], epoch: int) -> None:
        reading = self.take_reading(logs, epoch=epoch, global_step=self._count_steps())
        if reading is not None:
            self._newest = select_logged(reading)
        if self.should_stop(reading):
            self.model.stop_training = True


class _Network(nn.Module):
    """A Keras model that follows torch's train and eval mode."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, inputs: Any) -> Any:
        return self.model(inputs, training=self.training)


class _Objective(nn.Module):
    """The loss that the model was compiled with, for labels that are classes."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, output: Tensor, labels: Tensor) -> Tensor:
        name = getattr(self.model.loss, "name", self.model.loss)
        if name == "categorical_crossentropy":
            labels = nn.functional.one_hot(labels, output.shape[-1]).to(output.dtype)
        loss: Tensor = self.model.compute_loss(y=labels, y_pred=output, training=True)
        return loss


class _Stepper:
    """A Keras optimizer with the attributes of torch's."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.state = {"variables": [variable.value for variable in model.optimizer.variables]}

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """One group, with the current learning rate."""
        weights = [variable.value for variable in self._model.trainable_weights]
        return [{"params": weights, "lr": float(self._model.optimizer.learning_rate)}]

    def step(self) -> None:
        weights = self._model.trainable_weights
        with torch.no_grad():
            self._model.optimizer.apply([weight.value.grad for weight in weights], weights)
