"""Lightning on digits with half of the labels resampled: one callback shows ζ and stops in time.

python examples/lightning_digits.py        (needs rote[lightning])
"""

import logging
import tempfile
import warnings

import lightning.pytorch as pl
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import rote
from rote.integrations.lightning import SusceptibilityCallback


class Digits(pl.LightningModule):
    """A small network that logs its training accuracy."""

    def __init__(self) -> None:
        super().__init__()
        self.net = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))

    def forward(self, x: Tensor) -> Tensor:  # noqa: D102
        return self.net(x)

    def training_step(self, batch: tuple[Tensor, Tensor]) -> Tensor:  # noqa: D102
        x, y = batch
        logits = self(x)
        accuracy = (logits.argmax(1) == y).float().mean()
        self.log("train_accuracy", accuracy, on_step=False, on_epoch=True)
        return cross_entropy(logits, y)

    def configure_optimizers(self) -> torch.optim.Optimizer:  # noqa: D102
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


if __name__ == "__main__":
    torch.set_num_threads(1)
    pl.seed_everything(0, verbose=False)
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    x, truth = (torch.tensor(part) for part in load_digits(return_X_y=True))
    given = torch.where(torch.rand(len(x)) < 0.5, torch.randint(10, truth.shape), truth)
    loader = DataLoader(TensorDataset(x.float() / 16, given), batch_size=32, shuffle=True)

    rule = rote.StopRule(train_accuracy=0.5)
    with tempfile.TemporaryDirectory() as folder:
        callback = SusceptibilityCallback(num_classes=10, stop=rule, keep_to=f"{folder}/keep.ckpt")
        pl.Trainer(max_epochs=60, accelerator="cpu", logger=False, enable_progress_bar=False,
                   enable_checkpointing=False, enable_model_summary=False,
                   callbacks=[callback]).fit(Digits(), loader)  # fmt: skip
    for reading in callback.tracker.readings:
        print(f"{reading.step:3}  ζ = {reading.susceptibility:.4f}  {reading.train_accuracy:.1%}")
    print(rule.reason or f"Not stopped; so far, keep epoch {rule.keep}.")
