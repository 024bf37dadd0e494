"""Tiny Trainer runs, the same every time, and what they left behind."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertForTokenClassification,
    Trainer,
    TrainingArguments,
)

from rote.integrations.huggingface import SusceptibilityCallback

CLASSES, VOCABULARY, LENGTH, SAMPLES = 3, 12, 6, 20


class Texts(Dataset[dict[str, Tensor]]):
    """Random token rows of several lengths, padded, with noisy labels per text or per token."""

    def __init__(self, *, per_token: bool = False, samples: int = SAMPLES) -> None:
        generator = torch.Generator().manual_seed(7)
        self.tokens = torch.randint(1, VOCABULARY, (samples, LENGTH), generator=generator)
        lengths = torch.randint(3, LENGTH + 1, (samples, 1), generator=generator)
        self.mask = (torch.arange(LENGTH) < lengths).long()
        self.tokens *= self.mask
        shape = (samples, LENGTH) if per_token else (samples,)
        self.labels = torch.randint(CLASSES, shape, generator=generator)
        if per_token:
            self.labels[:, 0] = -100  # as a tokenizer's first special token
            self.labels[self.mask == 0] = -100

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {
            "input_ids": self.tokens[index],
            "attention_mask": self.mask[index],
            "labels": self.labels[index],
        }


def with_adapters(base: nn.Module) -> nn.Module:
    """A frozen base with low-rank adapters and a classifier that train."""
    peft = pytest.importorskip("peft", reason="needs peft")
    config = peft.LoraConfig(
        task_type="SEQ_CLS", r=2, lora_dropout=0.2, target_modules=["query", "value"]
    )
    adapted: nn.Module = peft.get_peft_model(base, config)
    return adapted


class Recording(Trainer):
    """Remembers the batches of training, in order."""

    def training_step(self, model: Any, inputs: Any, num_items_in_batch: Any = None) -> Tensor:
        vars(self).setdefault("batches", []).append(inputs["input_ids"].clone())
        return super().training_step(model, inputs, num_items_in_batch)


def build_model(kind: str = "sequence") -> nn.Module:
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=12,
        max_position_embeddings=LENGTH,
        hidden_dropout_prob=0.3,
        num_labels=CLASSES,  # type: ignore[call-arg]  # an argument of every configuration
    )
    if kind == "token":
        return BertForTokenClassification(config)
    base = BertForSequenceClassification(config)
    return with_adapters(base) if kind == "adapters" else base


def build_trainer(
    folder: Path,
    callback: SusceptibilityCallback | None = None,
    *,
    kind: str = "sequence",
    trainer: type[Trainer] = Recording,
    options: dict[str, Any] | None = None,
    **arguments: Any,
) -> Any:
    settings = {
        "use_cpu": True,
        "num_train_epochs": 3,
        "per_device_train_batch_size": 4,
        "learning_rate": 0.01,
        "warmup_steps": 2,
        "weight_decay": 0.01,
        "logging_steps": 2,
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
        "seed": 3,
    }
    return trainer(
        model=build_model(kind),
        args=TrainingArguments(output_dir=str(folder), **{**settings, **arguments}),
        train_dataset=Texts(per_token=kind == "token"),
        callbacks=[] if callback is None else [callback],
        **(options or {}),
    )


def left_behind(trainer: Any) -> dict[str, Any]:
    """Everything that a callback must not change: weights, states, order, random numbers."""
    losses = [entry for entry in trainer.state.log_history if "loss" in entry]
    return {
        "weights": trainer.model.state_dict(),
        "optimizer": trainer.optimizer.state_dict(),
        "scheduler": trainer.lr_scheduler.state_dict(),
        "batches": trainer.batches,
        "losses": losses,
        "randomness": torch.get_rng_state(),
    }


def assert_identical(some: Any, other: Any) -> None:
    """Bit for bit, all the way down."""
    assert type(some) is type(other)
    if isinstance(some, Tensor):
        assert some.dtype == other.dtype
        assert torch.equal(some.reshape(-1).view(torch.uint8), other.reshape(-1).view(torch.uint8))
    elif isinstance(some, dict):
        assert list(some) == list(other)
        for key in some:
            assert_identical(some[key], other[key])
    elif isinstance(some, list | tuple):
        assert len(some) == len(other)
        for mine, theirs in zip(some, other, strict=True):
            assert_identical(mine, theirs)
    else:
        assert some == other
