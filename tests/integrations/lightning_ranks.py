"""Trains on two ranks with and without the callback; each rank writes down what it saw.

Run by ``test_lightning_ranks.py``: python lightning_ranks.py FOLDER
"""

import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))

import lightning.pytorch as pl
from lightning.pytorch.strategies import ModelParallelStrategy
from torch.distributed.fsdp import fully_shard

import rote
from rote.errors import RoteWarning
from rote.integrations.lightning import SusceptibilityCallback
from tests.integrations.lightning_runs import (
    CLASSES,
    Classifier,
    Mapped,
    fit,
    loader,
    mapped_loader,
    raw,
    traces,
    trainer,
)
from tests.integrations.watching import Watching
from tests.ranks.launch import leave


class Uneven(Classifier):
    """Each rank has an accuracy of its own, and only the first logs the second metric."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        own = 0.25 + 0.5 * self.trainer.global_rank
        self.log("own_accuracy", own, on_step=False, on_epoch=True)
        if self.trainer.is_global_zero:
            self.log("first_only", own, on_step=False, on_epoch=True, rank_zero_only=True)
        return self.loss(batch)


def trained(folder: Path, callbacks: list[Any]) -> tuple[Uneven, pl.Trainer, list[Any]]:
    torch.manual_seed(0)
    module = Uneven()
    made = fit(module, folder, callbacks, max_epochs=6, strategy="ddp", devices=2)
    return module, made, traces(module, made)


def measured(folder: Path) -> list[Any]:
    """Training without and with an accuracy that is measured; the accuracies; what was said."""
    found, signal = [], Watching()
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        train_accuracy="misspelled",
        inputs_of=lambda batch: batch["x"],
        signals=[signal],
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for callbacks in ([], [callback]):
            torch.manual_seed(0)
            module = Mapped()
            made = trainer(folder, callbacks, max_epochs=3, strategy="ddp", devices=2)
            made.fit(module, mapped_loader())
            found.append(traces(module, made))
    accuracies = [reading.train_accuracy for reading in callback.tracker.readings]
    warned = sum(entry.category is RoteWarning for entry in caught)
    shown = [int(index) for batch in signal.batches for index in batch.indices]
    return [*found, accuracies, warned, shown == module.seen and len(shown) == 72]


class Sharded(Mapped):
    """Its network lies in shards on the two ranks."""

    def configure_model(self) -> None:
        fully_shard(self.net, mesh=self.device_mesh["data_parallel"])


def sharded(folder: Path, callbacks: list[Any]) -> list[Any]:
    torch.manual_seed(0)
    module = Sharded()
    strategy = ModelParallelStrategy(data_parallel_size=2, tensor_parallel_size=1)
    made = trainer(folder, callbacks, max_epochs=2, strategy=strategy, devices=2)
    made.fit(module, mapped_loader())
    shards = [raw(parameter.to_local()) for parameter in module.parameters()]
    return [module.seen, module.losses, shards]


def main(folder: Path) -> None:
    torch.set_num_threads(1)
    logging.disable(logging.INFO)
    warnings.simplefilter("ignore")
    seen: dict[str, Any] = {}
    _, made, seen["alone"] = trained(folder, [])
    rank = made.global_rank
    rule = rote.StopRule(train_accuracy=0.4, patience=99, min_epochs=1)
    for name in ("own_accuracy", "first_only"):
        callback = SusceptibilityCallback(
            num_classes=CLASSES,
            train_accuracy=name,
            stop=rule if name == "own_accuracy" else None,
            save_to=folder / name,
            keep_to=folder / "keep.ckpt" if name == "own_accuracy" else None,
        )
        _, made, seen[name] = trained(folder, [callback])
        logged = ("susceptibility", "susceptibility_plain", "probe/drop")
        seen[f"{name} logged"] = [float(made.callback_metrics[key]) for key in logged]
        readings = callback.tracker.readings
        seen[f"{name} readings"] = [(r.drop, r.train_accuracy) for r in readings]
        if callback.stop is not None:
            seen["keep"] = [callback.keep, callback.keep_path]
    again = SusceptibilityCallback(
        num_classes=CLASSES, train_accuracy="own_accuracy", save_to=folder / "own_accuracy"
    )
    resumed = trainer(folder, [again], max_epochs=8, strategy="ddp", devices=2)
    resumed.fit(Uneven(), loader(), ckpt_path=folder / "keep.ckpt")
    seen["resumed"] = [reading.drop for reading in again.tracker.readings]
    # Now it stops: what one rank decides, all do. By an accuracy, which no seed moves: Lightning
    # seeds by a variable that other tests leave behind in the environment.
    stop = rote.StopRule(noise_rate=0.5, min_epochs=2)
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="own_accuracy", stop=stop)
    _, made, _ = trained(folder, [callback])
    seen["stopped"] = [made.current_epoch, stop.stopped, stop.keep, stop.reason]
    seen["measured"] = measured(folder)
    callback = SusceptibilityCallback(num_classes=CLASSES, inputs_of=lambda batch: batch["x"])
    seen["sharded"] = [sharded(folder, []), sharded(folder, [callback])]
    seen["sharded readings"] = [
        (reading.drop, reading.train_accuracy) for reading in callback.tracker.readings
    ]
    (folder / f"rank-{rank}.json").write_text(json.dumps(seen))
    torch.distributed.barrier()  # the first rank started the other, and must not end before it


if __name__ == "__main__":
    leave(lambda: main(Path(sys.argv[1])))
