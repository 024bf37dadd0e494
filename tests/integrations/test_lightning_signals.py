"""Signals see the batches of a Lightning training, and training does not notice."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

pytest.importorskip("lightning", reason="needs the extra `lightning`")

import lightning.pytorch as pl

import rote
from rote.errors import InputError, RoteWarning
from rote.integrations.lightning import SusceptibilityCallback
from rote.rivals.label_wave import LabelWave
from tests.integrations.lightning_runs import (
    BATCH,
    CLASSES,
    QUIET,
    SAMPLES,
    Classifier,
    Mapped,
    Rivals,
    fit,
    mapped_loader,
    traces,
    trainer,
)
from tests.integrations.watching import Watching

pytestmark = [
    pytest.mark.slow,
    pytest.mark.xdist_group("lightning"),
    *[pytest.mark.filterwarnings(entry) for entry in QUIET],
]


class Remembering(Mapped):
    """Remembers the logits of its training."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[Tensor] = []

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen += batch["index"].tolist()
        logits = self(batch["x"])
        self.said.append(logits.detach().clone())
        loss = cross_entropy(logits, batch["labels"])
        self.losses.append(loss.item())
        self(batch["x"] + 1)  # another pass, on something else
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self(batch["x"])


class Returning(Remembering):
    """Returns its logits, and never calls its own forward on the batch."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen += batch["index"].tolist()
        logits = self(batch["x"] + 0)
        self(batch["x"] + 1)
        self.said.append(logits.detach().clone())
        loss = cross_entropy(logits, batch["labels"])
        self.losses.append(loss.item())
        return {"loss": loss, "logits": logits}


def run(make: Any, path: Path, *callbacks: pl.Callback, **options: Any) -> tuple[Any, pl.Trainer]:
    torch.manual_seed(0)
    module, made = make(), trainer(path, callbacks, **options)
    made.fit(module, mapped_loader(), mapped_loader(shuffle=False))
    return module, made


OPTIONS: list[dict[str, Any]] = [
    {},
    {"accumulate_grad_batches": 2},
    {"precision": "bf16-mixed", "gradient_clip_val": 0.1},
]


@pytest.mark.parametrize("make", [Remembering, Returning])
@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("every", ["epoch", 2])
def test_signals_see_every_batch_and_training_is_bit_identical(
    make: Any, options: dict[str, Any], every: Any, tmp_path: Path
) -> None:
    expected = traces(*run(make, tmp_path, **options))
    signal = Watching()
    policy = rote.ProbePolicy(verify=True)
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        signals=[signal],
        inputs_of=lambda batch: batch["x"],
        every=every,
        policy=policy,
    )
    module, made = run(make, tmp_path, callback, **options)
    assert traces(module, made) == expected
    assert len(signal.batches) == len(module.said) == 3 * SAMPLES // BATCH
    assert torch.cat([batch.indices for batch in signal.batches]).tolist() == module.seen
    for batch, logits, loss in zip(signal.batches, module.said, module.losses, strict=True):
        assert torch.equal(batch.logits, logits)
        assert not batch.logits.requires_grad
        assert cross_entropy(batch.logits.float(), batch.labels).item() == pytest.approx(loss, 1e-2)
        assert batch.loss.item() == pytest.approx(loss, rel=1e-6)
    if make is Remembering:
        assert signal.batches[0].inputs.shape == (BATCH, 6)
    assert all("watched" in reading.metrics for reading in callback.tracker.readings)
    assert not module._forward_hooks


def test_label_wave_by_its_name(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=["label_wave"], inputs_of=lambda batch: batch["x"]
    )
    module, _ = run(Remembering, tmp_path, callback, max_epochs=5)
    epochs = torch.cat(module.said).argmax(1).reshape(5, SAMPLES)
    order = torch.tensor(module.seen).reshape(5, SAMPLES).argsort(1)
    predicted = epochs.gather(1, order)
    changed = (predicted[1:] != predicted[:-1]).double().mean(1)
    known = [r.metrics.get("label_wave") for r in callback.tracker.readings]
    assert known[:3] == [None] * 3
    assert known[3:] == pytest.approx([changed[:3].mean().item(), changed[1:].mean().item()])


def test_rivals_by_their_names(tmp_path: Path) -> None:
    names = ["aum", "confident_learning", "gradient_disparity", "gwa", "pmv", "selc"]
    expected = traces(*run(Remembering, tmp_path))
    callback = SusceptibilityCallback(
        num_classes=CLASSES,
        signals=names,
        inputs_of=lambda batch: batch["x"],
        policy=rote.ProbePolicy(verify=True),
    )
    assert traces(*run(Remembering, tmp_path, callback)) == expected
    assert set(names) <= set(callback.tracker.readings[-1].metrics)


def test_a_signal_that_needs_indices_says_where_they_are_looked_for(tmp_path: Path) -> None:
    class Pairs(Remembering):
        def on_before_batch_transfer(self, batch: Any, dataloader_idx: int) -> Any:
            return batch["x"], batch["labels"]

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return cross_entropy(self(batch[0]), batch[1])

    callback = SusceptibilityCallback(num_classes=CLASSES, signals=[LabelWave()])
    with pytest.raises(InputError, match="`label_wave`.*`index`, `indices` or `idx`"):
        run(Pairs, tmp_path, callback)


@pytest.mark.parametrize(("make", "model"), [(Classifier, None), (Rivals, "net")])
def test_batches_that_do_not_show_labels_are_pointed_out_once(
    make: Any, model: str | None, tmp_path: Path
) -> None:
    signal = Watching()
    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=[signal, Quiet()], model=model, train_accuracy=None
    )
    with pytest.warns(RoteWarning) as caught:
        fit(make(), tmp_path, [callback])
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`watching` need labels" in said
    assert "Batches without labels are not observed" in said
    assert not signal.batches


class Quiet(rote.Signal):
    """Looks at no batch."""

    name = "quiet"


def test_a_step_with_ambiguous_logits_is_reported(tmp_path: Path) -> None:
    class Unclear(Returning):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return super().training_step(batch, batch_idx)["loss"]

    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=[Watching()], inputs_of=lambda batch: batch["x"]
    )
    with pytest.warns(RoteWarning, match="`watching` need .* without logits"):
        run(Unclear, tmp_path, callback)


def test_a_second_training_begins_with_the_signal_as_it_was(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=[Watching()], inputs_of=lambda batch: batch["x"], every=4
    )
    readings = []
    for _ in range(2):
        run(Remembering, tmp_path, callback, max_steps=10, max_epochs=-1)
        readings.append([r.metrics["watched"] for r in callback.tracker.readings])
    assert len(readings[0]) == 2
    assert readings[0] == readings[1]
