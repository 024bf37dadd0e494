"""Tiny language models, a tokenizer and data for the trainers of TRL, all built here."""

from pathlib import Path
from typing import Any

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    LlamaForSequenceClassification,
    PreTrainedTokenizerFast,
)

WORDS = 40
VOCABULARY = WORDS + 3

QUIET: dict[str, Any] = {
    "use_cpu": True,
    "report_to": [],
    "dataloader_pin_memory": False,
    "bf16": False,
    "save_strategy": "no",
    "disable_tqdm": True,
    "num_train_epochs": 2,
    "per_device_train_batch_size": 8,
    "learning_rate": 0.02,
    "logging_steps": 2,
    "gradient_checkpointing": False,
}


def build_tokenizer() -> PreTrainedTokenizerFast:
    names = ["<pad>", "<eos>", "<unk>", *[f"w{number}" for number in range(WORDS)]]
    words = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **special)


def build_config(**others: Any) -> LlamaConfig:
    tiny: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": 16,
        "intermediate_size": 24,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "max_position_embeddings": 64,
        "pad_token_id": 0,
        "eos_token_id": 1,
        "bos_token_id": None,
    }
    return LlamaConfig(**(tiny | others))


def build_language_model() -> LlamaForCausalLM:
    torch.manual_seed(0)
    return LlamaForCausalLM(build_config())


def build_reward_model() -> LlamaForSequenceClassification:
    torch.manual_seed(0)
    return LlamaForSequenceClassification(build_config(num_labels=1))


def build_texts(count: int, seed: int = 0) -> Dataset:
    """Counting words, from a random one on."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        length, start = (int(torch.randint(4, WORDS, (), generator=generator)) for _ in range(2))
        words = (f"w{(start + place) % WORDS}" for place in range(4 + length % 5))
        rows.append({"text": " ".join(words)})
    return Dataset.from_list(rows)


def build_pairs(
    count: int, seed: int = 0, *, flipped: float = 0.3, prompt: bool = False
) -> Dataset:
    """Words that count up are chosen over words that jump; 30 % of the pairs are flipped."""
    generator = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        start, other = torch.randint(WORDS, (2,), generator=generator).tolist()
        good = " ".join(f"w{(start + place) % WORDS}" for place in range(5))
        bad = " ".join(f"w{(other + 7 * place) % WORDS}" for place in range(5))
        if torch.rand((), generator=generator) < 0.3:
            good, bad = bad, good
        first = {"prompt": f"w{start}"} if prompt else {}
        rows.append({**first, "chosen": good, "rejected": bad})
    return Dataset.from_list(rows)


def arguments(folder: Path, **others: Any) -> dict[str, Any]:
    return {"output_dir": str(folder), **QUIET, **others}
