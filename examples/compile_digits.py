"""A model compiled with torch.compile.

    python examples/compile_digits.py [BACKEND]

The probe looks through the compiled wrapper at the module inside and runs that uncompiled, so it
compiles nothing and takes nothing out of the compiler's cache. torch's own default backend is
"inductor": faster training, but the first step takes half a minute.
"""

import sys

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.labels.noise import add_noise

EPOCHS, BATCH, HOLDOUT = 20, 64, 256


def train(*, probes: bool = True, backend: str = "aot_eager") -> nn.Module:
    """Train on digits of which half were labeled at random; probe after every epoch."""
    torch.manual_seed(0)
    digits = load_digits()
    generator = np.random.default_rng(0)
    noisy = add_noise(
        digits.target, model="symmetric-inclusive", rate=0.5, num_classes=10, generator=generator
    )
    x, y = torch.tensor(digits.data / 16.0).float(), torch.tensor(noisy.labels)
    holdout, x, y = x[:HOLDOUT], x[HOLDOUT:], y[HOLDOUT:]
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    compiled = torch.compile(model, backend=backend)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    if probes:
        tracker = rote.track(compiled, optimizer, inputs=holdout, num_classes=10)

    for epoch in range(1, EPOCHS + 1):
        hits = 0
        for index in torch.randperm(len(x)).split(BATCH)[:-1]:  # one size of batch: compiled once
            optimizer.zero_grad()
            logits = compiled(x[index])
            cross_entropy(logits, y[index]).backward()
            optimizer.step()
            hits += int((logits.argmax(1) == y[index]).sum())
        if probes:
            reading = tracker.probe(train_accuracy=hits / (len(x) // BATCH * BATCH))
            if epoch % 5 == 0:
                print(f"epoch {epoch:2}  ζ {reading.susceptibility:.4f}")
    return model


if __name__ == "__main__":
    train(backend=sys.argv[1] if len(sys.argv) > 1 else "aot_eager")
