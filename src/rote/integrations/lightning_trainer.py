"""What the callback needs of a Lightning trainer: precision, samples, optimizer, checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from pickle import UnpicklingError
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from rote.errors import InputError, TrialError
from rote.integrations.adapter import logged_of
from rote.integrations.training_batch import LabelledBatch, draw_batch, inputs_in, labels_in
from rote.snapshot import parameters_of

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer

    from rote.probe import Inputs
    from rote.records import Reading


@contextmanager
def as_in_training(trainer: Trainer, module: LightningModule) -> Iterator[None]:
    """The precision of training; and ``self.log`` in a forward pass does nothing."""
    vars(module)["log"] = lambda *_, **__: None
    try:
        with trainer.precision_plugin.train_step_context():
            yield
    finally:
        del vars(module)["log"]


@contextmanager
def naming_options(*, inputs_of: bool) -> Iterator[None]:
    """Say which options help where ``forward`` does not take S̃, which may be out of a batch.

    Yields:
        Nothing.

    Raises:
        TrialError: if a first probe failed.
    """
    try:
        yield
    except TrialError as error:
        ways = "`model=` names a submodule that takes the inputs and returns logits"
        ways += "; `inputs_of=` takes the inputs out of a batch" if inputs_of else ""
        told = str(error).rstrip(".")
        raise TrialError(f"{told}. The probe calls the module's forward: {ways}.") from error


def draw_samples(
    trainer: Trainer,
    module: LightningModule,
    samples: int,
    inputs_of: Callable[[Any], Inputs] | None,
    *,
    seed: int,
) -> LabelledBatch:
    """Some samples of the training set, made ready by the module's hooks on batches.

    Raises:
        InputError: if there is no dataset to draw from.
    """
    loader: Any = trainer.train_dataloader
    if getattr(loader, "batch_sampler", None) is None:
        raise InputError(
            "Expected one train dataloader that makes batches of samples, to draw S̃ from its "
            f"dataset, got {type(loader).__name__}. Pass `inputs=`, a batch of unlabelled samples."
        )

    def batch_of(items: list[Any]) -> Any:  # noqa: ANN401
        batch = trainer.precision_plugin.convert_input(loader.collate_fn(items))
        return trainer.strategy.batch_to_device(module._on_before_batch_transfer(batch))

    def split(batch: Any) -> LabelledBatch:  # noqa: ANN401
        return LabelledBatch((inputs_of or inputs_in)(batch), labels_in(batch))

    drawn: LabelledBatch = draw_batch(loader.dataset, batch_of, samples, seed=seed, part_of=split)
    return drawn


def choose_optimizer(
    optimizers: Sequence[Optimizer],
    choice: int | str | None,
    *,
    model: nn.Module,
    owner: nn.Module,
) -> Optimizer:
    """The optimizer that is meant.

    Args:
        optimizers: all there are.
        choice: an index; the name of a class; the name of a submodule of ``owner`` whose parameters
            the optimizer holds; or ``None`` for the only one that holds parameters of ``model``.
        model: the network that is probed.
        owner: the module that named submodules belong to.

    Raises:
        InputError: if none is meant, or more than one.
    """
    if isinstance(choice, int):
        is_one = -len(optimizers) <= choice < len(optimizers)
        found = [optimizers[choice]] if is_one else []
    elif choice is None:
        found = _training(optimizers, model)
    else:
        found = [optimizer for optimizer in optimizers if type(optimizer).__name__ == choice]
        part = dict(owner.named_modules()).get(choice)
        if not found and part is not None:
            found = _training(optimizers, part)
    if len(found) == 1:
        return found[0]
    kinds = ", ".join(f"{i}: {type(entry).__name__}" for i, entry in enumerate(optimizers))
    raise InputError(
        f"Expected `optimizer` to choose one of the optimizers ({kinds or 'none'}), got "
        f"{choice!r}, which fits {len(found)} of them. Pass an index, the name of a class, or the "
        "name of the submodule that it trains."
    )


def _training(optimizers: Sequence[Optimizer], model: nn.Module) -> list[Optimizer]:
    own = {id(parameter) for parameter in model.parameters()}
    return [
        optimizer
        for optimizer in optimizers
        if any(id(parameter) in own for parameter in parameters_of(optimizer))
    ]


def has_missed_an_epoch(trainer: Trainer, readings: Sequence[Reading]) -> bool:
    """Whether a resumed run goes on after an epoch that ended without a reading.

    Lightning never ends an epoch whose checkpoint was saved after its last batch, but before its
    end: resumed from there, the next epoch starts.
    """
    if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
        return False
    return trainer.current_epoch > 0 and all(
        reading.metrics["epoch"] < trainer.current_epoch - 1 for reading in readings
    )


def log_late(trainer: Trainer, reading: Reading | None, epoch: int) -> None:
    """Give the loggers the point of an epoch that has ended; the module's ``log`` is too late."""
    metrics = logged_of(reading)
    # As in Lightning's own log at the end of an epoch: the batch that ended it is not yet counted.
    step = trainer.fit_loop.epoch_loop._batches_that_stepped
    for logger in trainer.loggers if metrics else ():
        logger.log_metrics({**metrics, "epoch": epoch}, step=step)
        logger.save()


def find_checkpoint(
    folders: Iterable[str | Path], readings: Sequence[Reading], step: int, *, state_key: str
) -> str | None:
    """The first checkpoint, by name, that this run saved where one of its readings was taken.

    Args:
        folders: where to look.
        readings: all readings of the run, with the ``global_step`` at which they were taken.
        step: of the reading.
        state_key: the name of the callback's state in a checkpoint.
    """
    wanted = next((reading for reading in readings if reading.step == step), None)
    if wanted is None:
        return None
    for path in sorted(path for folder in folders for path in Path(folder).glob("*.ckpt")):
        checkpoint = _read(path)
        state = checkpoint.get("callbacks", {}).get(state_key)
        if (
            state is not None
            and checkpoint.get("global_step") == wanted.global_step
            and _is_earlier(state["tracker"]["readings"], readings)
        ):
            return str(path)
    return None


def _read(path: Path) -> Mapping[str, Any]:
    try:
        # Mapped into memory: the weights of many large files are not read.
        found = torch.load(path, map_location="cpu", mmap=True, weights_only=True)
    except (OSError, RuntimeError, UnpicklingError):
        return {}  # somebody else's file, or one with objects in it
    return found if isinstance(found, Mapping) else {}


def _is_earlier(saved: Sequence[Mapping[str, Any]], readings: Sequence[Reading]) -> bool:
    """Whether saved readings are the first ones of this run; no two probes take equally long."""
    taken = [reading.seconds for reading in readings]
    return [reading["seconds"] for reading in saved] == taken[: len(saved)]
