"""ζ in a Lightning trainer: one callback that logs it, and can stop by it."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

from torch import Tensor, nn

from rote.errors import InputError
from rote.extras import require
from rote.integrations.arguments import check_arguments
from rote.integrations.earlier_run import holds_a_run, resumed_by
from rote.integrations.kept_checkpoint import find_checkpoint
from rote.integrations.lightning_accuracy import TrainingAccuracy
from rote.integrations.lightning_training import (
    as_in_training,
    has_missed_an_epoch,
    log_late,
    naming_options,
    training_samples,
)
from rote.integrations.logged import logged_of
from rote.integrations.optimizer_choice import choose_optimizer
from rote.integrations.uncounted import warn_of_uncounted
from rote.labels import LabelSampler
from rote.probe import Inputs, LossFunction, ProbePolicy
from rote.records import Reading
from rote.store import SaveTo
from rote.tracking import StopRule, Tracker, track

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy
    from lightning.pytorch.utilities import rank_zero_info
except ImportError:
    require("lightning", extra="lightning")
    raise


class SusceptibilityCallback(Callback):
    """Probes the network at the end of every epoch, or every n steps, and logs what it finds.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop``, through the
    module's own ``log``. Training is bit-identical with and without the callback. Its state is part
    of Lightning's checkpoints.

    Args:
        num_classes: how many classes the network tells apart.
        inputs: unlabelled samples, as the network takes them (``rote.track``). By default
            ``samples`` of the training set, as its loader makes batches, drawn without the loader.
        every: ``"epoch"``, or n: whenever ``trainer.global_step``, which counts the steps of all
            optimizers, passes a multiple of n.
        train_accuracy: the name under which the module logs its training accuracy; the mean over
            ranks is recorded with each reading if it was logged in this epoch. ``None``: none is
            looked for.
        measure_accuracy: where none was logged before the first probe, the training accuracy is
            measured on so many samples of the training set, in eval mode, leaving no trace, if
            batches are pairs of inputs and labels, or mappings with labels; 0: never. A warning
            says so if a metric was named, or there is no accuracy.
        stop: when to stop. Needs the training accuracy.
        loss_fn: the training objective, called with the network's output and labels; cross entropy
            by default.
        labels: other random labels than uniform ones (``rote.labels``).
        given_labels: the given labels of ``inputs``, for ``validation_accuracy``.
        policy: how to probe; the paper's Algorithm 1 by default.
        seed: of the random labels, and of the choice of samples.
        name: the name of the run.
        save_to: where the run is recorded (``rote.track``); only the first rank writes. A run that
            Lightning resumes goes on with its directory, or with the logger's run of its name.
        samples: how many samples of the training set make S̃ when there are no ``inputs``.
        inputs_of: takes a batch of the loader and returns what the network takes. By default the
            first entry of a tuple, or a mapping without its labels.
        model: the name of the submodule to probe; by default the module itself, by its
            ``forward``.
        optimizer: which optimizer trains it, where there are several: its index, the name of its
            class, or the name of a submodule whose parameters it holds.
        keep_to: where to save the checkpoint that ``stop`` would keep, whenever it changes.

    Attributes:
        tracker: the tracker of the current or last ``fit``; its ``readings`` also know ``epoch``
            and ``global_step``.
        stop: the stop rule.
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

    def __init__(
        self,
        *,
        num_classes: int,
        inputs: Inputs | Callable[[], Inputs] | None = None,
        every: Literal["epoch"] | int = "epoch",
        train_accuracy: str | None = "train_accuracy",
        measure_accuracy: int = 512,
        stop: StopRule | None = None,
        loss_fn: LossFunction | None = None,
        labels: Tensor | LabelSampler | None = None,
        given_labels: Tensor | None = None,
        policy: ProbePolicy | None = None,
        seed: int = 0,
        name: str | None = None,
        save_to: SaveTo = None,
        samples: int = 128,
        inputs_of: Callable[[Any], Inputs] | None = None,
        model: str | None = None,
        optimizer: int | str | None = None,
        keep_to: str | Path | None = None,
    ) -> None:
        check_arguments(every=every, samples=samples, stop=stop)
        if keep_to is not None and stop is None:
            raise InputError("Expected `stop` to say which checkpoint to keep, got None.")
        self.tracker: Tracker | None = None
        self.stop = stop
        self.keep_path: str | None = None
        self._every = every
        self._train_accuracy = TrainingAccuracy(
            train_accuracy, measure_accuracy, inputs_of, seed=seed
        )
        self._inputs, self._samples, self._inputs_of = inputs, samples, inputs_of
        self._model, self._optimizer = model, optimizer
        self._save_to, self._keep_to = save_to, keep_to
        self._options: dict[str, Any] = {
            "num_classes": num_classes,
            "loss_fn": loss_fn,
            "labels": labels,
            "given_labels": given_labels,
            "policy": policy,
            "seed": seed,
            "name": name,
        }
        self._new_stop = {} if stop is None else stop.state_dict()
        self._state: Mapping[str, Any] | None = None
        self._steps_seen = 0

    @property
    def keep(self) -> int | None:
        """The ``step`` of the reading whose checkpoint is the one to keep, as ``stop`` says."""
        return None if self.stop is None else self.stop.keep

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
        self._state = self.state_dict() or None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Build the tracker, now that model, optimizer and checkpoint are in place."""
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning outside of __init__
            return
        model, inputs = self._probed(pl_module), self._drawn(trainer, pl_module)
        advice = naming_options(inputs_of=self._inputs is None)
        with as_in_training(trainer, pl_module), resumed_by("ckpt_path="), advice:
            self.tracker = track(
                model,
                choose_optimizer(trainer.optimizers, self._optimizer, model=model, owner=pl_module),
                inputs=inputs,
                save_to=self._save_to,
                resume=self._state is not None and holds_a_run(self._save_to),
                **self._options,
            )
        if self._state is not None:
            self.tracker.load_state_dict(self._state["tracker"])
        if self.stop is not None:
            self.stop.load_state_dict((self._state or {}).get("stop") or self._new_stop)
        self._train_accuracy.start((self._state or {}).get("is_measured"))
        by_epochs_again = self._state is not None and self._every == "epoch"
        self._state, self.keep_path = None, None
        self._steps_seen = trainer.global_step
        if by_epochs_again and has_missed_an_epoch(trainer, self.tracker.readings):
            # Without its logged accuracy, which Lightning does not save, no stop rule can judge it.
            reading = self._read(self.tracker, trainer, pl_module, late=True)
            log_late(trainer, reading, trainer.current_epoch - 1)

    def on_train_epoch_start(self, trainer: Trainer, *_: object) -> None:
        """Remember the accuracy of the epoch before, which is not this epoch's."""
        self._train_accuracy.remember(trainer)

    def on_train_batch_end(self, trainer: Trainer, pl_module: LightningModule, *_: object) -> None:
        """Probe if n more steps were taken."""
        if self._every == "epoch":
            return
        seen, self._steps_seen = self._steps_seen, trainer.global_step
        if self._steps_seen // self._every > seen // self._every:
            self._probe(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Probe if epochs are the unit."""
        if self._every == "epoch":
            self._probe(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        """Find the checkpoint to keep, or say why there is none."""
        if self.tracker is None or self.keep is None:
            if trainer.is_global_zero:
                warn_of_uncounted(self.stop, self.tracker)
            return
        path = str(self._keep_to) if self._keep_to else None
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
        if self.tracker is not None:
            self.tracker.close()

    def state_dict(self) -> dict[str, Any]:
        """What the next readings and the stop depend on: numbers, strings and tensors only."""
        if self.tracker is None:
            return {}
        stop = None if self.stop is None else self.stop.state_dict()
        is_measured = self._train_accuracy.is_measured
        return {"tracker": self.tracker.state_dict(), "stop": stop, "is_measured": is_measured}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Keep a state until training starts."""
        self._state = state_dict

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.tracker is None:
            return
        reading = self._read(self.tracker, trainer, pl_module)
        for name, value in logged_of(reading).items():
            pl_module.log(name, value, batch_size=1, sync_dist=True)
        if reading is not None and self.stop is not None:
            self._decide(trainer, self.stop, reading)

    def _read(
        self, tracker: Tracker, trainer: Trainer, pl_module: LightningModule, *, late: bool = False
    ) -> Reading | None:
        epoch = trainer.current_epoch - late
        accuracy = self._train_accuracy.find(trainer, pl_module, tracker, late=late)
        with as_in_training(trainer, pl_module):
            return tracker.probe(epoch=epoch, global_step=trainer.global_step, **accuracy)

    def _decide(self, trainer: Trainer, stop: StopRule, reading: Reading) -> None:
        if "train_accuracy" not in reading.metrics:
            self._train_accuracy.refuse(trainer, self.tracker)
            return
        was_stopped = stop.stopped
        trainer.should_stop = stop.update(reading) or trainer.should_stop
        if self._keep_to is not None and stop.keep == reading.step:
            trainer.save_checkpoint(self._keep_to)
        if stop.stopped and not was_stopped:
            rank_zero_info(f"Training stops: {stop.reason}")

    def _probed(self, pl_module: LightningModule) -> nn.Module:
        try:
            return pl_module.get_submodule(self._model or "")
        except AttributeError as error:
            raise InputError(
                f"Expected `model` to name a submodule of {type(pl_module).__name__}, got "
                f"{self._model!r}: {error}."
            ) from error

    def _drawn(self, trainer: Trainer, pl_module: LightningModule) -> Any:  # noqa: ANN401
        inputs, convert = self._inputs, trainer.precision_plugin.convert_input
        if inputs is None:
            return training_samples(
                trainer, pl_module, self._samples, self._inputs_of, seed=self._options["seed"]
            )
        return (lambda: convert(inputs())) if callable(inputs) else convert(inputs)
