"""Stop a network on noisy digits when it begins to memorize, without a validation set.

    python examples/stopping_digits.py

Half of the labels are resampled. The last line needs the truth, and shows what stopping was worth.
"""

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote
from rote.labels.noise import add_noise

EPOCHS, HOLDOUT, TEST = 60, 256, 400


def main() -> None:
    """Train until the rule says stop; then go on, to see what would have happened."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = load_digits()
    x, truth = torch.tensor(digits.data / 16, dtype=torch.float32), torch.tensor(digits.target)
    noise = {"model": "symmetric-inclusive", "rate": 0.5, "num_classes": 10}
    given = add_noise(digits.target, generator=np.random.default_rng(0), **noise).labels
    holdout, test, train = (
        slice(0, HOLDOUT),
        slice(HOLDOUT, HOLDOUT + TEST),
        slice(HOLDOUT + TEST, None),
    )
    inputs, labels = x[train], torch.from_numpy(given)[train]

    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tracker = rote.track(model, optimizer, inputs=x[holdout], num_classes=10)
    rule = rote.StopRule(train_accuracy=0.5, patience=3, min_epochs=5)
    correct = {}
    for epoch in range(1, EPOCHS + 1):
        for index in torch.randperm(len(inputs)).split(32):
            optimizer.zero_grad()
            cross_entropy(model(inputs[index]), labels[index]).backward()
            optimizer.step()
        reading = tracker.probe(train_accuracy=tracker.accuracy(inputs, labels))
        correct[epoch] = tracker.accuracy(x[test], truth[test])  # not for the rule's eyes
        was_stopped = rule.stopped
        if rule.update(reading) and not was_stopped:
            print(f"Stop after epoch {epoch}. {rule.reason}")
    best = max(correct, key=lambda epoch: correct[epoch])
    shown = {"kept": rule.keep or EPOCHS, "last": EPOCHS, "best": best}
    print(", ".join(f"{name} epoch {step}: {correct[step]:.1%}" for name, step in shown.items()))


if __name__ == "__main__":
    main()
