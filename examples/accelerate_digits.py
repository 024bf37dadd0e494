"""Hugging Face Accelerate: bf16, gradient accumulation and clipping.

    accelerate launch examples/accelerate_digits.py        (or: python examples/...)

The prepared model and optimizer go to rote.track as they are.
"""

import numpy as np
import torch
from accelerate import Accelerator  # type: ignore[import-untyped]
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import rote
from rote.labels.noise import add_noise

EPOCHS, BATCH, HOLDOUT = 20, 32, 256


def train(*, probes: bool = True) -> nn.Module:
    """Train on digits of which half were labeled at random; probe after every epoch."""
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    torch.manual_seed(0)
    digits = load_digits()
    generator = np.random.default_rng(0)
    noisy = add_noise(
        digits.target, model="symmetric-inclusive", rate=0.5, num_classes=10, generator=generator
    )
    x, y = torch.tensor(digits.data / 16.0).float(), torch.tensor(noisy.labels)
    loader = DataLoader(TensorDataset(x[HOLDOUT:], y[HOLDOUT:]), BATCH, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    if probes:
        tracker = rote.track(model, optimizer, inputs=x[:HOLDOUT], num_classes=10)
        accelerator.register_for_checkpointing(tracker)  # save_state and load_state include it

    for epoch in range(1, EPOCHS + 1):
        hits = torch.zeros((), device=accelerator.device)
        for images, labels in loader:
            with accelerator.accumulate(model):
                logits = model(images)
                accelerator.backward(cross_entropy(logits, labels))
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
            hits += (logits.argmax(1) == labels).sum()
        if probes:
            accuracy = accelerator.reduce(hits) / (len(x) - HOLDOUT)
            reading = tracker.probe(train_accuracy=accuracy)
            if epoch % 5 == 0:
                accelerator.print(f"epoch {epoch:2}  ζ {reading.susceptibility:.4f}")
    return accelerator.unwrap_model(model)


if __name__ == "__main__":
    train()
