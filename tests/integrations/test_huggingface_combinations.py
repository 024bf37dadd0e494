"""Options of a Trainer that people use together."""

import itertools
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

import rote

pytest.importorskip("transformers", reason="needs rote[huggingface]")

from transformers import EarlyStoppingCallback

from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.huggingface_runs import (
    CLASSES,
    Texts,
    assert_identical,
    build_trainer,
    left_behind,
)

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]


class Ragged(Texts):
    """Texts as they come, not padded."""

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        length = int(self.mask[index].sum())
        return {"input_ids": self.tokens[index][:length], "labels": self.labels[index]}


def padded(items: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    tokens = pad_sequence([item["input_ids"] for item in items], batch_first=True)
    labels = torch.stack([item["labels"] for item in items])
    return {"input_ids": tokens, "attention_mask": (tokens > 0).long(), "labels": labels}


def test_all_at_once_trains_the_same(tmp_path: Path) -> None:
    found = []
    callback = SusceptibilityCallback(num_classes=CLASSES, policy=rote.ProbePolicy(verify=True))
    for name, own in (("probed", callback), ("bare", None)):
        trainer = build_trainer(
            tmp_path / name,
            own,
            gradient_accumulation_steps=2,
            max_grad_norm=0.1,
            label_smoothing_factor=0.1,
            train_sampling_strategy="group_by_length",
            eval_strategy="steps",
            eval_steps=2,
            save_strategy="epoch",
            gradient_checkpointing=True,
            options={"data_collator": padded, "eval_dataset": Ragged()},
        )
        trainer.train_dataset = Ragged()
        trainer.train()
        found.append(left_behind(trainer))
    assert_identical(*found)
    assert len(callback.tracker.readings) == 3


@pytest.mark.parametrize("metric", ["susceptibility", "eval_susceptibility_plain"])
def test_the_best_model_may_be_that_of_the_lowest_zeta(metric: str, tmp_path: Path) -> None:
    callback = SusceptibilityCallback(num_classes=CLASSES)
    trainer = build_trainer(
        tmp_path,
        callback,
        num_train_epochs=8,
        eval_strategy="epoch",
        save_strategy="epoch",
        load_best_model_at_end=True,
        metric_for_best_model=metric,
        greater_is_better=False,
        options={"eval_dataset": Texts()},
    )
    trainer.add_callback(EarlyStoppingCallback(early_stopping_patience=1))
    trainer.train()
    zetas = [
        getattr(reading, metric.removeprefix("eval_")) for reading in callback.tracker.readings
    ]
    rises = [later >= earlier for earlier, later in itertools.pairwise(zetas)]
    assert rises == [False] * (len(zetas) - 2) + [True]  # stopped at the first rise, and not before
    best = callback.tracker.readings[-2]
    assert trainer.state.best_metric == min(zetas)
    assert Path(trainer.state.best_model_checkpoint).name == f"checkpoint-{best.global_step:.0f}"
    assert "eval_susceptibility" not in trainer.evaluate()
