"""What a Lightning trainer does around a training step: its precision, its batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rote.errors import InputError, TrialError
from rote.integrations.logged import logged_of
from rote.integrations.samples import draw_inputs

if TYPE_CHECKING:
    from lightning.pytorch import LightningModule, Trainer

    from rote.probe import Inputs
    from rote.records import Reading


@contextmanager
def as_in_training(trainer: Trainer, module: LightningModule) -> Iterator[None]:
    """The precision of training; and ``self.log`` in a forward pass does nothing.

    Args:
        trainer: the trainer.
        module: the module in training.

    Yields:
        Nothing.
    """
    vars(module)["log"] = lambda *_, **__: None
    try:
        with trainer.precision_plugin.train_step_context():
            yield
    finally:
        del vars(module)["log"]


@contextmanager
def naming_options(*, inputs_of: bool) -> Iterator[None]:
    """Say which options help where the module's ``forward`` does not take S̃.

    Args:
        inputs_of: whether S̃ was taken out of a batch.

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


def has_missed_an_epoch(trainer: Trainer, readings: Sequence[Reading]) -> bool:
    """Whether a resumed run goes on after an epoch that ended without a reading.

    Lightning never ends an epoch whose checkpoint was saved after its last batch, but before its
    end: resumed from there, the next epoch starts.

    Args:
        trainer: the trainer, when training starts.
        readings: those in the checkpoint.
    """
    if not trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
        return False
    return trainer.current_epoch > 0 and all(
        reading.metrics["epoch"] < trainer.current_epoch - 1 for reading in readings
    )


def log_late(trainer: Trainer, reading: Reading | None, epoch: int) -> None:
    """Give the loggers the point of an epoch that has ended; the module's ``log`` is too late.

    Args:
        trainer: the trainer, when training starts again.
        reading: what the probe of that epoch found.
        epoch: the epoch.
    """
    metrics = logged_of(reading)
    # As in Lightning's own log at the end of an epoch: the batch that ended it is not yet counted.
    step = trainer.fit_loop.epoch_loop._batches_that_stepped
    for logger in trainer.loggers if metrics else ():
        logger.log_metrics({**metrics, "epoch": epoch}, step=step)
        logger.save()


def training_samples(
    trainer: Trainer,
    module: LightningModule,
    samples: int,
    inputs_of: Callable[[Any], Inputs] | None,
    *,
    seed: int,
) -> Inputs:
    """Some samples of the training set, as the module gets them; the loader is not touched.

    Args:
        trainer: the trainer.
        module: the module in training, with its hooks on batches.
        samples: how many.
        inputs_of: takes a batch and returns what the network takes.
        seed: of the choice of samples.

    Returns:
        The inputs of the network.

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

    return draw_inputs(loader.dataset, batch_of, samples, inputs_of, seed=seed)
