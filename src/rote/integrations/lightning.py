"""ζ in a Lightning trainer: one callback that logs it, and can stop by it."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rote.errors import InputError
from rote.extras import require
from rote.integrations.adapter import Adapter
from rote.integrations.lightning_trainer import Fit, naming_options
from rote.integrations.messages import logged_of
from rote.records import Reading

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
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
    ``"logits"``, or else those of the network's own call on the batch. ``num_classes`` and what
    else all callbacks take is described in ``Adapter``.

    Args:
        model: the name of the submodule to probe; by default the module, by its ``forward``.
        optimizer: which optimizer trains it, where there are several: its index, the name of its
            class, or the name of a submodule whose parameters it holds; or a list of those that
            are stepped together.
        keep_to: where to save the checkpoint that ``stop``, which must be given, would keep,
            whenever it changes.

    Attributes:
        keep_path: the checkpoint to keep, once training has ended: ``keep_to``, or the one that
            a ``ModelCheckpoint`` saved with these weights, if any did.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    model: str | None = None
    optimizer: int | str | list[int | str] | None = None
    keep_to: str | Path | None = None

    _decides_once, _resumed_by = True, "ckpt_path="

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_to is not None and self.stop is None:
            raise InputError("Expected `stop` to say which checkpoint to keep, got None.")
        self.keep_path: str | None = None
        self._fit: Any = None
        self._saved: Mapping[str, Any] | None = None
        self._steps_seen = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        Fit(trainer, pl_module).check_strategy()
        # A second `fit` of the same trainer goes on; a checkpoint, if given, is loaded after this.
        if trainer.global_step == 0:
            self.tracker = None
        self._saved = self.state_dict() or None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning outside of __init__
            return
        self._forget()
        fit = self._fit = Fit(trainer, pl_module)
        saved, self._saved, self.keep_path = self._saved, None, None
        self._steps_seen = trainer.global_step
        model = fit.part(self.model)
        optimizers = fit.optimizers(self.optimizer, model)
        with naming_options(inputs_of=self.inputs is None):
            readings = self._begin(model, optimizers, saved).readings
        if saved is not None and self.every == "epoch" and fit.has_missed_an_epoch(readings):
            # Without its logged accuracy, which Lightning does not save, no stop rule can judge it.
            fit.log_late(self._take(trainer, late=True))

    def on_train_epoch_start(self, trainer: Trainer, *_: object) -> None:
        self._accuracy.leave(trainer.callback_metrics)

    def on_train_batch_start(self, *_: object) -> None:
        self._listen()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: object
    ) -> None:
        if self._watching:
            said = outputs if isinstance(outputs, Mapping) else {}
            loss = said.get("loss")
            if loss is not None:  # divided by this, unless optimization is manual and this is 1
                loss = loss * trainer.accumulate_grad_batches
            self._watching.show(batch, said.get("logits"), loss)
        seen, self._steps_seen = self._steps_seen, trainer.global_step
        if self.every != "epoch" and self._steps_seen // self.every > seen // self.every:
            self._probe(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.every == "epoch":
            self._probe(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        self._conclude()
        if self.keep is not None:
            path = self._checkpoints().get(self.keep) if trainer.is_global_zero else None
            self.keep_path = trainer.strategy.broadcast(path)

    def on_exception(self, *_: object) -> None:
        self.teardown()

    def teardown(self, *_: object, **__: object) -> None:
        self._close()
        self._fit = None

    def state_dict(self) -> dict[str, Any]:
        return {} if self.tracker is None else self._state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict  # until training starts

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        reading = self._take(trainer)
        for name, value in logged_of(reading).items():
            pl_module.log(name, value, batch_size=1, sync_dist=True)
        if self._should_stop(reading):
            trainer.should_stop = True
        if self.keep_to is not None and self._is_kept(reading):
            trainer.save_checkpoint(self.keep_to)

    def _take(self, trainer: Trainer, *, late: bool = False) -> Reading | None:
        metrics = dict(sorted(trainer.callback_metrics.items()))
        now = {"epoch": trainer.current_epoch - late, "global_step": trainer.global_step}
        return self._read(metrics, late=late, **now)

    def _tell(self, message: str) -> None:
        rank_zero_info(message)

    def _training_set(self) -> Any:
        return self._fit.training_set()

    def _as_in_training(self) -> Any:
        return self._fit.as_in_training()

    def _checkpoints(self) -> dict[int, str]:
        saved: dict[int, str] = self._fit.checkpoints(self._readings(), self.state_key)
        kept = {} if self.keep_to is None or self.keep is None else {self.keep: str(self.keep_to)}
        return saved | kept

    def _sampled(self) -> dict[str, Any]:
        if self.inputs is None:
            return super()._sampled()
        return {"inputs": self._fit.converted(self.inputs)}
