"""Train a tiny reward model on pairs of which 30 % are flipped, and select its checkpoint.

Needs trl, transformers and datasets. Everything is built here; nothing is downloaded. The first
argument is the seed.
"""

import sys
import tempfile
from pathlib import Path

import torch
from datasets import Dataset  # type: ignore[import-untyped]
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

from rote.integrations.huggingface import SusceptibilityCallback

WORDS, FILLERS, LENGTH, FLIPPED = 8, 400, 8, 0.3


def make_pairs(count: int, seed: int, flipped: float) -> Dataset:
    """Prefer the text with a word of the first half of the vocabulary; flip some pairs.

    One word of a text decides. The others are fillers, by which a network can tell single pairs
    apart, and so memorize which of them were flipped.
    """
    generator = torch.Generator().manual_seed(seed)
    texts = torch.randint(WORDS, WORDS + FILLERS, (count, 2, LENGTH), generator=generator)
    words = torch.randint(WORDS // 2, (count, 2), generator=generator)
    places = torch.randint(LENGTH, (count, 2, 1), generator=generator)
    texts.scatter_(2, places, (words + torch.tensor([0, WORDS // 2])).unsqueeze(2))
    chosen = (torch.rand(count, generator=generator) < flipped).long().tolist()
    rows = [[" ".join(f"w{word}" for word in text) for text in pair] for pair in texts.tolist()]
    pairs = zip(rows, chosen, strict=True)
    return Dataset.from_list([{"chosen": r[i], "rejected": r[1 - i]} for r, i in pairs])


def make_tokenizer() -> PreTrainedTokenizerFast:
    """Make a tokenizer with one token per word."""
    names = ["<pad>", "<eos>", "<unk>", *[f"w{number}" for number in range(WORDS + FILLERS)]]
    words = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    special = {"pad_token": "<pad>", "eos_token": "<eos>", "unk_token": "<unk>"}
    return PreTrainedTokenizerFast(tokenizer_object=words, **special)


def train(folder: Path, seed: int, epochs: int) -> tuple[RewardTrainer, SusceptibilityCallback]:
    """Train a reward model on flipped pairs, with flipped pairs held out for the verdict."""
    torch.manual_seed(seed)
    size = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "num_labels": 1}
    names = {"vocab_size": WORDS + FILLERS + 3, "pad_token_id": 0, "eos_token_id": 1}
    callback = SusceptibilityCallback(save_to=folder / "run", seed=seed)
    quiet = {"use_cpu": True, "report_to": [], "bf16": False, "disable_tqdm": True}
    trainer = RewardTrainer(
        LlamaForSequenceClassification(LlamaConfig(**names, **size, **heads)),
        args=RewardConfig(
            str(folder / "out"),
            num_train_epochs=epochs,
            per_device_train_batch_size=32,
            learning_rate=0.002,
            lr_scheduler_type="constant",
            save_strategy="epoch",
            logging_strategy="no",
            dataloader_pin_memory=False,
            gradient_checkpointing=False,
            seed=seed,
            **quiet,
        ),
        train_dataset=make_pairs(480, 3 * seed, FLIPPED),
        eval_dataset=make_pairs(300, 3 * seed + 1, FLIPPED),
        processing_class=make_tokenizer(),
        callbacks=[callback],
    )
    trainer.train()
    return trainer, callback


def main(seed: int = 0, epochs: int = 12) -> dict[str, float | None]:
    """Train, and compare the selected checkpoint with the last one on clean pairs."""
    with tempfile.TemporaryDirectory() as folder:
        trainer, callback = train(Path(folder), seed, epochs)
        clean = make_pairs(500, 3 * seed + 2, 0.0)
        last = trainer.evaluate(clean)["eval_accuracy"]
        assert callback.verdict is not None
        path = str(callback.verdict.pick.file)
        trainer.model = LlamaForSequenceClassification.from_pretrained(path)
        selected = trainer.evaluate(clean)["eval_accuracy"]
    rate = callback.verdict.noise_rate
    print(f"on clean pairs: selected {selected:.1%}, last {last:.1%}")
    print(f"estimated share of flipped pairs: {'unknown' if rate is None else f'{rate:.0%}'}")
    return {"selected": selected, "last": last, "noise_rate": rate}


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
