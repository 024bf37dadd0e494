from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

pytest.importorskip("lightning", reason="needs the extra `lightning`")

import lightning.pytorch as pl
from lightning.pytorch.callbacks import (
    EarlyStopping,
    EMAWeightAveraging,
    ModelCheckpoint,
    StochasticWeightAveraging,
)
from torchmetrics.classification import MulticlassAccuracy

import rote
from rote.integrations.lightning import SusceptibilityCallback
from rote.store import read_run
from tests.integrations.lightning_runs import (
    CLASSES,
    QUIET,
    ByHand,
    Classifier,
    Rivals,
    fit,
    loader,
    traces,
    trainer,
)
from tests.oracle import oracle_losses

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]

MODULES: dict[str, tuple[Callable[[], Classifier], dict[str, Any], dict[str, Any]]] = {
    "automatic": (Classifier, {}, {}),
    "manual": (ByHand, {}, {}),
    "accumulation": (Classifier, {"accumulate_grad_batches": 4}, {}),
    "clipping": (
        Classifier,
        {"gradient_clip_val": 0.1, "accumulate_grad_batches": 2, "detect_anomaly": True},
        {},
    ),
    "bf16": (Classifier, {"precision": "bf16-mixed"}, {}),
    "double": (Classifier, {"precision": "64-true"}, {}),
    "several": (Rivals, {}, {"model": "net"}),
    "by_class": (Rivals, {}, {"model": "net", "optimizer": "Adam"}),
    "by_index": (Rivals, {}, {"model": "net", "optimizer": 1}),
    "by_part": (Rivals, {}, {"optimizer": "net"}),
}
UNITS: list[Any] = ["epoch", 3]


class Checked(SusceptibilityCallback):
    """Measures on deep copies, right before it probes."""

    def __init__(self, number: int, part: str, **options: Any) -> None:
        super().__init__(**options)
        self.number, self.part = number, part
        self.expected: list[list[tuple[float, float]]] = []

    def _probe(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        x, y = self.tracker.batch.inputs, self.tracker.batch.labels
        model, optimizer = pl_module.get_submodule(self.part), trainer.optimizers[self.number]
        with trainer.precision_plugin.forward_context():
            losses = [oracle_losses(model, optimizer, x, y, rule=rule) for rule in ("live", 0.01)]
        self.expected.append(losses)
        super()._probe(trainer, pl_module)


@pytest.mark.parametrize("every", UNITS)
@pytest.mark.parametrize("case", MODULES)
def test_training_is_bit_identical_and_readings_are_those_of_deep_copies(
    case: str, every: Any, tmp_path: Path
) -> None:
    make, options, choice = MODULES[case]
    torch.manual_seed(0)
    alone, watched = make(), make()
    watched.load_state_dict(alone.state_dict())
    expected = traces(alone, fit(alone, tmp_path, **options))
    callback = Checked(
        number=1 if make is Rivals else 0,
        part=choice.get("model", ""),
        num_classes=CLASSES,
        every=every,
        measure_accuracy=0,  # its batches are triples
        policy=rote.ProbePolicy(verify=True),
        **choice,
    )
    trained = fit(watched, tmp_path, [callback], **options)
    assert traces(watched, trained) == expected
    readings = callback.tracker.readings
    assert len(readings) == (3 if every == "epoch" else trained.global_step // 3)
    for reading, (live, plain) in zip(readings, callback.expected, strict=True):
        assert (reading.loss_before, reading.loss_after) == live
        assert reading.loss_after_plain == plain[1]


@pytest.mark.parametrize(
    ("averaging", "probes"),
    [(partial(StochasticWeightAveraging, 0.01, swa_epoch_start=1), 4), (EMAWeightAveraging, 3)],
)
def test_averages_of_weights_are_left_alone(
    averaging: Callable[[], pl.Callback], probes: int, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    alone, watched = Classifier(), Classifier()
    watched.load_state_dict(alone.state_dict())
    expected = traces(alone, fit(alone, tmp_path, [averaging()]))
    policy = rote.ProbePolicy(verify=True)
    callback = SusceptibilityCallback(num_classes=CLASSES, policy=policy)
    assert traces(watched, fit(watched, tmp_path, [callback, averaging()])) == expected
    assert len(callback.tracker.readings) == probes


def test_half_precision_on_a_cpu_is_what_lightning_makes_of_it(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    with pytest.warns(UserWarning, match="AMP with fp16 is not supported on CPU"):
        trained = fit(Classifier(), tmp_path, [callback], precision="16-mixed")
    assert trained.precision == "bf16-mixed"
    assert len(callback.tracker.readings) == 3


def test_readings_come_every_n_steps_of_the_optimizer(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2, train_accuracy=None)
    fit(Classifier(), tmp_path, [callback], accumulate_grad_batches=2)  # 3 steps per epoch
    readings = callback.tracker.readings
    assert [reading.global_step for reading in readings] == [2, 4, 6, 8]
    assert [reading.epoch for reading in readings] == [0, 1, 1, 2]
    assert [reading.step for reading in readings] == [1, 2, 3, 4]


def test_a_policy_may_skip_epochs(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, policy=rote.ProbePolicy(every=2))
    trained = fit(Classifier(), tmp_path, [callback], max_epochs=5)
    assert [reading.step for reading in callback.tracker.readings] == [2, 4]
    assert float(trained.callback_metrics["susceptibility"]) == pytest.approx(
        callback.tracker.susceptibility
    )


class Watcher(pl.Callback):
    def __init__(self) -> None:
        self.found: list[dict[str, float]] = []

    def on_train_epoch_end(self, trainer: pl.Trainer, *_: Any) -> None:
        self.found.append({k: float(v) for k, v in trainer.callback_metrics.items()})


def test_readings_are_logged_and_recorded(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run", name="mine")
    watcher = Watcher()
    fit(Classifier(), tmp_path, [callback, watcher])
    readings = callback.tracker.readings
    for logged, reading in zip(watcher.found, readings, strict=True):
        assert logged["susceptibility"] == pytest.approx(reading.susceptibility)
        assert logged["susceptibility_plain"] == pytest.approx(reading.susceptibility_plain)
        assert logged["probe/drop"] == pytest.approx(reading.drop)
        assert logged["train_accuracy"] == pytest.approx(reading.train_accuracy)
    record = read_run(tmp_path / "run")
    assert [reading.drop for reading in record.readings] == [reading.drop for reading in readings]
    assert record.description["name"] == "mine"


class LogsLate(Classifier):
    """Logs its accuracy after callbacks have had their turn."""

    def loss(self, batch: Any) -> Tensor:
        return nn.functional.cross_entropy(self(batch[0]), batch[1])

    def on_train_epoch_end(self) -> None:
        self.log("train_accuracy", 0.25 * (1 + self.current_epoch))


def test_an_accuracy_of_the_previous_epoch_is_not_used_for_this_one(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, measure_accuracy=0)
    fit(LogsLate(), tmp_path, [callback])
    assert all("train_accuracy" not in r.metrics for r in callback.tracker.readings)


def test_another_metric_may_be_the_training_accuracy_or_none(tmp_path: Path) -> None:
    class Renamed(Classifier):
        def log(self, name: str, *args: Any, **kwargs: Any) -> None:
            super().log(name.replace("train_", "my_"), *args, **kwargs)

    named = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="my_accuracy")
    without = SusceptibilityCallback(num_classes=CLASSES, train_accuracy=None)
    fit(Renamed(), tmp_path, [named])
    fit(Classifier(), tmp_path, [without])
    assert all(0 <= reading.train_accuracy <= 1 for reading in named.tracker.readings)
    assert "train_accuracy" not in without.tracker.readings[-1].metrics


class LogsInForward(Classifier):
    def forward(self, x: Tensor) -> Tensor:
        out = self.net(x)
        if self.trainer.training:
            self.log("largest", out.max(), on_step=False, on_epoch=True)
        return out


def test_values_that_forward_logs_in_a_probe_are_not_logged(tmp_path: Path) -> None:
    torch.manual_seed(0)
    alone, watched = LogsInForward(), LogsInForward()
    watched.load_state_dict(alone.state_dict())
    expected = fit(alone, tmp_path).callback_metrics["largest"]
    callback = SusceptibilityCallback(num_classes=CLASSES, every=2, train_accuracy=None)
    assert torch.equal(fit(watched, tmp_path, [callback]).callback_metrics["largest"], expected)
    assert "log" not in vars(watched)


@pytest.mark.parametrize(("metric", "every"), [("susceptibility", "epoch"), ("probe/drop", 3)])
def test_early_stopping_and_checkpoints_monitor_it(metric: str, every: Any, tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, every=every, train_accuracy=None)
    # Any finite value is below the threshold: it stops at its first look, if it sees the metric.
    stopper = EarlyStopping(metric, stopping_threshold=1e9)
    saver = ModelCheckpoint(tmp_path, monitor=metric, save_top_k=-1)
    trained = fit(Classifier(), tmp_path, [stopper, saver, callback], max_epochs=9)
    assert trained.current_epoch == 1
    last = callback.tracker.readings[-1]
    value = last.susceptibility if metric == "susceptibility" else last.drop
    assert [float(score) for score in saver.best_k_models.values()] == [pytest.approx(value)]


def test_early_stopping_has_patience_with_zeta(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    stopper = EarlyStopping("susceptibility", mode="min", patience=2)
    trained = fit(Classifier(), tmp_path, [callback, stopper], max_epochs=40)
    zeta = [reading.susceptibility for reading in callback.tracker.readings]
    best, waited = float("inf"), 0
    for epoch, value in enumerate(zeta, 1):
        best, waited = (value, 0) if value < best else (best, waited + 1)
        assert (waited == 2) == (epoch == len(zeta)) or trained.current_epoch == 40
    assert trained.current_epoch == len(zeta)


class Validated(Classifier):
    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", nn.functional.cross_entropy(self(batch[0]), batch[1]))


def test_it_can_be_monitored_beside_validations_within_epochs(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    stopper = EarlyStopping("susceptibility", patience=9, check_on_train_epoch_end=True)
    saver = ModelCheckpoint(
        tmp_path, monitor="susceptibility", save_top_k=-1, save_on_train_epoch_end=True
    )
    made = trainer(tmp_path, [callback, stopper, saver], val_check_interval=0.5, max_epochs=2)
    made.fit(Validated(), loader(), loader(shuffle=False))
    zeta = [reading.susceptibility for reading in callback.tracker.readings]
    assert [float(score) for score in saver.best_k_models.values()] == pytest.approx(zeta)
    assert float(stopper.best_score) == pytest.approx(min(zeta))


def test_validation_and_trial_runs_do_not_probe(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, save_to=tmp_path / "run")
    module = Validated()
    trainer(tmp_path, [callback], fast_dev_run=True).fit(module, loader(), loader(shuffle=False))
    trainer(tmp_path, [callback]).validate(module, loader(shuffle=False), verbose=False)
    assert callback.tracker is None
    assert callback.state_dict() == {}
    assert not (tmp_path / "run").exists()
    checked = trainer(tmp_path, [callback], num_sanity_val_steps=2, max_epochs=2)
    checked.fit(module, loader(), loader(shuffle=False))
    assert [reading.step for reading in callback.tracker.readings] == [1, 2]
    trainer(tmp_path, [callback], fast_dev_run=True).fit(module, loader(), loader(shuffle=False))
    assert callback.tracker is None


class Metered(Classifier):
    """Its accuracy is a metric object, with a state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.meter = MulticlassAccuracy(CLASSES, average="micro")

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        logits = self(batch[0])
        self.meter(logits, batch[1])
        self.log("meter", self.meter, on_step=False, on_epoch=True)
        return nn.functional.cross_entropy(logits, batch[1])


def test_metric_objects_are_unaffected_by_probes(tmp_path: Path) -> None:
    torch.manual_seed(0)
    alone, watched = Metered(), Metered()
    watched.load_state_dict(alone.state_dict())
    expected, found = Watcher(), Watcher()
    fit(alone, tmp_path, [expected])
    callback = SusceptibilityCallback(num_classes=CLASSES, train_accuracy="meter")
    fit(watched, tmp_path, [callback, found])
    accuracies = [metrics["meter"] for metrics in expected.found]
    assert [metrics["meter"] for metrics in found.found] == accuracies
    assert [reading.train_accuracy for reading in callback.tracker.readings] == accuracies
