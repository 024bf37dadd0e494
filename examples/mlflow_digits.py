"""ζ beside the loss in MLflow, then the checkpoint to keep, chosen from what MLflow holds.

    python examples/mlflow_digits.py [STORE.db]
    mlflow ui --backend-store-uri sqlite:///STORE.db

Three small networks are trained on digits with half of the labels resampled.
"""

import sys

import mlflow
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import rote

EPOCHS, HOLDOUT = 8, 256


def main(store: str = "mlflow.db") -> None:
    """Train three networks inside runs of MLflow, then select among them."""
    torch.set_num_threads(1)
    mlflow.set_tracking_uri(f"sqlite:///{store}")
    mlflow.set_experiment("noisy digits")
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

    for lr in (0.02, 0.1, 0.5):
        model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
        with mlflow.start_run(run_name=f"lr {lr}"):
            # "mlflow:" is the run that is open; "mlflow:EXPERIMENT" would start one.
            tracker = rote.track(
                model, optimizer, inputs=holdout, num_classes=10, save_to="mlflow:"
            )
            for epoch in range(1, EPOCHS + 1):
                for index in torch.randperm(len(x)).split(32):
                    optimizer.zero_grad()
                    loss = cross_entropy(model(x[index]), y[index])
                    loss.backward()
                    optimizer.step()
                mlflow.log_metric("loss", loss.item(), step=epoch)
                tracker.probe(train_accuracy=(model(x).argmax(1) == y).float().mean())

    selection = rote.select(f"mlflow:noisy digits@sqlite:///{store}", rule="staged")
    print(f"Keep epoch {selection.pick.step} of run {selection.pick.run}.")
    for sentence in (*selection.reasons, *selection.warnings):
        print(f"  {sentence}")


if __name__ == "__main__":
    main(*sys.argv[1:])
