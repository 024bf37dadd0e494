"""The callback for PyTorch-Ignite: ζ among the engine's metrics, and stopping by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.holdout import SampleSet
from rote.integrations.messages import select_logged

try:
    from ignite.engine import Engine, Events
except ImportError:
    require("ignite", extra="ignite")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(TrainerAdapter):
    """Probe the network after every epoch, or every n iterations, of the engine that trains it.

    ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop`` are put into
    ``engine.state.metrics``, where loggers and handlers of the same event find them, if they are
    attached later. The training accuracy is a metric of the engine by the name of
    ``train_accuracy``, attached before the callback, or else it is measured. Batches are pairs or
    mappings with labels, or ``inputs_of`` says what the inputs are. An engine knows neither the
    objective nor the validation data: pass ``loss_fn`` unless it is cross entropy, and ``inputs``
    with ``given_labels`` for a holdout. ``every`` counts iterations.

    As an entry of ``Checkpoint(to_save=...)`` it is saved and loaded with the engine.

    Args:
        others: ``num_classes`` and the other options of ``TrainerAdapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10)
        >>> callback.keep is None
        True
    """

    resume_option = "Checkpoint.load_objects"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._saved: Mapping[str, Any] | None = None

    def attach(self, engine: Engine, *, model: nn.Module, optimizer: Optimizer) -> None:
        """Attach the handlers to an engine.

        Args:
            engine: The engine that trains.
            model: The network that it trains.
            optimizer: The optimizer that it steps.
        """
        engine.add_event_handler(Events.STARTED, self._start, model, optimizer)
        engine.add_event_handler(Events.EPOCH_STARTED, self._start_epoch)
        engine.add_event_handler(Events.ITERATION_STARTED, self.listen)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self._end_iteration)
        due: Any = Events.EPOCH_COMPLETED
        if self.every != "epoch":
            due = Events.ITERATION_COMPLETED(every=self.every)
        engine.add_event_handler(due, self._probe)
        engine.add_event_handler(Events.COMPLETED, self._finish)

    def state_dict(self) -> dict[str, Any]:
        return self.adapter_state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._saved = state_dict  # until training starts

    def _start(self, engine: Engine, model: nn.Module, optimizer: Optimizer) -> None:
        saved = self.get_earlier_state(model)
        self.loader = engine.state.dataloader
        self.begin_tracking(model, optimizer, self._saved or saved)
        self._saved = None

    def _start_epoch(self, engine: Engine) -> None:
        self.accuracy.expire(engine.state.metrics)

    def _end_iteration(self, engine: Engine) -> None:
        self.show_batch(engine.state.batch)

    def _probe(self, engine: Engine) -> None:
        state = engine.state
        reading = self.take_reading(state.metrics, epoch=state.epoch, global_step=state.iteration)
        state.metrics.update(select_logged(reading))
        if self.should_stop(reading):
            engine.terminate()

    def _finish(self) -> None:
        self.close()
        self.conclude()

    def training_set(self) -> SampleSet:
        if getattr(self.loader, "batch_sampler", None) is None:
            raise InputError(
                "The callback draws samples from the dataset of a DataLoader, but the engine "
                f"runs over a {type(self.loader).__name__}. Pass `inputs=`, a batch of unlabeled "
                "samples."
            )
        return super().training_set()
