"""Small Lightning runs in which everything that a probe could disturb leaves a trace."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

FEATURES, CLASSES, SAMPLES, BATCH = 6, 3, 48, 8

QUIET = [
    "ignore:.*LeafSpec.*:FutureWarning",  # lightning 2.6 on torch 2.13
    "ignore:.*does not have many workers.*:UserWarning",
    "ignore:The number of training batches.*smaller than the logging interval:UserWarning",
    "ignore:The dirpath has changed from:UserWarning",
]


class NoisySamples(Dataset[tuple[Tensor, Tensor, int]]):
    """Samples with random augmentation, and their number, so that the order shows."""

    def __init__(self, size: int = SAMPLES) -> None:
        generator = torch.Generator().manual_seed(1)
        self.x = torch.randn(size, FEATURES, generator=generator)
        self.y = torch.randint(CLASSES, (size,), generator=generator)

    def __len__(self) -> int:
        return len(self.x)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor, int]:
        return self.x[index] + 0.1 * torch.randn(FEATURES), self.y[index], index


def network() -> nn.Module:
    return nn.Sequential(
        nn.Linear(FEATURES, 12),
        nn.BatchNorm1d(12),
        nn.ReLU(),
        nn.Dropout(0.3),
        nn.Linear(12, CLASSES),
    )


class Classifier(pl.LightningModule):
    """Automatic optimization; remembers which samples it saw and which losses it had."""

    def __init__(self, optimizer: Callable[..., Any] = torch.optim.Adam) -> None:
        super().__init__()
        self.net = network()
        self.make_optimizer = optimizer
        self.seen: list[int] = []
        self.losses: list[float] = []

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)

    def loss(self, batch: Any) -> Tensor:
        x, y, index = batch
        logits = self(x)
        loss = cross_entropy(logits, y)
        self.seen += index.tolist()
        self.losses.append(loss.item())
        accuracy = (logits.argmax(1) == y).float().mean()
        self.log("train_accuracy", accuracy, on_step=False, on_epoch=True, sync_dist=True)
        return loss

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.loss(batch)

    def configure_optimizers(self) -> Any:
        return self.make_optimizer(self.parameters(), lr=0.05)


class Silent(Classifier):
    """Logs no training accuracy; takes pairs."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = cross_entropy(self(batch[0]), batch[1])
        self.losses.append(loss.item())
        self.log("train_loss", loss)
        return loss


class Mapped(Silent):
    """The same with mappings, as ``mapped_loader`` makes them."""

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.seen += batch["index"].tolist()
        return super().training_step((batch["x"], batch["labels"]), batch_idx)


class ByHand(Classifier):
    """Manual optimization."""

    automatic_optimization = False

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        self.clip_gradients(optimizer, gradient_clip_val=0.5, gradient_clip_algorithm="norm")
        optimizer.step()


class Rivals(Classifier):
    """As in a GAN: two networks, two optimizers, one step of each per batch."""

    automatic_optimization = False

    def __init__(self) -> None:
        super().__init__()
        self.generator = nn.Linear(2, FEATURES)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        for_generator, for_classifier = self.optimizers()
        x, y, _ = batch
        self.toggle_optimizer(for_generator)
        faked = self.generator(torch.randn(len(x), 2))
        for_generator.zero_grad()
        self.manual_backward(cross_entropy(self(faked), y))
        for_generator.step()
        self.untoggle_optimizer(for_generator)
        for_classifier.zero_grad()
        self.manual_backward(self.loss(batch) - 0.1 * self(faked.detach()).square().mean())
        for_classifier.step()

    def configure_optimizers(self) -> Any:
        return [
            torch.optim.SGD(self.generator.parameters(), lr=0.01, momentum=0.9),
            torch.optim.Adam(self.net.parameters(), lr=0.05),
        ]


def loader(size: int = SAMPLES, *, shuffle: bool = True) -> DataLoader[Any]:
    return DataLoader(NoisySamples(size), batch_size=BATCH, shuffle=shuffle)


def mapped_loader(*, shuffle: bool = True) -> DataLoader[Any]:
    def mapped(items: list[Any]) -> dict[str, Tensor]:
        x, y, index = zip(*items, strict=True)
        return {"x": torch.stack(x), "labels": torch.stack(y), "index": torch.tensor(index)}

    return DataLoader(NoisySamples(), batch_size=BATCH, shuffle=shuffle, collate_fn=mapped)


def trainer(path: Path, callbacks: Sequence[pl.Callback] = (), **options: Any) -> pl.Trainer:
    defaults = {
        "max_epochs": 3,
        "accelerator": "cpu",
        "logger": False,
        "enable_progress_bar": False,
        "enable_model_summary": False,
        "enable_checkpointing": any(isinstance(c, pl.callbacks.Checkpoint) for c in callbacks),
        "num_sanity_val_steps": 0,
        "default_root_dir": path,
    }
    return pl.Trainer(callbacks=list(callbacks), **(defaults | options))


def fit(
    module: pl.LightningModule, path: Path, callbacks: Sequence[pl.Callback] = (), **options: Any
) -> pl.Trainer:
    torch.manual_seed(5)
    made = trainer(path, callbacks, **options)
    made.fit(module, loader())
    return made


def traces(module: Classifier, trained: pl.Trainer) -> list[tuple[str, Any]]:
    """Everything that training left behind, as values that can be compared bit by bit."""
    found: list[tuple[str, Any]] = [("seen", module.seen), ("losses", module.losses)]
    found += [(name, raw(value)) for name, value in module.state_dict().items()]
    for number, optimizer in enumerate(trained.optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            found += [(f"{number}.{index}.{k}", raw(v)) for k, v in state.items()]
    return [*found, ("random", torch.get_rng_state().tolist())]


def raw(value: Any) -> Any:
    """The bytes of a tensor; other values as they are."""
    if not isinstance(value, Tensor):
        return value
    return value.detach().contiguous().reshape(-1).view(torch.uint8).tolist()
