"""Small networks of torch's own layers, one for every kind that has a state or a trick."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint

from compat.check import Subject

CLASSES = 4
BATCH = 6


class Sequences(nn.Module):
    """A recurrent layer over rows of pixels."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images of 8 × 8."""
        found = self.layer(x.squeeze(1))
        logits: Tensor = self.head((found[0] if isinstance(found, tuple) else found)[:, -1])
        return logits


class Attention(nn.Module):
    """Attention over rows of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images of 8 × 8."""
        rows = x.squeeze(1)
        logits: Tensor = self.head(self.attend(rows, rows, rows)[0].mean(1))
        return logits


class Checkpointed(nn.Module):
    """Forgets activations, and draws its dropout masks twice."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.5))
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images of 8 × 8."""
        logits: Tensor = self.head(checkpoint(self.body, x, use_reentrant=False))
        return logits


def _dense(*between: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), *between, nn.Linear(16, CLASSES))


def _maps(*between: nn.Module) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), *between, nn.Flatten(), nn.LazyLinear(CLASSES)
    )


def _rebuilt(change: Callable[[nn.Module], nn.Module]) -> nn.Module:
    return nn.Sequential(nn.Flatten(), change(nn.Linear(64, 16)), nn.ReLU(), nn.Linear(16, CLASSES))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "Linear": lambda: _dense(nn.ReLU()),
    "Dropout": lambda: _dense(nn.Dropout(0.5)),
    "AlphaDropout": lambda: _dense(nn.SELU(), nn.AlphaDropout(0.3)),
    "FeatureAlphaDropout": lambda: _maps(nn.FeatureAlphaDropout(0.3)),
    "Dropout2d": lambda: _maps(nn.Dropout2d(0.3)),
    "RReLU": lambda: _dense(nn.RReLU()),
    "PReLU": lambda: _dense(nn.PReLU()),
    "BatchNorm1d": lambda: _dense(nn.BatchNorm1d(16)),
    "BatchNorm2d": lambda: _maps(nn.BatchNorm2d(4), nn.ReLU()),
    "BatchNorm2d without momentum": lambda: _maps(nn.BatchNorm2d(4, momentum=None)),
    "InstanceNorm2d": lambda: _maps(nn.InstanceNorm2d(4, track_running_stats=True)),
    "GroupNorm": lambda: _maps(nn.GroupNorm(2, 4)),
    "LayerNorm": lambda: _dense(nn.LayerNorm(16)),
    "RMSNorm": lambda: _dense(nn.RMSNorm(16)),
    "LocalResponseNorm": lambda: _maps(nn.LocalResponseNorm(2)),
    "FractionalMaxPool2d": lambda: _maps(nn.FractionalMaxPool2d(2, output_size=4)),
    "weight_norm": lambda: _rebuilt(parametrizations.weight_norm),
    "spectral_norm": lambda: _rebuilt(parametrizations.spectral_norm),
    "orthogonal": lambda: _rebuilt(parametrizations.orthogonal),
    "old spectral_norm": lambda: _rebuilt(nn.utils.spectral_norm),
    "RNN": lambda: Sequences(nn.RNN(8, 16, 2, batch_first=True, dropout=0.2)),
    "LSTM": lambda: Sequences(nn.LSTM(8, 16, 2, batch_first=True, dropout=0.2)),
    "LSTM with proj_size": lambda: Sequences(nn.LSTM(8, 20, batch_first=True, proj_size=16)),
    "GRU": lambda: Sequences(nn.GRU(8, 8, batch_first=True, bidirectional=True)),
    "MultiheadAttention": Attention,
    "TransformerEncoder": lambda: Sequences(
        nn.TransformerEncoder(
            nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, nn.Linear(8, 16)
        )
    ),
    "checkpoint": Checkpointed,
}


def plain_network(name: str) -> Subject:
    """One of them, run once, so that lazy layers have their weights."""
    model, inputs = NETWORKS[name](), torch.randn(BATCH, 1, 8, 8)
    with torch.no_grad():
        model.eval()(inputs)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    return Subject(model, optimizer, inputs, CLASSES, (BATCH,))
