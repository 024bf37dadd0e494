"""ζ in PyTorch-Ignite: handlers that put it among the engine's metrics, and can stop by it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn
from torch.optim import Optimizer

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import Adapter
from rote.integrations.messages import logged_of

try:
    from ignite.engine import Engine, Events
except ImportError:
    require("ignite", extra="ignite")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(Adapter):
    """Probes the network after every epoch, or every n iterations, of the engine that trains it.

    ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop`` are put into
    ``engine.state.metrics``, where loggers and handlers of the same event find them, if they are
    attached later. The training accuracy is a metric of the engine by the name of
    ``train_accuracy``, attached before the callback, or else it is measured. Batches are pairs or
    mappings with labels, or ``inputs_of`` says what the inputs are. An engine does not know the
    objective: pass ``loss_fn``, unless it is cross entropy. ``every`` counts iterations.

    As an entry of ``Checkpoint(to_save=...)`` it is saved and loaded with the engine.

    Args:
        others: ``num_classes`` and what else all callbacks take, described in ``Adapter``.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10)
        >>> callback.keep is None
        True
    """

    _resumed_by = "Checkpoint.load_objects"

    def __post_init__(self) -> None:
        super().__post_init__()
        self._saved: Mapping[str, Any] | None = None

    def attach(self, engine: Engine, *, model: nn.Module, optimizer: Optimizer) -> None:
        """Watch a training.

        Args:
            engine: the engine that trains.
            model: the network that it trains.
            optimizer: the optimizer that it steps.
        """
        engine.add_event_handler(Events.STARTED, self._start, model, optimizer)
        engine.add_event_handler(Events.EPOCH_STARTED, self._leave)
        engine.add_event_handler(Events.ITERATION_STARTED, self._listen)
        engine.add_event_handler(Events.ITERATION_COMPLETED, self._see)
        due: Any = Events.EPOCH_COMPLETED
        if self.every != "epoch":
            due = Events.ITERATION_COMPLETED(every=self.every)
        engine.add_event_handler(due, self._probe)
        engine.add_event_handler(Events.COMPLETED, self._finish)

    def state_dict(self) -> dict[str, Any]:
        return self._state()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self._saved = state_dict  # until training starts

    def _start(self, engine: Engine, model: nn.Module, optimizer: Optimizer) -> None:
        saved = self._state_for(model)
        self._loader = engine.state.dataloader
        self._begin(model, optimizer, self._saved or saved)
        self._saved = None

    def _leave(self, engine: Engine) -> None:
        self._accuracy.leave(engine.state.metrics)

    def _see(self, engine: Engine) -> None:
        self._watching.show(engine.state.batch)

    def _probe(self, engine: Engine) -> None:
        state = engine.state
        reading = self._read(state.metrics, epoch=state.epoch, global_step=state.iteration)
        state.metrics.update(logged_of(reading))
        if self._should_stop(reading):
            engine.terminate()

    def _finish(self) -> None:
        self._close()
        self._conclude()

    def _training_set(self) -> tuple[Any, Callable[[list[Any]], Any]]:
        if getattr(self._loader, "batch_sampler", None) is None:
            raise InputError(
                "Expected the engine to run over a DataLoader, to draw S̃ from its dataset, got "
                f"{type(self._loader).__name__}. Pass `inputs=`, a batch of unlabeled samples."
            )
        return super()._training_set()
