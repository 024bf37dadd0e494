"""Train a tiny reward model on pairs of which 30 % are flipped, and select its checkpoint.

Needs trl, transformers and datasets. Everything is built here; nothing is downloaded.
"""

import tempfile
from pathlib import Path

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

from rote.integrations.huggingface import SusceptibilityCallback

WORDS, LENGTH, FLIPPED = 16, 6, 0.3


def make_pairs(count: int, seed: int, flipped: float) -> Dataset:
    """Prefer the text with more words of the first half of the vocabulary; flip some pairs."""
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(WORDS, (count, 2, LENGTH), generator=generator)
    winner = (texts < WORDS // 2).sum(2).float() + 0.01 * torch.rand(count, 2, generator=generator)
    first = winner.argmax(1) ^ (torch.rand(count, generator=generator) < flipped).long()
    rows = [[" ".join(f"w{word}" for word in text) for text in pair] for pair in texts.tolist()]
    pairs = zip(rows, first.tolist(), strict=True)
    return Dataset.from_list([{"chosen": r[i], "rejected": r[1 - i]} for r, i in pairs])


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token per word."""
    names = ["<pad>", "<eos>", "<unk>", *[f"w{number}" for number in range(WORDS)]]
    words = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **special)


def main(epochs: int = 10) -> None:
    """Train, and compare the selected checkpoint with the last one on clean pairs."""
    torch.manual_seed(0)
    folder = Path(tempfile.mkdtemp())
    size = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_labels": 1}
    config = LlamaConfig(vocab_size=WORDS + 3, pad_token_id=0, eos_token_id=1, **size, **heads)
    callback = SusceptibilityCallback(save_to=folder / "run")
    quiet = {"use_cpu": True, "report_to": [], "bf16": False, "disable_tqdm": True}
    trainer = RewardTrainer(
        LlamaForSequenceClassification(config),
        args=RewardConfig(
            str(folder / "out"),
            num_train_epochs=epochs,
            per_device_train_batch_size=32,
            learning_rate=0.005,
            lr_scheduler_type="constant",
            save_strategy="epoch",
            logging_strategy="no",
            dataloader_pin_memory=False,
            gradient_checkpointing=False,
            **quiet,
        ),
        train_dataset=make_pairs(640, 1, FLIPPED),
        eval_dataset=make_pairs(300, 2, FLIPPED),
        processing_class=make_tokenizer(),
        callbacks=[callback],
    )
    trainer.train()
    clean = make_pairs(300, 3, 0.0)
    last = trainer.evaluate(clean)["eval_accuracy"]
    assert callback.verdict is not None
    path = str(callback.verdict.pick.file)
    trainer.model = LlamaForSequenceClassification.from_pretrained(path)
    selected = trainer.evaluate(clean)["eval_accuracy"]
    rate = callback.verdict.noise_rate
    print(f"on clean pairs: selected {selected:.1%}, last {last:.1%}")
    print(f"estimated share of flipped pairs: {'unknown' if rate is None else f'{rate:.0%}'}")


if __name__ == "__main__":
    main()
