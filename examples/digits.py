"""Train one small network on digits with half of the labels resampled, and watch ζ.

    python examples/digits.py [FIGURE.svg]

ζ is computed without a clean label. The last two columns need the truth, which is known here, and
show what ζ tracks: the network first learns the clean labels, then memorizes the noisy ones.
"""

import sys

import altair as alt
import numpy as np
import polars as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote

NOISE, EPOCHS, BATCH, HOLDOUT = 0.5, 60, 32, 256


def noisy_digits() -> tuple[Tensor, Tensor, Tensor]:
    """Digits, their labels, and labels of which half were resampled uniformly over all classes."""
    generator = np.random.default_rng(0)
    digits = load_digits()
    x = torch.tensor(digits.data / 16.0, dtype=torch.float32)
    truth = digits.target.copy()
    given = truth.copy()
    resampled = generator.permutation(len(given))[: round(NOISE * len(given))]
    given[resampled] = generator.integers(0, 10, len(resampled))
    return x, torch.tensor(truth), torch.tensor(given)


def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Return the share of labels that the model predicts."""
    model.eval()
    with torch.no_grad():
        return (model(x).argmax(1) == y).float().mean().item()


def main() -> None:
    """Train, probe after every epoch, print."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    x, truth, given = noisy_digits()
    holdout, x = x[:HOLDOUT], x[HOLDOUT:]  # unlabeled, kept out of training
    truth, given = truth[HOLDOUT:], given[HOLDOUT:]
    noisy = given != truth
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    tracker = rote.track(model, optimizer, inputs=holdout, num_classes=10)

    print(f"{len(x)} digits, {noisy.float().mean():.1%} of the labels are wrong\n")
    print("epoch       ζ   train accuracy   on clean labels   on noisy labels (memorized)")
    for epoch in range(1, EPOCHS + 1):
        model.train()
        for index in torch.randperm(len(x)).split(BATCH):
            optimizer.zero_grad()
            cross_entropy(model(x[index]), given[index]).backward()
            optimizer.step()
        reading = tracker.probe(
            train_accuracy=accuracy(model, x, given),
            clean_accuracy=accuracy(model, x[~noisy], given[~noisy]),
            noisy_accuracy=accuracy(model, x[noisy], given[noisy]),
        )
        if reading is not None and (epoch <= 5 or epoch % 5 == 0):
            print(
                f"{epoch:5}  {reading.susceptibility:6.3f}   {reading.train_accuracy:14.1%}"
                f"   {reading.clean_accuracy:15.1%}   {reading.noisy_accuracy:15.1%}"
            )
    if len(sys.argv) > 1:
        draw(tracker.readings, sys.argv[1])


def draw(readings: list[rote.Reading], path: str) -> None:
    """ζ above, what it tracks below."""
    rows = [
        {"epoch": r.step, "ζ": r.susceptibility, "labels": labels, "accuracy": value}
        for r in readings
        for labels, value in (("clean", r.clean_accuracy), ("noisy", r.noisy_accuracy))
    ]
    base = alt.Chart(pl.DataFrame(rows)).properties(width=560, height=130)
    zeta = base.mark_line(color="#0072B2", strokeWidth=2.5).encode(
        x=alt.X("epoch", title=None), y=alt.Y("ζ", title="susceptibility ζ")
    )
    # Below, and with room around: the fonts of a reader may be wider than those measured here.
    below = alt.Legend(orient="bottom", titleLimit=0, labelLimit=0)
    colors = alt.Scale(domain=["clean", "noisy"], range=["#009E73", "#D55E00"])
    truth = base.mark_line(strokeWidth=2.5).encode(
        x="epoch",
        y=alt.Y("accuracy", title="training accuracy", axis=alt.Axis(format="%")),
        color=alt.Color("labels", scale=colors, title="on labels that are", legend=below),
    )
    title = "Without one clean label, ζ rises as the noisy labels are memorized"
    room = {"left": 24, "right": 24, "top": 8, "bottom": 8}
    both = alt.vconcat(zeta, truth).properties(title=title, padding=room)
    both.configure(background="white").save(path)


if __name__ == "__main__":
    main()
