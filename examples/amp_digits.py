"""Mixed precision with torch.amp and a GradScaler.

    python examples/amp_digits.py

Probe inside the same autocast as training. The scaler is no part of the probe, and stays as it is.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.labels.noise import add_noise

EPOCHS, BATCH, HOLDOUT = 20, 64, 256
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
DTYPE = torch.float16 if DEVICE == "cuda" else torch.bfloat16


def train(*, probes: bool = True) -> nn.Module:
    """Train on digits of which half were labeled at random; probe after every epoch."""
    torch.manual_seed(0)
    digits = load_digits()
    generator = np.random.default_rng(0)
    noisy = add_noise(
        digits.target, model="symmetric-inclusive", rate=0.5, num_classes=10, generator=generator
    )
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32, device=DEVICE)
    y = torch.tensor(noisy.labels, device=DEVICE)
    holdout, x, y = x[:HOLDOUT], x[HOLDOUT:], y[HOLDOUT:]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.003)
    scaler = torch.amp.GradScaler(DEVICE)
    if probes:
        tracker = rote.track(model, optimizer, inputs=holdout, num_classes=10)

    for epoch in range(1, EPOCHS + 1):
        hits = 0
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            with torch.autocast(DEVICE, DTYPE):
                logits = model(x[index])
                loss = cross_entropy(logits, y[index])
            hits += int((logits.argmax(1) == y[index]).sum())
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        if probes:
            with torch.autocast(DEVICE, DTYPE):
                reading = tracker.probe(train_accuracy=hits / len(x))
            if epoch % 5 == 0:
                print(f"epoch {epoch:2}  ζ {reading.susceptibility:.4f}")
    return model


if __name__ == "__main__":
    train()
