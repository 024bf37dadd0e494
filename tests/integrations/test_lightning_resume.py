import csv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Sampler

pytest.importorskip("lightning", reason="needs the extra `lightning`")

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

import rote
from rote.errors import RunExistsError, StateError
from rote.integrations.lightning import SusceptibilityCallback
from rote.store import read_run
from tests.integrations.lightning_runs import (
    BATCH,
    CLASSES,
    QUIET,
    SAMPLES,
    Classifier,
    NoisySamples,
    loader,
    trainer,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]

EPOCHS = 4


class Order(Sampler[int]):
    """An order for each epoch; the trainer says which epoch it is."""

    epoch = 0

    def set_epoch(self, epoch: int) -> None:
        self.epoch = epoch

    def __iter__(self) -> Iterator[int]:
        generator = torch.Generator().manual_seed(self.epoch)
        return iter(torch.randperm(SAMPLES, generator=generator).tolist())

    def __len__(self) -> int:
        return SAMPLES


class Resumable(DataLoader[Any]):
    """A loader that can go on in the middle of an epoch."""

    batch, skipped = 0, 0

    def __iter__(self) -> Iterator[Any]:  # type: ignore[override]
        self.batch, self.skipped = self.skipped, 0
        for indices in list(self.batch_sampler)[self.batch :]:
            self.batch = (self.batch + 1) % len(self)
            torch.manual_seed(100 * self.sampler.epoch + self.batch)  # of the augmentation
            yield self.collate_fn([self.dataset[index] for index in indices])

    def state_dict(self) -> dict[str, Any]:
        return {"batch": self.batch}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.skipped = state["batch"]


class Positioned(Classifier):
    """Random numbers depend on the position in training only: Lightning does not save them."""

    def on_train_start(self) -> None:
        torch.manual_seed(self.global_step)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(self.global_step)

    def on_validation_end(self) -> None:
        torch.manual_seed(self.global_step)

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", cross_entropy(self(batch[0]), batch[1]))


class PositionedStart(pl.Callback):
    """The same for a callback that probes, with dropout, before the module's own start."""

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        torch.manual_seed(trainer.global_step)


def run(
    path: Path, callback: SusceptibilityCallback, *, resumed: Path | None = None, **options: Any
) -> tuple[Positioned, list[dict[str, Any]]]:
    torch.manual_seed(0)
    module = Positioned()
    saver = ModelCheckpoint(path, save_top_k=-1, filename="{step}", **options.pop("saver", {}))
    made = trainer(path, [PositionedStart(), callback, saver], max_epochs=EPOCHS, **options)
    data = Resumable(NoisySamples(), batch_size=BATCH, sampler=Order())
    made.fit(module, data, loader(shuffle=False), ckpt_path=resumed)
    readings = [reading.to_dict() for reading in callback.tracker.readings]
    for reading in readings:
        del reading["seconds"]
        # Of an epoch that was interrupted, Lightning averages only the rest.
        reading["metrics"].pop("train_accuracy", None)
    return module, readings


CLIPPED = {"gradient_clip_val": 0.2, "accumulate_grad_batches": 2}
CASES: dict[str, tuple[Any, bool, dict[str, Any], int]] = {
    "after an epoch": ("epoch", False, {}, 12),
    "within an epoch": (2, True, {"saver": {"every_n_train_steps": 2}}, 10),
    "between readings": (4, False, {"saver": {"every_n_train_steps": 2}}, 14),
    "within an epoch that counts": ("epoch", False, {"saver": {"every_n_train_steps": 2}}, 10),
    "after the last batch of an epoch": ("epoch", True, {"saver": {"every_n_train_steps": 6}}, 12),
    "after the last batch of the first": ("epoch", False, {"saver": {"every_n_train_steps": 3}}, 6),
    "after the very last batch": ("epoch", False, {"saver": {"every_n_train_steps": 2}}, 24),
    "clipped, accumulated": ("epoch", False, {"saver": {"every_n_train_steps": 1}, **CLIPPED}, 5),
    "before the reading of an epoch": ("epoch", True, {"val_check_interval": 0.5}, 12),
}


@pytest.mark.parametrize("case", CASES)
def test_a_resumed_run_has_the_readings_of_an_uninterrupted_one(case: str, tmp_path: Path) -> None:
    every, resample, options, step = CASES[case]

    def callback(name: str) -> SusceptibilityCallback:
        return SusceptibilityCallback(
            num_classes=CLASSES,
            every=every,
            measure_accuracy=0,
            policy=rote.ProbePolicy(batch=16, resample=resample),
            save_to=tmp_path / name,
        )

    whole, expected = run(tmp_path / "a", callback("run"), **{**options})
    path = tmp_path / "a" / f"step={step}.ckpt"
    resumed, readings = run(tmp_path / "b", callback("run"), resumed=path, **{**options})
    assert readings == expected
    assert len(readings) == (EPOCHS if every == "epoch" else EPOCHS * 6 // every)
    for mine, theirs in zip(resumed.parameters(), whole.parameters(), strict=True):
        assert torch.equal(mine, theirs)
    # The journal of the first run holds them once, as if nothing had happened.
    recorded = [reading.to_dict() for reading in read_run(tmp_path / "run").readings]
    assert [entry["drop"] for entry in recorded] == [entry["drop"] for entry in expected]
    # Into a new directory, everything is written again.
    run(tmp_path / "c", callback("elsewhere"), resumed=path, **{**options})
    moved = [reading.drop for reading in read_run(tmp_path / "elsewhere").readings]
    assert moved == [entry["drop"] for entry in expected]


def test_checkpoints_load_with_weights_only(tmp_path: Path) -> None:
    stop = rote.StopRule(train_accuracy=0.0, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=stop)
    run(tmp_path, callback)
    checkpoint = torch.load(tmp_path / "step=24.ckpt", weights_only=True)
    state = checkpoint["callbacks"][callback.state_key]
    assert len(state["tracker"]["readings"]) == EPOCHS
    assert state["stop"] == callback.stop.state_dict()


def test_a_callback_can_be_added_to_a_run_that_has_begun(tmp_path: Path) -> None:
    torch.manual_seed(0)
    first = trainer(tmp_path, [ModelCheckpoint(tmp_path, filename="begun")], max_epochs=2)
    first.fit(Positioned(), loader(), loader(shuffle=False))
    callback = SusceptibilityCallback(num_classes=CLASSES)
    second = trainer(tmp_path, [callback], max_epochs=EPOCHS)
    with pytest.warns(UserWarning, match="Please add the following callbacks"):
        second.fit(Positioned(), loader(), loader(shuffle=False), ckpt_path=tmp_path / "begun.ckpt")
    assert [(reading.step, reading.epoch) for reading in callback.tracker.readings] == [
        (1, 2),
        (2, 3),
    ]


def test_the_reading_of_an_epoch_that_never_ended_has_no_accuracy(tmp_path: Path) -> None:
    def callback() -> SusceptibilityCallback:
        stop = rote.StopRule(train_accuracy=0.0, min_epochs=1, patience=9)
        return SusceptibilityCallback(num_classes=CLASSES, stop=stop)

    saver = {"every_n_train_steps": 6}
    run(tmp_path / "a", callback(), saver=saver)
    resumed = callback()
    run(tmp_path / "b", resumed, saver=saver, resumed=tmp_path / "a" / "step=6.ckpt")
    has_accuracy = ["train_accuracy" in reading.metrics for reading in resumed.tracker.readings]
    assert has_accuracy == [False, True, True, True]


def test_loggers_show_the_reading_of_an_epoch_that_never_ended(tmp_path: Path) -> None:
    def points(name: str, step: int | None = None) -> list[tuple[str, ...]]:
        logger = CSVLogger(tmp_path / name, name="", version="")
        options = {"logger": logger, "saver": {"every_n_train_steps": 6}, "log_every_n_steps": 1}
        path = None if step is None else tmp_path / "whole" / f"step={step}.ckpt"
        run(tmp_path / name, SusceptibilityCallback(num_classes=CLASSES), resumed=path, **options)
        rows = csv.DictReader((tmp_path / name / "metrics.csv").read_text().splitlines())
        names = ("epoch", "step", "susceptibility", "susceptibility_plain", "probe/drop")
        return [tuple(row[key] for key in names) for row in rows if row["susceptibility"]]

    whole = points("whole")
    assert [point[:2] for point in whole] == [("0", "5"), ("1", "11"), ("2", "17"), ("3", "23")]
    assert points("again", step=12) == whole[1:]


def test_a_callback_added_late_gets_past_readings(tmp_path: Path) -> None:
    def fit(resumed: str | None, epochs: int, *callbacks: pl.Callback) -> None:
        folder = tmp_path / str(epochs)
        saver = ModelCheckpoint(folder, save_top_k=-1, filename="{step}", every_n_train_steps=2)
        made = trainer(tmp_path, [*callbacks, saver], max_epochs=epochs)
        data = Resumable(NoisySamples(), batch_size=BATCH, sampler=Order())
        path = tmp_path / resumed if resumed else None
        made.fit(Positioned(), data, loader(shuffle=False), ckpt_path=path)

    fit(None, 1)
    fit("1/step=6.ckpt", 2, SusceptibilityCallback(num_classes=CLASSES))
    again = SusceptibilityCallback(num_classes=CLASSES)
    fit("2/step=8.ckpt", 3, again)  # saved before the first reading, in the second epoch
    assert [reading.epoch for reading in again.tracker.readings] == [1, 2]


def test_a_directory_in_use_says_how_a_trainer_resumes(tmp_path: Path) -> None:
    run(tmp_path, SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run"))
    again = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    with pytest.raises(RunExistsError, match=r"resume from a checkpoint \(`ckpt_path=`\)"):
        run(tmp_path / "b", again)


def test_a_state_saved_with_other_samples_is_refused(tmp_path: Path) -> None:
    run(tmp_path, SusceptibilityCallback(num_classes=CLASSES))
    other = SusceptibilityCallback(num_classes=CLASSES, seed=1)
    with pytest.raises(StateError, match="`inputs` .* the state was saved with"):
        run(tmp_path / "b", other, resumed=tmp_path / "step=6.ckpt")


def test_a_second_fit_resumes_and_a_fit_of_another_trainer_starts_over(
    tmp_path: Path,
) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    module = Positioned()
    made = trainer(tmp_path, [callback], max_epochs=2)
    made.fit(module, loader(), loader(shuffle=False))
    before = callback.tracker.readings
    made.fit_loop.max_epochs = 3
    made.fit(module, loader(), loader(shuffle=False))
    assert [reading.step for reading in callback.tracker.readings] == [1, 2, 3]
    assert callback.tracker.readings[:2] == before
    assert len(read_run(tmp_path / "run").readings) == 3
    anew = SusceptibilityCallback(num_classes=CLASSES)
    for _ in range(2):
        trainer(tmp_path, [anew], max_epochs=1).fit(Positioned(), loader(), loader(shuffle=False))
        assert [reading.step for reading in anew.tracker.readings] == [1]


def test_a_checkpoint_that_is_only_validated_changes_nothing(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    run(tmp_path, callback)
    readings = callback.tracker.readings
    made, path = trainer(tmp_path, [callback]), tmp_path / "step=6.ckpt"
    with pytest.warns(UserWarning, match="Please add the following callbacks"):
        made.validate(Positioned(), loader(shuffle=False), ckpt_path=path, verbose=False)
    assert callback.tracker.readings == readings
    trainer(tmp_path, [callback], max_epochs=1).fit(Positioned(), loader(), loader(shuffle=False))
    assert [reading.step for reading in callback.tracker.readings] == [1]


def test_failure_releases_the_directory(tmp_path: Path) -> None:
    class Fails(Positioned):
        def on_train_epoch_end(self) -> None:
            raise OSError("the disk is full")

    callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    with pytest.raises(OSError, match="the disk is full"):
        trainer(tmp_path, [callback]).fit(Fails(), loader(), loader(shuffle=False))
    assert len(read_run(tmp_path / "run").readings) == 1
    x = torch.randn(4, 6)
    net = torch.nn.Linear(6, CLASSES)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    with pytest.raises(StateError, match="Cannot resume"):  # and not: it is locked
        rote.track(
            net, optimizer, inputs=x, num_classes=CLASSES, save_to=tmp_path / "run", resume=True
        )


def test_module_is_a_lightning_callback() -> None:
    assert issubclass(SusceptibilityCallback, pl.Callback)
