"""A Hugging Face Trainer on short texts of which half were labeled at random.

    python examples/huggingface_text.py

A tiny BERT, nothing is downloaded. One callback brings ζ into the Trainer's own logs.
"""

import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

from rote.integrations.huggingface import SusceptibilityCallback
from rote.labels.noise import add_noise

TOPICS, WORDS, TEXTS, LENGTH = 4, 200, 400, 12


class Texts(Dataset[dict[str, torch.Tensor]]):
    """Texts of made-up words, half of which tell the topic, with the topic somebody gave them."""

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        topics = generator.integers(TOPICS, size=TEXTS)
        words = generator.integers(1, WORDS, size=(TEXTS, LENGTH))
        words -= (words - topics[:, None]) % TOPICS * (generator.random(words.shape) < 0.5)
        noisy = add_noise(
            topics, model="symmetric-inclusive", rate=0.5, num_classes=TOPICS, generator=generator
        )
        self.words, self.labels = torch.tensor(words.clip(0)), torch.tensor(noisy.labels)

    def __len__(self) -> int:
        return TEXTS

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.words[index], "labels": self.labels[index]}


torch.manual_seed(0)
sizes = {"num_labels": TOPICS, "hidden_size": 32, "num_hidden_layers": 1}
config = BertConfig(vocab_size=WORDS, intermediate_size=64, num_attention_heads=2, **sizes)
loop = {"num_train_epochs": 20, "per_device_train_batch_size": 32, "learning_rate": 0.003}
quiet = {"save_strategy": "no", "report_to": [], "dataloader_pin_memory": False}
callback = SusceptibilityCallback(num_classes=TOPICS)
trainer = Trainer(
    model=BertForSequenceClassification(config),
    args=TrainingArguments(tempfile.mkdtemp(), **loop, **quiet),
    train_dataset=Texts(),
    callbacks=[callback],
)
trainer.train()
for reading in callback.tracker.readings[4::5]:
    zeta, accuracy = reading.susceptibility_plain, reading.train_accuracy
    print(f"epoch {reading.step:2}  plain ζ {zeta:.5f}  training accuracy {accuracy:.1%}")
