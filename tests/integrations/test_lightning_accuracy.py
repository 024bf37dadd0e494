"""The training accuracy that the Lightning callback measures where the module logs none."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lightning", reason="needs the extra `lightning`")

import lightning.pytorch as pl
from lightning.pytorch.callbacks import ModelCheckpoint

import rote
from rote.errors import RoteWarning
from rote.integrations.lightning import SusceptibilityCallback
from tests.integrations.lightning_runs import (
    BATCH,
    CLASSES,
    FEATURES,
    QUIET,
    SAMPLES,
    Classifier,
    Mapped,
    NoisySamples,
    Silent,
    fit,
    mapped_loader,
    traces,
    trainer,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]


class Kept(SusceptibilityCallback):
    """Keeps the weights of every probe."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.weights: list[dict[str, Tensor]] = []

    def _probe(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        state = pl_module.state_dict()
        self.weights.append({name: tensor.clone() for name, tensor in state.items()})
        super()._probe(trainer, pl_module)


def pairs() -> TensorDataset:
    data = NoisySamples()
    return TensorDataset(data.x, data.y)


def run(
    path: Path, *callbacks: pl.Callback, module: Classifier | None = None, **options: Any
) -> tuple[Classifier, pl.Trainer]:
    torch.manual_seed(0)
    module = Silent() if module is None else module
    resumed = options.pop("ckpt_path", None)
    made = trainer(path, callbacks, **options)
    made.fit(module, DataLoader(pairs(), batch_size=BATCH, shuffle=True), ckpt_path=resumed)
    return module, made


@pytest.mark.parametrize("every", ["epoch", 4])
def test_one_line_is_enough(every: Any, tmp_path: Path) -> None:
    callback = Kept(num_classes=CLASSES, every=every, save_to=tmp_path / "run")
    run(tmp_path, callback)
    assert len(callback.tracker.readings) == (3 if every == "epoch" else SAMPLES // BATCH * 3 // 4)
    x, y = pairs().tensors
    for reading, weights in zip(callback.tracker.readings, callback.weights, strict=True):
        model = Silent().eval()
        model.load_state_dict(weights)
        expected = (model(x).argmax(1) == y).double().mean().item()  # 512 samples are all of them
        assert reading.train_accuracy == pytest.approx(expected, abs=1e-12)
    assert rote.select(tmp_path / "run").pick is not None


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_training_is_bit_identical(precision: Any, tmp_path: Path) -> None:
    policy = rote.ProbePolicy(verify=True)
    callback = SusceptibilityCallback(num_classes=CLASSES, policy=policy, samples=8)
    expected = traces(*run(tmp_path, precision=precision))
    assert traces(*run(tmp_path, callback, precision=precision)) == expected
    assert all("train_accuracy" in reading.metrics for reading in callback.tracker.readings)


def test_random_augmentations_of_the_training_set_go_on_undisturbed(tmp_path: Path) -> None:
    def train(*callbacks: pl.Callback) -> list[tuple[str, Any]]:
        torch.manual_seed(0)
        module, made = Mapped(), trainer(tmp_path, callbacks)
        made.fit(module, mapped_loader())
        return traces(module, made)

    def drawing(batch: Any) -> Tensor:  # an augmentation of the user's own
        return batch["x"] + 0.1 * torch.randn(FEATURES)

    callback = SusceptibilityCallback(num_classes=CLASSES, inputs_of=drawing)
    assert train(callback) == train()
    assert all(0 <= reading.train_accuracy <= 1 for reading in callback.tracker.readings)


def test_the_samples_of_the_probe_are_the_same_with_and_without(tmp_path: Path) -> None:
    measured, without = (
        SusceptibilityCallback(num_classes=CLASSES, samples=8, measure_accuracy=count)
        for count in (16, 0)
    )
    run(tmp_path, measured)
    run(tmp_path, without)
    assert [r.drop for r in measured.tracker.readings] == [r.drop for r in without.tracker.readings]
    assert "train_accuracy" not in without.tracker.readings[0].metrics


@pytest.mark.parametrize("name", ["train_accuracy", None])
def test_values_logged_by_the_module_take_precedence_if_requested(
    name: str | None, tmp_path: Path
) -> None:
    class Logs(Silent):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.log("train_accuracy", 0.125, on_step=False, on_epoch=True)
            return super().training_step(batch, batch_idx)

    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy=name)
    run(tmp_path, callback, module=Logs())
    found = [reading.train_accuracy == 0.125 for reading in callback.tracker.readings]
    assert found == [name is not None] * 3


def test_a_misspelt_metric_is_pointed_out_once_and_measured_instead(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="accc")
    with pytest.warns(RoteWarning) as caught:
        run(tmp_path, callback)
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`accc` was not logged before the first probe, only `train_loss`" in said
    assert "measured instead, on at most 512 training samples" in said
    assert all("train_accuracy" in reading.metrics for reading in callback.tracker.readings)


def test_batches_in_which_labels_are_not_clear_are_pointed_out_once(tmp_path: Path) -> None:
    class Triples(Classifier):
        def log(self, name: str, *args: Any, **kwargs: Any) -> None:
            super().log(name.replace("train_", "my_"), *args, **kwargs)

    callback = SusceptibilityCallback(num_classes=CLASSES)
    with pytest.warns(RoteWarning) as caught:
        fit(Triples(), tmp_path, [callback])
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`train_accuracy` was not logged before the first probe, only `my_acc" in said
    assert "have no training accuracy" in said
    assert "name another with `train_accuracy=`" in said


def test_a_resumed_run_continues_measuring(tmp_path: Path) -> None:
    class NowLogs(Silent):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.log("train_accuracy", 0.125)
            return super().training_step(batch, batch_idx)

    first = Kept(num_classes=CLASSES)
    saver = ModelCheckpoint(tmp_path, filename="last")
    run(tmp_path, first, saver, max_epochs=2)
    second = Kept(num_classes=CLASSES)
    with pytest.warns(UserWarning, match="Please add the following callbacks"):
        run(tmp_path, second, module=NowLogs(), max_epochs=3, ckpt_path=tmp_path / "last.ckpt")
    model = Silent().eval()
    model.load_state_dict(second.weights[0])
    x, y = pairs().tensors
    expected = (model(x).argmax(1) == y).double().mean().item()
    assert second.tracker.readings[:2] == first.tracker.readings
    assert second.tracker.readings[2].train_accuracy == pytest.approx(expected, abs=1e-12)


def test_the_measured_accuracy_may_stop(tmp_path: Path) -> None:
    rule = rote.StopRule(train_accuracy=0.0, patience=1, min_epochs=1)
    callback = SusceptibilityCallback(num_classes=CLASSES, stop=rule)
    run(tmp_path, callback, max_epochs=60)
    assert rule.stopped
    assert callback.keep == rule.keep
