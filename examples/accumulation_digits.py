"""Gradient accumulation, clipping and a learning rate schedule in a loop of your own.

    python examples/accumulation_digits.py

The probe may come at any moment: half-accumulated gradients are put back as they were.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.labels.noise import add_noise

EPOCHS, BATCH, PARTS, HOLDOUT = 20, 16, 4, 256


def train(*, probes: bool = True) -> nn.Module:
    """Train on digits of which half were labeled at random; probe after every epoch."""
    torch.manual_seed(0)
    digits = load_digits()
    generator = np.random.default_rng(0)
    noisy = add_noise(
        digits.target, model="symmetric-inclusive", rate=0.5, num_classes=10, generator=generator
    )
    x, y = torch.tensor(digits.data / 16.0).float(), torch.tensor(noisy.labels)
    holdout, x, y = x[:HOLDOUT], x[HOLDOUT:], y[HOLDOUT:]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    if probes:
        tracker = rote.track(model, optimizer, inputs=holdout, num_classes=10)

    for epoch in range(1, EPOCHS + 1):
        hits = 0
        for part, index in enumerate(torch.randperm(len(x)).split(BATCH), start=1):
            logits = model(x[index])
            hits += int((logits.argmax(1) == y[index]).sum())
            (cross_entropy(logits, y[index]) / PARTS).backward()
            if part % PARTS == 0:  # the last, incomplete group goes on in the next epoch
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        if probes:
            reading = tracker.probe(train_accuracy=hits / len(x))
            if epoch % 5 == 0:
                plain = reading.susceptibility_plain
                print(f"epoch {epoch:2}  ζ {reading.susceptibility:.4f}  plain ζ {plain:.4f}")
        schedule.step()
    return model


if __name__ == "__main__":
    train()
