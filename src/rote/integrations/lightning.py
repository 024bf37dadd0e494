"""ζ in a Lightning trainer: one callback that logs it, and can stop by it."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import Adapter, logged_of
from rote.integrations.forward_calls import ForwardCalls, call_on
from rote.integrations.lightning_trainer import (
    as_in_training,
    choose_optimizer,
    draw_samples,
    find_checkpoint,
    has_missed_an_epoch,
    log_late,
    naming_options,
)
from rote.integrations.training_batch import LabelledBatch, indices_in, labels_in
from rote.probe import Inputs
from rote.records import Reading
from rote.tracking import Tracker

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
    from lightning.pytorch.utilities import rank_zero_info
except ImportError:
    require("lightning", extra="lightning")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(Adapter, Callback):
    """Probes the network at the end of every epoch, or every n steps, and logs what it finds.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop``, through the
    module's own ``log``. ``every=n`` goes by ``trainer.global_step``, which counts the steps of all
    optimizers. A training accuracy counts if it was logged in this epoch; the first probe decides
    for the whole run whether it is the module's or measured, for which batches must be pairs of
    inputs and labels, or mappings with labels. ``loss_fn`` is cross entropy by default. Signals
    see labels where they are so found, and the logits that ``training_step`` returns as
    ``"logits"``, or else those of the network's own call on the batch.

    Args:
        inputs_of: takes a batch of the loader and returns what the network takes. By default the
            first entry of a tuple, or a mapping without its labels.
        model: the name of the submodule to probe; by default the module itself, by its
            ``forward``.
        optimizer: which optimizer trains it, where there are several: its index, the name of its
            class, or the name of a submodule whose parameters it holds.
        keep_to: where to save the checkpoint that ``stop`` would keep, whenever it changes.
        others: ``num_classes`` and what else all callbacks take, described in ``Adapter``.

    Attributes:
        keep_path: the checkpoint to keep, once training has ended: ``keep_to``, or the one that
            a ``ModelCheckpoint`` saved with these weights, if any did.

    Raises:
        InputError: if ``every``, ``samples`` or ``stop`` does not fit, or ``keep_to`` comes without
            ``stop``. The rest is checked when training starts.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    inputs_of: Callable[[Any], Inputs] | None = None
    model: str | None = None
    optimizer: int | str | None = None
    keep_to: str | Path | None = None

    _decides_once, _resumed_by = True, "ckpt_path="

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_to is not None and self.stop is None:
            raise InputError("Expected `stop` to say which checkpoint to keep, got None.")
        self.keep_path: str | None = None
        self._fit: tuple[Trainer, LightningModule] | None = None
        self._saved: Mapping[str, Any] | None = None
        self._earlier_accuracy: Tensor | None = None
        self._steps_seen, self._calls = 0, ForwardCalls()

    def setup(self, trainer: Trainer, _: LightningModule, stage: str) -> None:
        """Refuse what cannot be probed, before anything is built."""
        if stage != "fit":
            return
        if isinstance(trainer.strategy, DeepSpeedStrategy | FSDPStrategy):
            raise InputError(
                "Expected a strategy whose modules can be stepped one by one (single device, DDP, "
                f"ModelParallelStrategy with fully_shard), got {type(trainer.strategy).__name__}."
            )
        # A second `fit` of the same trainer goes on; a checkpoint, if given, is loaded after this.
        if trainer.global_step == 0:
            self.tracker = None
        self._saved = self.state_dict() or None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Build the tracker, now that model, optimizer and checkpoint are in place."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning outside of __init__
            return
        self._forget()
        self._fit, self._earlier_accuracy = (trainer, pl_module), None
        saved, self._saved, self.keep_path = self._saved, None, None
        self._steps_seen = trainer.global_step
        model, inputs = self._probed(pl_module), self._own_inputs(trainer)
        optimizer = choose_optimizer(
            trainer.optimizers, self.optimizer, model=model, owner=pl_module
        )
        with naming_options(inputs_of=self.inputs is None):
            tracker = self._begin(model, optimizer, saved, inputs=inputs)
        missed = self.every == "epoch" and has_missed_an_epoch(trainer, tracker.readings)
        if saved is not None and missed:
            # Without its logged accuracy, which Lightning does not save, no stop rule can judge it.
            log_late(trainer, self._read(trainer, tracker, late=True), trainer.current_epoch - 1)

    def on_train_epoch_start(self, trainer: Trainer, *_: object) -> None:
        """Note the accuracy of the epoch before, which is not this epoch's."""
        self._earlier_accuracy = trainer.callback_metrics.get(self.train_accuracy or "")

    def on_train_batch_start(self, _: Trainer, pl_module: LightningModule, *__: object) -> None:
        """Write down what the network says in this step, if a signal looks at it."""
        if self._observers:
            self._calls.listen(self._probed(pl_module))

    def on_train_batch_end(
        self,
        trainer: Trainer,
        pl_module: LightningModule,
        outputs: Any,  # noqa: ANN401
        batch: Any,  # noqa: ANN401
        *_: object,
    ) -> None:
        """Show the batch to the signals, and probe if n more steps were taken."""
        if self._observers:
            self._show(trainer, outputs if isinstance(outputs, Mapping) else {}, batch)
        if self.every == "epoch":
            return
        seen, self._steps_seen = self._steps_seen, trainer.global_step
        if self._steps_seen // self.every > seen // self.every:
            self._probe(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Probe if epochs are the unit."""
        if self.every == "epoch":
            self._probe(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        """Find the checkpoint to keep, or say why there is none."""
        self._warn_of_uncounted()
        if self.tracker is None or self.keep is None:
            return
        path = str(self.keep_to) if self.keep_to else None
        if path is None and trainer.is_global_zero:
            folders = [getattr(saver, "dirpath", None) for saver in trainer.checkpoint_callbacks]
            path = find_checkpoint(
                [folder for folder in folders if folder],
                self.tracker.readings,
                self.keep,
                state_key=self.state_key,
            )
        self.keep_path = trainer.strategy.broadcast(path)

    def on_exception(self, *_: object) -> None:
        """Let the run's directory go."""
        self.teardown()

    def teardown(self, *_: object, **__: object) -> None:
        """Let the run's directory go."""
        self._close()
        self._calls.take()
        self._fit = None

    def state_dict(self) -> dict[str, Any]:
        """What the next readings and the stop depend on: numbers, strings and tensors only."""
        return {} if self.tracker is None else self._state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep a state until training starts."""
        self._saved = state_dict

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.tracker is None:
            return
        reading = self._read(trainer, self.tracker)
        for name, value in logged_of(reading).items():
            pl_module.log(name, value, batch_size=1, sync_dist=True)
        if reading is None:
            return
        if self._should_stop(reading, sorted(trainer.callback_metrics)):
            trainer.should_stop = True
        if self.keep_to is not None and self.keep == reading.step:
            trainer.save_checkpoint(self.keep_to)

    def _read(self, trainer: Trainer, tracker: Tracker, *, late: bool = False) -> Reading | None:
        value = trainer.callback_metrics.get(self.train_accuracy or "")
        logged = None if value is None or value is self._earlier_accuracy else float(value)
        accuracy = self._accuracy(logged, sorted(trainer.callback_metrics), late=late)
        epoch = trainer.current_epoch - late
        with self._as_in_training():
            return tracker.probe(epoch=epoch, global_step=trainer.global_step, **accuracy)

    def _show(self, trainer: Trainer, outputs: Mapping[str, Any], batch: object) -> None:
        labels, calls = labels_in(batch), self._calls.take()
        call = None if labels is None else call_on(batch, calls, len(labels))
        logits, loss = outputs.get("logits"), outputs.get("loss")
        if logits is None and call is not None:
            logits = call.logits
        if loss is not None:  # divided by this, unless optimization is manual and this is 1
            loss = loss * trainer.accumulate_grad_batches
        inputs = None if call is None else call.inputs
        self._observe(labels, logits, inputs=inputs, indices=indices_in(batch), loss=loss)

    def _tell(self, message: str) -> None:
        rank_zero_info(message)

    def _draw(self, samples: int) -> LabelledBatch:
        assert self._fit is not None
        return draw_samples(*self._fit, samples, self.inputs_of, seed=self.seed)

    def _as_in_training(self) -> AbstractContextManager[None]:
        assert self._fit is not None
        return as_in_training(*self._fit)

    def _probed(self, pl_module: LightningModule) -> nn.Module:
        try:
            return pl_module.get_submodule(self.model or "")
        except AttributeError as error:
            raise InputError(
                f"Expected `model` to name a submodule of {type(pl_module).__name__}, got "
                f"{self.model!r}: {error}."
            ) from error

    def _own_inputs(self, trainer: Trainer) -> Any:  # noqa: ANN401
        inputs, convert = self.inputs, trainer.precision_plugin.convert_input
        if inputs is None:
            return self._draw(self.samples).inputs
        return (lambda: convert(inputs())) if callable(inputs) else convert(inputs)
