"""One fit of a Lightning trainer: precision, samples, optimizers, missed epochs, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from rote.errors import InputError, TrialError
from rote.integrations.messages import logged_of
from rote.snapshot import parameters_of

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer

    from rote.records import Reading


@dataclass(frozen=True)
class Fit:
    """A trainer, and the module that it trains."""

    trainer: Trainer
    module: LightningModule

    def check_strategy(self) -> None:
        """Refuse strategies that keep parameters where nobody can step them, before all is built.

        Raises:
            InputError: if it is one of these.
        """
        kind = type(self.trainer.strategy)
        if {entry.__name__ for entry in kind.__mro__} & {"DeepSpeedStrategy", "FSDPStrategy"}:
            raise InputError(
                "Expected a strategy whose modules can be stepped one by one (single device, DDP, "
                f"ModelParallelStrategy with fully_shard), got {kind.__name__}."
            )

    @contextmanager
    def as_in_training(self) -> Iterator[None]:
        """Set up the precision of training, and silence ``self.log`` in a forward pass."""
        vars(self.module)["log"] = lambda *_, **__: None
        try:
            with self.trainer.precision_plugin.train_step_context():
                yield
        finally:
            del vars(self.module)["log"]

    def converted(self, inputs: Any) -> Any:
        """Return inputs, or what makes them, in the precision of training."""
        convert = self.trainer.precision_plugin.convert_input
        return (lambda: convert(inputs())) if callable(inputs) else convert(inputs)

    def training_set(self) -> tuple[Any, Callable[[list[Any]], Any]]:
        """Return the dataset, and what makes a batch of samples, with the module's batch hooks.

        Raises:
            InputError: if there is no dataset to draw from.
        """
        loader: Any = self.trainer.train_dataloader
        if getattr(loader, "batch_sampler", None) is None:
            raise InputError(
                "Expected one train dataloader that makes batches of samples, to draw S̃ from its "
                f"dataset, got {type(loader).__name__}. Pass `inputs=`, a batch of unlabeled "
                "samples."
            )

        def batch_of(items: list[Any]) -> Any:
            batch = self.trainer.precision_plugin.convert_input(loader.collate_fn(items))
            batch = self.module._on_before_batch_transfer(batch)
            return self.trainer.strategy.batch_to_device(batch)

        return loader.dataset, batch_of

    def part(self, name: str | None) -> nn.Module:
        """Return the submodule of a name, or the module itself.

        Raises:
            InputError: if there is none of that name.
        """
        try:
            return self.module.get_submodule(name or "")
        except AttributeError as error:
            raise InputError(
                f"Expected `model` to name a submodule of {type(self.module).__name__}, got "
                f"{name!r}: {error}."
            ) from error

    def optimizers(
        self, choice: int | str | list[int | str] | None, model: nn.Module
    ) -> list[Optimizer]:
        """Return the optimizers that are stepped together: one, or those of a list in order.

        An entry is an index, the name of a class or of a submodule; ``None`` means the only one
        that holds parameters of ``model``.

        Raises:
            InputError: if an entry means none, or more than one.
        """
        choices = choice if isinstance(choice, list) else [choice]
        return [self._optimizer(one, model) for one in choices]

    def _optimizer(self, choice: int | str | None, model: nn.Module) -> Optimizer:
        optimizers = self.trainer.optimizers
        if isinstance(choice, int):
            found = list(optimizers)[choice:][:1] if -len(optimizers) <= choice else []
        elif choice is None:
            found = _training(optimizers, model)
        else:
            found = [optimizer for optimizer in optimizers if type(optimizer).__name__ == choice]
            part = dict(self.module.named_modules()).get(choice)
            if not found and part is not None:
                found = _training(optimizers, part)
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
        """Whether a resumed run goes on after an epoch that ended without a reading.

        Lightning never ends an epoch whose checkpoint was saved after its last batch, but before
        its end: resumed from there, the next epoch starts.
        """
        epoch = self.trainer.current_epoch
        if epoch == 0 or not self.trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            return False
        return all(reading.metrics["epoch"] < epoch - 1 for reading in readings)

    def log_late(self, reading: Reading | None) -> None:
        """Give the loggers the point of the epoch before; the module's ``log`` is too late."""
        metrics = logged_of(reading)
        # As in Lightning's own log at the end of an epoch: the batch that ended it does not count.
        step = self.trainer.fit_loop.epoch_loop._batches_that_stepped
        for logger in self.trainer.loggers if metrics else ():
            logger.log_metrics({**metrics, "epoch": self.trainer.current_epoch - 1}, step=step)
            logger.save()

    def checkpoints(self, readings: Sequence[Reading], state_key: str) -> dict[int, str]:
        """By step, the first checkpoint, by name, that this run saved where it was read."""
        steps = {reading.global_step: reading.step for reading in readings}
        found: dict[int, str] = {}
        savers: list[Any] = self.trainer.checkpoint_callbacks
        folders = [Path(saver.dirpath) for saver in savers if getattr(saver, "dirpath", None)]
        for path in sorted(path for folder in folders for path in folder.glob("*.ckpt")):
            try:
                # Mapped into memory: the weights of many large files are not read.
                checkpoint = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
                saved = checkpoint["callbacks"][state_key]["tracker"]["readings"]
            except (OSError, RuntimeError, UnpicklingError, LookupError, TypeError):
                continue  # somebody else's file, or one with objects in it
            step = steps.get(checkpoint.get("global_step"))
            if step is not None and _is_earlier(saved, readings):
                found.setdefault(step, str(path))
        return found


@contextmanager
def naming_options(*, inputs_of: bool) -> Iterator[None]:
    """Say which options help where ``forward`` does not take S̃, which may be out of a batch."""
    try:
        yield
    except TrialError as error:
        ways = "`model=` names a submodule that takes the inputs and returns logits"
        ways += "; `inputs_of=` takes the inputs out of a batch" if inputs_of else ""
        told = str(error).rstrip(".")
        raise TrialError(f"{told}. The probe calls the module's forward: {ways}.") from error


def _training(optimizers: Sequence[Optimizer], model: nn.Module) -> list[Optimizer]:
    own = {id(parameter) for parameter in model.parameters()}
    return [o for o in optimizers if any(id(parameter) in own for parameter in parameters_of(o))]


def _is_earlier(saved: Sequence[Mapping[str, Any]], readings: Sequence[Reading]) -> bool:
    """Whether saved readings are the first ones of this run; no two probes take equally long."""
    taken = [reading.seconds for reading in readings]
    return [reading["seconds"] for reading in saved] == taken[: len(saved)]
