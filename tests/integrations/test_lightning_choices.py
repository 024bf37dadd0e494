import builtins
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, IterableDataset

pytest.importorskip("lightning", reason="needs the extra `lightning`")

import lightning.pytorch as pl

import rote
from rote.errors import InputError, MissingExtraError
from rote.integrations.lightning import SusceptibilityCallback
from tests.integrations.lightning_runs import (
    BATCH,
    CLASSES,
    FEATURES,
    QUIET,
    SAMPLES,
    Classifier,
    NoisySamples,
    Rivals,
    fit,
    loader,
    trainer,
)
from tests.integrations.small_runs import DeepCopies, assert_as_expected, bits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]


def test_own_inputs_are_taken_as_they_are(tmp_path: Path) -> None:
    holdout = torch.randn(20, FEATURES)
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        inputs=holdout,
        given_labels=torch.arange(20) % CLASSES,
        policy=rote.ProbePolicy(batch=8),
    )
    fit(Classifier(), tmp_path, [callback])
    assert torch.equal(callback.tracker.batch.inputs, holdout[:8])
    assert callback.tracker.readings[-1].validation_accuracy is not None
    assert callback.tracker.readings[-1].predictions.shape == (20,)


class Prepared(Classifier):
    """Its batches are made ready in Lightning's hooks."""

    def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch[0] * 2, *batch[1:]

    def on_after_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
        return batch[0] + 100, *batch[1:]


def test_samples_of_the_training_set_pass_through_the_modules_hooks(tmp_path: Path) -> None:
    plain, prepared = (SusceptibilityCallback(num_classes=CLASSES, samples=16) for _ in range(2))
    fit(Classifier(), tmp_path, [plain], max_epochs=1)
    fit(Prepared(), tmp_path, [prepared], max_epochs=1)
    assert plain.tracker.batch.inputs.shape == (16, FEATURES)
    assert torch.equal(prepared.tracker.batch.inputs, plain.tracker.batch.inputs * 2 + 100)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([NoisySamples()[i] for i in range(SAMPLES)])


def many_loaders() -> Any:
    return {"a": loader(), "b": loader()}


def whole_batches() -> Any:
    return DataLoader(NoisySamples(), batch_size=None)


def endless() -> Any:
    return DataLoader(Endless(), batch_size=BATCH)


@pytest.mark.parametrize("make", [many_loaders, whole_batches, endless])
def test_without_a_dataset_to_draw_from_inputs_are_asked_for(make: Any, tmp_path: Path) -> None:
    made = trainer(tmp_path, [SusceptibilityCallback(num_classes=CLASSES)])
    with pytest.raises(InputError, match="Pass `inputs=`"):
        made.fit(Classifier(), make())


@pytest.mark.parametrize(
    ("make", "options", "match"),
    [
        (Rivals, {}, "0: SGD, 1: Adam.*got None, which fits 2"),
        (Rivals, {"optimizer": "RMSprop"}, "'RMSprop', which fits 0"),
        (Rivals, {"optimizer": 2}, "got 2, which fits 0"),
        (Rivals, {"optimizer": -3}, "got -3, which fits 0"),
        (Classifier, {"model": "nett"}, "`model` to name a submodule of Classifier, got 'nett'"),
        (Classifier, {"num_classes": 7}, "num_classes = 7 classes, got 3"),
    ],
)
def test_wrong_choices_are_refused_when_training_starts(
    make: Any, options: dict[str, Any], match: str, tmp_path: Path
) -> None:
    callback = SusceptibilityCallback(**({"num_classes": CLASSES} | options))
    with pytest.raises(InputError, match=match):
        fit(make(), tmp_path, [callback])


class Headless(Classifier):
    """Calls its network by name, and leaves ``forward`` to Lightning."""

    forward = pl.LightningModule.forward

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return cross_entropy(self.net(batch[0]), batch[1])


def test_a_forward_that_does_not_take_the_batch_raises_an_error_with_the_remedy(
    tmp_path: Path,
) -> None:
    with pytest.raises(InputError, match=r"`inputs_of=` .*`model=`"):
        fit(Headless(), tmp_path, [SusceptibilityCallback(num_classes=CLASSES)])
    given = SusceptibilityCallback(num_classes=CLASSES, inputs=torch.ones(8, FEATURES))
    with pytest.raises(InputError, match=r"Pass `model=`, the name of a submodule"):
        fit(Headless(), tmp_path, [given])
    named = SusceptibilityCallback(num_classes=CLASSES, model="net", train_accuracy=None)
    fit(Headless(), tmp_path, [named], max_epochs=1)
    assert len(named.tracker.readings) == 1


class Together(Classifier):
    """Two optimizers that are stepped together, as Muon always is."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        both = self.optimizers()
        for optimizer in both:
            optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        for optimizer in both:
            optimizer.step()

    def configure_optimizers(self) -> Any:
        matrices = [p for p in self.net.parameters() if p.dim() == 2]
        others = [p for p in self.net.parameters() if p.dim() != 2]
        return [torch.optim.Muon(matrices, lr=0.05), torch.optim.AdamW(others, lr=0.05)]


class Checked(DeepCopies, SusceptibilityCallback):
    pass


@pytest.mark.parametrize("choice", [[0, 1], ["Muon", "AdamW"]])
def test_several_optimizers_are_stepped_together(choice: Any, tmp_path: Path) -> None:
    pl.seed_everything(0)
    bare = Together()
    fit(bare, tmp_path / "bare", [])
    callback = Checked(num_classes=CLASSES, optimizer=choice)
    pl.seed_everything(0)
    probed = Together()
    fit(probed, tmp_path / "probed", [callback])
    assert bits(probed.state_dict()) == bits(bare.state_dict())
    assert_as_expected(callback, len(callback.tracker.readings))
    with pytest.raises(InputError, match="fits 2 of them.*or a list of those"):
        fit(Together(), tmp_path / "one", [SusceptibilityCallback(num_classes=CLASSES)])


@pytest.mark.parametrize("every", [0, -1, "step", 1.5, True])
def test_every_is_an_epoch_or_a_number_of_steps(every: Any) -> None:
    with pytest.raises(InputError, match="`every` to be 'epoch' or a positive integer"):
        SusceptibilityCallback(num_classes=CLASSES, every=every)


@pytest.mark.parametrize("samples", [0, -1, 2.5])
def test_samples_are_a_number_of_them(samples: Any) -> None:
    with pytest.raises(
        InputError, match=f"`samples` to be an integer of at least 1, got {samples}"
    ):
        SusceptibilityCallback(num_classes=CLASSES, samples=samples)


def test_a_stop_argument_that_is_not_a_rule_is_refused() -> None:
    with pytest.raises(InputError, match="`stop` to be a StopRule, got True"):
        SusceptibilityCallback(num_classes=CLASSES, stop=True)


def test_a_checkpoint_cannot_be_kept_without_a_rule() -> None:
    with pytest.raises(InputError, match="`keep_to` needs `stop=`"):
        SusceptibilityCallback(num_classes=CLASSES, keep_to="best.ckpt")


def test_sharded_strategies_that_cannot_be_probed_are_refused(tmp_path: Path) -> None:
    made = trainer(tmp_path)
    made._accelerator_connector.strategy = pl.strategies.FSDPStrategy()  # no CPU runs it
    callback = SusceptibilityCallback(num_classes=CLASSES)
    with pytest.raises(InputError, match="FSDPStrategy is not supported"):
        callback.setup(made, Classifier(), stage="fit")


def test_without_lightning_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "lightning":
            raise ModuleNotFoundError("No module named 'lightning'", name=name)
        return real(name, *args, **kwargs)

    for name in [name for name in sys.modules if name.partition(".")[0] == "lightning"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "rote.integrations.lightning")
    monkeypatch.setitem(sys.modules, "lightning", None)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install 'rote\[lightning\]'"):
        __import__("rote.integrations.lightning")
