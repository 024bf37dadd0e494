"""The callback for Lightning: ζ in its logs, and stopping by it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

from rote.errors import InputError, TrialError
from rote.extras import require
from rote.integrations.adapter import TrainerAdapter
from rote.integrations.holdout import SampleSet, split_indices, take_subset
from rote.integrations.messages import select_logged
from rote.integrations.training_batch import LabeledBatch
from rote.records import Reading
from rote.snapshot import find_parameters

try:
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.utilities import rank_zero_info
except ImportError:
    require("lightning", extra="lightning")
    raise


@dataclass(kw_only=True, eq=False, repr=False)
class SusceptibilityCallback(TrainerAdapter, Callback):
    """Probe the network at the end of every epoch, or every n steps, and log the readings.

    Logged are ``susceptibility`` (ζ), ``susceptibility_plain`` and ``probe/drop``, through the
    module's own ``log``. ``every=n`` counts ``trainer.global_step``, which counts the steps of all
    optimizers. The holdout is of the first validation loader. A training accuracy counts if it was
    logged in this epoch; the first probe decides for the whole run whether it is the module's or
    measured, for which batches must be pairs of inputs and labels, or mappings with labels.
    ``loss_fn`` is cross entropy by default. Signals see labels found in the same way, and the
    logits that ``training_step`` returns as ``"logits"``, or else those of the network's own call
    on the batch. ``num_classes`` and all other options are those of ``TrainerAdapter``.

    Args:
        model: The name of the submodule to probe; by default the module, by its ``forward``.
        optimizer: Which optimizer trains it, if there are several: its index, the name of its
            class, or the name of a submodule whose parameters it holds; or a list of those that
            are stepped together.
        keep_to: Where to save the checkpoint that ``stop`` keeps, whenever it changes. Needs
            ``stop``.

    Attributes:
        keep_path: The checkpoint to keep, once training has ended: ``keep_to``, or the one that
            a ``ModelCheckpoint`` saved with these weights.

    Example:
        >>> callback = SusceptibilityCallback(num_classes=10, every=100)
        >>> callback.keep is None
        True
    """

    model: str | None = None
    optimizer: int | str | list[int | str] | None = None
    keep_to: str | Path | None = None

    decides_accuracy_once, resume_option, can_split = True, "ckpt_path=", True
    holdout_hint = "pass a validation loader to fit, or holdout='split' to the callback"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.keep_to is not None and self.stop is None:
            raise InputError("`keep_to` needs `stop=`, which decides what to keep.")
        self.keep_path: str | None = None
        self._fit: Any = None
        self._saved: Mapping[str, Any] | None = None
        self._steps_seen = 0

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        fit = Fit(trainer, pl_module)
        fit.check_strategy()
        if self.holdout == "split" and self.inputs is None:
            self.set_aside = fit.take_aside(self.holdout_size, self.seed)
        # A second `fit` of the same trainer continues; a checkpoint is loaded after this.
        if trainer.global_step == 0:
            self.tracker = None
        self._saved = self.state_dict() or None

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if trainer.fast_dev_run:  # type: ignore[attr-defined]  # set by Lightning outside of __init__
            return
        self.reset()
        fit = self._fit = Fit(trainer, pl_module)
        saved, self._saved, self.keep_path = self._saved, None, None
        self._steps_seen = trainer.global_step
        model = fit.find_part(self.model)
        optimizers = fit.find_optimizers(self.optimizer, model)
        with name_options(inputs_of=self.inputs is None):
            readings = self.begin_tracking(model, optimizers, saved).readings
        if saved is not None and self.every == "epoch" and fit.has_missed_an_epoch(readings):
            # Without its logged accuracy, which Lightning does not save, no stop rule can judge it.
            fit.log_late(self._take_reading(trainer, late=True))

    def on_train_epoch_start(self, trainer: Trainer, *_: object) -> None:
        self.accuracy.expire(trainer.callback_metrics)

    def on_train_batch_start(self, *_: object) -> None:
        self.listen()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, *_: object
    ) -> None:
        if self.watching:
            returned = outputs if isinstance(outputs, Mapping) else {}
            loss = returned.get("loss")
            if loss is not None:  # divided by this, unless optimization is manual and this is 1
                loss = loss * trainer.accumulate_grad_batches
            self.show_batch(batch, returned.get("logits"), loss)
        seen, self._steps_seen = self._steps_seen, trainer.global_step
        if self.every != "epoch" and self._steps_seen // self.every > seen // self.every:
            self._probe(trainer, pl_module)

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.every == "epoch":
            self._probe(trainer, pl_module)

    def on_train_end(self, trainer: Trainer, *_: object) -> None:
        self.conclude()
        if self.keep is not None:
            path = self.find_checkpoints().get(self.keep) if trainer.is_global_zero else None
            self.keep_path = trainer.strategy.broadcast(path)

    def on_exception(self, *_: object) -> None:
        self.teardown()

    def teardown(self, *_: object, **__: object) -> None:
        self.close()
        self._fit = None

    def state_dict(self) -> dict[str, Any]:
        return {} if self.tracker is None else self.adapter_state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._saved = state_dict  # until training starts

    def _probe(self, trainer: Trainer, pl_module: LightningModule) -> None:
        reading = self._take_reading(trainer)
        for name, value in select_logged(reading).items():
            pl_module.log(name, value, batch_size=1, sync_dist=True)
        if self.should_stop(reading):
            trainer.should_stop = True
        if self.keep_to is not None and self.is_kept(reading):
            trainer.save_checkpoint(self.keep_to)

    def _take_reading(self, trainer: Trainer, *, late: bool = False) -> Reading | None:
        metrics = dict(sorted(trainer.callback_metrics.items()))
        now = {"epoch": trainer.current_epoch - late, "global_step": trainer.global_step}
        return self.take_reading(metrics, late=late, **now)

    def tell(self, message: str) -> None:
        rank_zero_info(message)

    def training_set(self) -> SampleSet:
        found: SampleSet = self._fit.training_set()
        return found

    def validation_set(self) -> SampleSet | None:
        found: SampleSet | None = self._fit.validation_set()
        return found

    def batch_size(self) -> int | None:
        return getattr(self._fit.trainer.train_dataloader, "batch_size", None)

    def training_context(self) -> Any:
        return self._fit.training_context()

    def find_checkpoints(self) -> dict[int, str]:
        if self._fit is None:
            return super().find_checkpoints()
        saved: dict[int, str] = self._fit.find_checkpoints(self.readings, self.state_key)
        saved |= super().find_checkpoints()
        kept = {} if self.keep_to is None or self.keep is None else {self.keep: str(self.keep_to)}
        return saved | kept

    def convert_inputs(self, inputs: Any) -> LabeledBatch:
        return LabeledBatch(self._fit.convert(inputs))


@dataclass(frozen=True)
class Fit:
    """A trainer, and the module that it trains."""

    trainer: Trainer
    module: LightningModule

    def check_strategy(self) -> None:
        """Refuse strategies whose parameters cannot be stepped one by one.

        Raises:
            InputError: If the trainer has such a strategy.
        """
        kind = type(self.trainer.strategy)
        if {entry.__name__ for entry in kind.__mro__} & {"DeepSpeedStrategy", "FSDPStrategy"}:
            raise InputError(
                f"Strategy {kind.__name__} is not supported: its modules cannot be stepped one by "
                "one. Use a single device, DDP, or ModelParallelStrategy with fully_shard."
            )

    @contextmanager
    def training_context(self) -> Iterator[None]:
        """Set the precision of training, and silence ``self.log`` in a forward pass."""
        vars(self.module)["log"] = lambda *_, **__: None
        try:
            with self.trainer.precision_plugin.train_step_context():
                yield
        finally:
            del vars(self.module)["log"]

    def convert(self, inputs: Any) -> Any:
        """Convert inputs, or the function that makes them, to the precision of training."""
        convert = self.trainer.precision_plugin.convert_input
        return (lambda: convert(inputs())) if callable(inputs) else convert(inputs)

    def training_set(self) -> SampleSet:
        """Return the dataset, and the function that makes a batch with the module's hooks.

        Raises:
            InputError: If there is no dataset to draw from.
        """
        loader: Any = self.trainer.train_dataloader
        if getattr(loader, "batch_sampler", None) is None:
            raise InputError(
                "The callback draws samples from the dataset of one train DataLoader that makes "
                f"batches, but the trainer has a {type(loader).__name__}. Pass `inputs=`, a batch "
                "of unlabeled samples."
            )
        return self._sample_set(loader)

    def validation_set(self) -> SampleSet | None:
        """Return the dataset of the first validation loader; ``None`` if there is none."""
        loaders: Any = self.trainer.val_dataloaders
        if isinstance(loaders, Mapping):
            loaders = list(loaders.values())
        loader = next(iter(loaders), None) if isinstance(loaders, list | tuple) else loaders
        is_usable = getattr(loader, "batch_sampler", None) is not None
        return self._sample_set(loader) if is_usable else None

    def _sample_set(self, loader: Any) -> SampleSet:
        def collate(items: list[Any]) -> Any:
            batch = self.trainer.precision_plugin.convert_input(loader.collate_fn(items))
            batch = self.module._on_before_batch_transfer(batch)
            return self.trainer.strategy.batch_to_device(batch)

        return SampleSet(loader.dataset, collate)

    def take_aside(self, size: int, seed: int) -> SampleSet:
        """Take samples out of the training set before Lightning loads it.

        Raises:
            InputError: If the training loader is not a plain one.
        """
        source = self.trainer.fit_loop._data_source
        loader: Any = source.dataloader()
        is_plain = isinstance(loader, DataLoader) and isinstance(
            loader.sampler, RandomSampler | SequentialSampler
        )
        if not is_plain or not hasattr(loader.dataset, "__len__"):
            raise InputError(
                "holdout='split' needs one training DataLoader with a map-style dataset and no "
                "sampler of its own. Keep samples out of training yourself, and pass them as "
                "`inputs=` and `given_labels=`."
            )
        kept, aside = split_indices(len(loader.dataset), size, seed)
        source.instance, source.name = _rebuild(loader, take_subset(loader.dataset, kept)), ""
        whole = self._sample_set(loader)
        return SampleSet(take_subset(whole.dataset, aside), whole.collate, aside)

    def find_part(self, name: str | None) -> nn.Module:
        """Return the submodule of a name, or the module itself.

        Raises:
            InputError: If there is none of that name.
        """
        try:
            return self.module.get_submodule(name or "")
        except AttributeError as error:
            raise InputError(
                f"Expected `model` to name a submodule of {type(self.module).__name__}, got "
                f"{name!r}: {error}."
            ) from error

    def find_optimizers(
        self, choice: int | str | list[int | str] | None, model: nn.Module
    ) -> list[Optimizer]:
        """Return the optimizers that are stepped together: one, or those that a list names.

        An entry is an index, the name of a class or of a submodule; ``None`` means the only one
        that holds parameters of ``model``.

        Raises:
            InputError: If an entry means none, or more than one.
        """
        choices = choice if isinstance(choice, list) else [choice]
        return [self._find_optimizer(one, model) for one in choices]

    def _find_optimizer(self, choice: int | str | None, model: nn.Module) -> Optimizer:
        optimizers = self.trainer.optimizers
        if isinstance(choice, int):
            found = list(optimizers)[choice:][:1] if -len(optimizers) <= choice else []
        elif choice is None:
            found = _find_trainers(optimizers, model)
        else:
            found = [optimizer for optimizer in optimizers if type(optimizer).__name__ == choice]
            part = dict(self.module.named_modules()).get(choice)
            if not found and part is not None:
                found = _find_trainers(optimizers, part)
        if len(found) == 1:
            return found[0]
        kinds = ", ".join(f"{i}: {type(entry).__name__}" for i, entry in enumerate(optimizers))
        raise InputError(
            f"Expected `optimizer` to choose one of the optimizers ({kinds or 'none'}), got "
            f"{choice!r}, which fits {len(found)} of them. Pass an index, the name of a class, or "
            "the name of the submodule that it trains; or a list of those that are stepped "
            "together."
        )

    def has_missed_an_epoch(self, readings: Sequence[Reading]) -> bool:
        """Return whether a resumed run continues after an epoch that ended without a reading.

        Lightning never ends an epoch whose checkpoint was saved after its last batch, but before
        its end: resumed from there, the next epoch starts.
        """
        epoch = self.trainer.current_epoch
        if epoch == 0 or not self.trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            return False
        return all(reading.metrics["epoch"] < epoch - 1 for reading in readings)

    def log_late(self, reading: Reading | None) -> None:
        """Log a reading of the epoch before; it is too late for the module's ``log``."""
        metrics = select_logged(reading)
        # As in Lightning's own log at the end of an epoch: the batch that ended it does not count.
        step = self.trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in self.trainer.loggers if metrics else ():
            logger.log_metrics({**metrics, "epoch": self.trainer.current_epoch - 1}, step=step)
            logger.save()

    def find_checkpoints(self, readings: Sequence[Reading], state_key: str) -> dict[int, str]:
        """Return the first checkpoint, by name, that this run saved at each reading's step."""
        steps = {reading.global_step: reading.step for reading in readings}
        found: dict[int, str] = {}
        savers: list[Any] = self.trainer.checkpoint_callbacks
        folders = [Path(saver.dirpath) for saver in savers if getattr(saver, "dirpath", None)]
        for path in sorted(path for folder in folders for path in folder.glob("*.ckpt")):
            try:
                # Mapped into memory: the weights of many large files are not read.
                checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
                saved = checkpoint["callbacks"][state_key]
                count, seconds = saved["tracker"]["count"], saved["newest_seconds"]
            except (OSError, RuntimeError, UnpicklingError, LookupError, TypeError):
                continue  # another program's file, or one with objects in it
            step = steps.get(checkpoint.get("global_step"))
            if step is not None and _is_of_run(count, seconds, readings):
                found.setdefault(step, str(path))
        return found


def _rebuild(loader: DataLoader[Any], dataset: Any) -> DataLoader[Any]:
    """Return a loader of another dataset that is otherwise the same."""
    return DataLoader(
        dataset,
        batch_size=loader.batch_size,
        shuffle=isinstance(loader.sampler, RandomSampler),
        num_workers=loader.num_workers,
        collate_fn=loader.collate_fn,
        pin_memory=loader.pin_memory,
        drop_last=loader.drop_last,
        timeout=loader.timeout,
        worker_init_fn=loader.worker_init_fn,
        generator=loader.generator,
        prefetch_factor=loader.prefetch_factor,
        persistent_workers=loader.persistent_workers,
    )


@contextmanager
def name_options(*, inputs_of: bool) -> Iterator[None]:
    """Name the options that help if ``forward`` does not take the drawn inputs."""
    try:
        yield
    except TrialError as error:
        way = " `inputs_of=` to take the inputs out of a batch, or" if inputs_of else ""
        raise TrialError(
            f"The module's forward cannot be probed. Pass{way} `model=`, the name of a submodule "
            f"that takes the inputs and returns logits. {error}"
        ) from error


def _find_trainers(optimizers: Sequence[Optimizer], model: nn.Module) -> list[Optimizer]:
    own = {id(parameter) for parameter in model.parameters()}
    return [o for o in optimizers if any(id(parameter) in own for parameter in find_parameters(o))]


def _is_of_run(count: int, seconds: float | None, readings: Sequence[Reading]) -> bool:
    """Return whether a checkpoint with this number of readings belongs to this run."""
    earlier = readings[:count]
    return len(earlier) == count and (not earlier or earlier[-1].seconds == seconds)
