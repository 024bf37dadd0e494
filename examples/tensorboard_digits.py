"""ζ in TensorBoard, then the checkpoint to keep, chosen from the event files.

    python examples/tensorboard_digits.py [LOGDIR]
    tensorboard --logdir LOGDIR

Three small networks are trained on digits with half of the labels resampled.
"""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote

EPOCHS, HOLDOUT = 8, 256


def main(logdir: str = "tensorboard-runs") -> None:
    """Train three networks, each with a run in TensorBoard, then select among them."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    y = torch.tensor(digits.target)
    is_resampled = torch.rand(len(y)) < 0.5
    y[is_resampled] = torch.randint(10, (int(is_resampled.sum()),))
    holdout, x, y = (
        x[:HOLDOUT],
        x[HOLDOUT:],
        y[HOLDOUT:],
    )  # the holdout is unlabeled, kept out of training

    for width in (16, 64, 256):
        model = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        place = {"save_to": f"tensorboard:{logdir}", "name": f"width {width}"}
        tracker = rote.track(model, optimizer, inputs=holdout, num_classes=10, **place)
        for _ in range(EPOCHS):
            total = torch.zeros(())
            for index in torch.randperm(len(x)).split(32):
                optimizer.zero_grad()
                loss = cross_entropy(model(x[index]), y[index])
                loss.backward()
                optimizer.step()
                total += loss.detach() * len(index) / len(x)
            tracker.probe(train_accuracy=(model(x).argmax(1) == y).float().mean(), loss=total)
        tracker.close()

    selection = rote.select(f"tensorboard:{logdir}", rule="staged")
    print(f"Keep epoch {selection.pick.step} of run {selection.pick.run}.")
    for sentence in (*selection.reasons, *selection.warnings):
        print(f"  {sentence}")


if __name__ == "__main__":
    main(*sys.argv[1:])
