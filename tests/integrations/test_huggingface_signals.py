"""Signals see the batches of a Trainer's training, and training does not notice."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InputError, RoteWarning

pytest.importorskip("transformers", reason="needs rote[huggingface]")

from transformers import TrainerCallback

from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.huggingface_runs import (
    CLASSES,
    SAMPLES,
    Texts,
    assert_identical,
    build_trainer,
    left_behind,
)
from tests.integrations.watching import Watching

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]

CASES: dict[str, dict[str, Any]] = {
    "sequence": {},
    "token": {"kind": "token"},
    "accumulation": {"gradient_accumulation_steps": 2},
    "bf16, checkpointed": {"bf16": True, "gradient_checkpointing": True},
    "adapters": {"kind": "adapters"},
    "evaluated": {"eval_strategy": "steps", "eval_steps": 1, "options": {"eval_dataset": Texts()}},
}


@pytest.mark.parametrize("name", CASES)
def test_signals_see_every_batch_and_training_is_bit_identical(name: str, tmp_path: Path) -> None:
    signal = Watching()
    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=[signal], policy=rote.ProbePolicy(verify=True)
    )
    probed = build_trainer(tmp_path, callback, logging_steps=1, **CASES[name])
    probed.train()
    seen = left_behind(probed)
    bare = build_trainer(tmp_path, logging_steps=1, **CASES[name])
    bare.train()
    assert_identical(seen, left_behind(bare))
    assert len(signal.batches) == 15
    tokens = [dict(batch.inputs)["input_ids"] for batch in signal.batches]
    assert_identical(tokens, seen["batches"])
    texts = Texts(per_token=name == "token")
    pairs = zip(texts.tokens, texts.labels, strict=True)
    given = {tuple(row.tolist()): label for row, label in pairs}
    for batch, texts_of in zip(signal.batches, tokens, strict=True):
        rows = [tuple(row.tolist()) for row in texts_of]
        assert torch.equal(batch.labels, torch.stack([given[row] for row in rows]))
        assert not batch.logits.requires_grad
        assert set(dict(batch.inputs)) <= {"input_ids", "attention_mask", "token_type_ids"}
    if name == "accumulation":
        assert all(batch.loss is None for batch in signal.batches)
    else:
        for batch, entry in zip(signal.batches, seen["losses"], strict=True):
            own = cross_entropy(batch.logits.float().movedim(-1, 1), batch.labels).item()
            assert batch.loss.item() == pytest.approx(own, rel=1e-2)
            assert batch.loss.item() == pytest.approx(entry["loss"], rel=1e-4)
    assert all("watched" in reading.metrics for reading in callback.tracker.readings)
    assert not probed.model._forward_hooks


class Numbered(Texts):
    """Texts that know which they are."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {**super().__getitem__(index), "idx": torch.tensor(index)}


def test_label_wave_where_the_model_lets_indices_pass(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, signals=["label_wave"])
    trainer = build_trainer(
        tmp_path, callback, num_train_epochs=5, remove_unused_columns=False, logging_steps=1
    )
    trainer.train_dataset = Numbered()
    trainer.train()
    known = ["label_wave" in reading.metrics for reading in callback.tracker.readings]
    assert known == [False, False, False, True, True]
    assert 0 <= callback.tracker.readings[-1].metrics["label_wave"] <= 1
    assert len(trainer.batches) == 5 * SAMPLES // 4


def test_rivals_by_their_names(tmp_path: Path) -> None:
    names = ["aum", "confident_learning", "gradient_disparity", "gwa", "pmv", "selc"]
    callback = SusceptibilityCallback(
        num_classes=CLASSES, signals=names, policy=rote.ProbePolicy(verify=True)
    )
    found = []
    for callbacks in ((callback,), ()):
        trainer = build_trainer(
            tmp_path,
            *callbacks,
            num_train_epochs=2,
            gradient_accumulation_steps=2,
            remove_unused_columns=False,
            logging_steps=1,
        )
        trainer.train_dataset = Numbered()
        trainer.train()
        found.append(left_behind(trainer))
    assert_identical(*found)
    assert set(names) <= set(callback.tracker.readings[-1].metrics)


def test_a_signal_that_needs_indices_says_where_they_are_looked_for(tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES, signals=["label_wave"])
    with pytest.raises(InputError, match="`label_wave`.*`index`, `indices` or `idx`"):
        build_trainer(tmp_path, callback).train()


def test_a_model_that_gets_no_labels_is_pointed_out_once(tmp_path: Path) -> None:
    signal = Watching()
    callback = SusceptibilityCallback(num_classes=CLASSES, signals=[signal])
    with pytest.warns(RoteWarning) as caught:
        build_trainer(tmp_path, callback, label_smoothing_factor=0.1).train()
    (said,) = [str(entry.message) for entry in caught if entry.category is RoteWarning]
    assert "`watching` need labels" in said
    assert "Batches without labels are not observed" in said
    assert not signal.batches


class Kill(TrainerCallback):
    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == 9:
            raise InterruptedError


def test_a_resumed_run_has_the_same_signals(tmp_path: Path) -> None:
    arguments = {"save_strategy": "steps", "save_steps": 7}
    whole, killed, resumed = (
        SusceptibilityCallback(num_classes=CLASSES, signals=[Watching()], every=5) for _ in range(3)
    )
    build_trainer(tmp_path / "whole", whole, **arguments).train()
    trainer = build_trainer(tmp_path / "cut", killed, **arguments)
    trainer.add_callback(Kill())
    with pytest.raises(InterruptedError):
        trainer.train()
    build_trainer(tmp_path / "cut", resumed, **arguments).train(resume_from_checkpoint=True)
    found = [
        [reading.metrics["watched"] for reading in callback.tracker.readings]
        for callback in (whole, resumed)
    ]
    assert len(found[0]) == 3
    assert found[0] == found[1]
