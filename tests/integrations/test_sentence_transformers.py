"""The callback in the trainers of sentence-transformers: an error that says what to pass."""

from pathlib import Path
from typing import Any

import pytest
import torch

import rote

pytest.importorskip("sentence_transformers", reason="needs sentence-transformers")
pytest.importorskip("datasets", reason="needs rote[datasets]")

from datasets import Dataset  # type: ignore[import-untyped]
from sentence_transformers import SentenceTransformer
from sentence_transformers.cross_encoder import (
    CrossEncoder,
    CrossEncoderTrainer,
    CrossEncoderTrainingArguments,
)
from sentence_transformers.cross_encoder.losses import CrossEntropyLoss
from sentence_transformers.sentence_transformer.losses import ContrastiveLoss
from sentence_transformers.sentence_transformer.trainer import SentenceTransformerTrainer
from sentence_transformers.sentence_transformer.training_args import (
    SentenceTransformerTrainingArguments,
)
from transformers import BertConfig, BertForSequenceClassification, BertModel

from rote.integrations.huggingface import SusceptibilityCallback
from tests.integrations.trl_runs import VOCABULARY, WORDS, arguments, build_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("huggingface")]

SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 32,
    "pad_token_id": 0,
    "eos_token_id": 1,
}


def build_text_pairs(count: int) -> Dataset:
    drawn = torch.randint(WORDS, (count, 2, 4), generator=torch.Generator().manual_seed(0))
    texts = [[" ".join(f"w{word}" for word in text) for text in pair] for pair in drawn.tolist()]
    return Dataset.from_list([{"a": a, "b": b, "label": i % 2} for i, (a, b) in enumerate(texts)])


def settings(folder: Path) -> dict[str, Any]:
    return arguments(folder / "out", num_train_epochs=1, logging_steps=10)


@pytest.fixture
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny networks on disk, from where both packages load them."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    torch.manual_seed(0)
    networks = {
        "encoder": BertModel(BertConfig(**SIZES)),
        "classifier": BertForSequenceClassification(BertConfig(**SIZES, num_labels=2)),
    }
    for name, network in networks.items():
        network.save_pretrained(tmp_path / name)
        build_tokenizer().save_pretrained(tmp_path / name)
    return tmp_path


def build_cross_encoder(saved: Path, callback: Any) -> CrossEncoderTrainer:
    torch.manual_seed(0)
    model = CrossEncoder(str(saved / "classifier"), device="cpu", num_labels=2)
    return CrossEncoderTrainer(
        model,
        args=CrossEncoderTrainingArguments(**settings(saved)),
        train_dataset=build_text_pairs(16),
        loss=CrossEntropyLoss(model),
        callbacks=[] if callback is None else [callback],
    )


def test_sentence_encoders_name_the_arguments(saved: Path) -> None:
    model = SentenceTransformer(str(saved / "encoder"), device="cpu")
    trainer = SentenceTransformerTrainer(
        model,
        args=SentenceTransformerTrainingArguments(**settings(saved)),
        train_dataset=build_text_pairs(16),
        loss=ContrastiveLoss(model),
        callbacks=[SusceptibilityCallback()],
    )
    with pytest.raises(rote.errors.InputError, match=r"SentenceTransformerTrainer .*`loss_fn="):
        trainer.train()


def test_cross_encoders_name_the_arguments(saved: Path) -> None:
    with pytest.raises(rote.errors.InputError, match=r"CrossEncoderTrainer .*LogitsAt\('scores'\)"):
        build_cross_encoder(saved, SusceptibilityCallback()).train()


def test_cross_encoders_are_probed_with_these_arguments(saved: Path) -> None:
    pairs = build_text_pairs(12)
    tokens = build_tokenizer()(list(pairs["a"]), list(pairs["b"]), return_tensors="pt")
    callback = SusceptibilityCallback(
        inputs=(dict(tokens),),
        num_classes=2,
        loss_fn=rote.LogitsAt("scores"),
        train_accuracy=None,
    )
    found = []
    for line in (callback, None):
        trainer = build_cross_encoder(saved, line)
        trainer.train()
        found.append([value.clone() for value in trainer.model.state_dict().values()])
    assert all(map(torch.equal, *found))
    assert callback.readings[0].drop_plain != 0  # the learning rate has fallen to 0 by then
