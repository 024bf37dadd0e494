"""Models, optimizers and moments of training that the probe must leave without a trace."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import LBFGS, SGD, Adagrad, Adam, AdamW, NAdam, Optimizer, RMSprop

CLASSES = 4
BATCH = 6


class Tied(nn.Module):
    """A token model whose head is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(CLASSES, 5)
        self.mix = nn.Linear(5, 5)
        self.head = nn.Linear(5, CLASSES, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x.flatten(1)[:, :7].abs() * 10).long() % CLASSES
        hidden: Tensor = torch.tanh(self.mix(self.embed(tokens).mean(1)))
        return self.head(hidden)  # type: ignore[no-any-return]


class Attention(nn.Module):
    """One transformer layer over rows of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(
            8, nhead=2, dim_feedforward=12, dropout=0.2, batch_first=True
        )
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.layer(x.squeeze(1)).mean(1))  # type: ignore[no-any-return]


class Counting(nn.Module):
    """Keeps state outside the registries: a counter, a replaced buffer, a list, a cached tensor."""

    seen: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, CLASSES)
        self.calls = 0
        self.history: list[int] = []
        self.register_buffer("seen", torch.zeros(()))
        self.memory = torch.zeros(CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.history.append(self.calls)
        self.seen = self.seen + len(x)
        out: Tensor = self.linear(x.flatten(1)) + 0.01 * self.memory + 0.001 * self.calls
        self.memory += out.detach().mean(0)
        return out


def _mlp(*between: nn.Module) -> nn.Sequential:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 8), *between, nn.Linear(8, CLASSES))


def _cnn() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3, padding=1),
        nn.BatchNorm2d(3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(12, CLASSES),
    )


def _frozen() -> nn.Sequential:
    model = _mlp(nn.BatchNorm1d(8), nn.ReLU())
    model[1].requires_grad_(False)
    model[2].eval()
    return model


MODELS: dict[str, Callable[[], nn.Module]] = {
    "mlp": lambda: _mlp(nn.Tanh()),
    "cnn_batch_norm": _cnn,
    "dropout": lambda: _mlp(nn.ReLU(), nn.Dropout(0.5)),
    "tied_weights": Tied,
    "frozen_layers": _frozen,
    "attention": Attention,
    "outside_optimizer": lambda: _mlp(nn.LayerNorm(8), nn.Tanh()),
    "counting": Counting,
}


class Graph(nn.Module):
    """A graph network: a sparse adjacency matrix, as buffer and as plain attribute."""

    def __init__(self) -> None:
        super().__init__()
        adjacency = torch.eye(8).roll(1, 0) + torch.eye(8)
        self.register_buffer("coo", adjacency.to_sparse_coo())
        self.csr = adjacency.to_sparse_coo().coalesce()
        self.linear = nn.Linear(64, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        rows = x.squeeze(1).permute(1, 0, 2).flatten(1)
        mixed = torch.sparse.mm(self.csr, torch.sparse.mm(self.get_buffer("coo"), rows))
        out: Tensor = self.linear(mixed.view(8, len(x), 8).permute(1, 0, 2).flatten(1))
        return out


class Recurrent(nn.Module):
    """An LSTM, whose weights are listed twice, and which carries its last state along."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 5, batch_first=True, dropout=0.3, num_layers=2)
        self.head = nn.Linear(5, CLASSES)
        self.last = torch.zeros(5)

    def forward(self, x: Tensor) -> Tensor:
        hidden, _ = self.lstm(x.squeeze(1))
        self.last = 0.5 * self.last + hidden[:, -1].mean(0).detach()
        return self.head(hidden[:, -1]) + 0.1 * self.last.sum()  # type: ignore[no-any-return]


class Marked(nn.Module):
    """Hangs an attribute on a parameter, as gradient-sampling libraries do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(64, CLASSES)
        self.embed = nn.EmbeddingBag(4, CLASSES, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        self.linear.weight.seen = getattr(self.linear.weight, "seen", 0) + 1  # type: ignore[union-attr]
        tokens = (x.flatten(1)[:, :3].abs() * 10).long() % 4
        out: Tensor = self.linear(x.flatten(1)) + self.embed(tokens)
        return out


class MaxNorm(nn.Module):
    """An embedding that writes to its own weight in the forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8, 5, max_norm=0.5)
        self.head = nn.Linear(15, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        tokens = (x.flatten(1)[:, :3].abs() * 10).long() % 8
        return self.head(self.embed(tokens).flatten(1))  # type: ignore[no-any-return]


ODD_MODELS: dict[str, Callable[[], nn.Module]] = {
    "graph": Graph,
    "recurrent": Recurrent,
    "marked": Marked,
    "max_norm": MaxNorm,
}


class Lion(Optimizer):
    """A third-party optimizer: sign of an interpolated momentum, kept in ``state``."""

    def __init__(self, params: Iterable[Any], lr: float = 0.01, beta: float = 0.9) -> None:
        self.steps_taken = 0
        super().__init__(params, {"lr": lr, "beta": beta})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        self.steps_taken += 1
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                momentum = state.setdefault("momentum", torch.zeros_like(parameter))
                momentum.lerp_(parameter.grad, 1 - group["beta"])
                # Old-style code hands the parameter new memory instead of writing to it.
                parameter.data = parameter.data - group["lr"] * momentum.sign()


Build = Callable[[list[Tensor]], Optimizer]
OPTIMIZERS: dict[str, Build] = {
    "sgd": lambda ps: SGD(ps, lr=0.1),
    "sgd_momentum": lambda ps: SGD(ps, lr=0.1, momentum=0.9, weight_decay=0.01),
    "sgd_nesterov": lambda ps: SGD(ps, lr=0.1, momentum=0.9, nesterov=True),
    "sgd_nesterov_foreach": lambda ps: SGD(ps, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "sgd_fused": lambda ps: SGD(ps, lr=0.1, momentum=0.9, fused=True),
    "adam": lambda ps: Adam(ps, lr=0.01),
    "adam_foreach": lambda ps: Adam(ps, lr=0.01, amsgrad=True, foreach=True),
    "adamw": lambda ps: AdamW(ps, lr=0.01),
    "adamw_fused": lambda ps: AdamW(ps, lr=0.01, fused=True),
    "rmsprop": lambda ps: RMSprop(ps, lr=0.01, momentum=0.9, centered=True),
    "adagrad": lambda ps: Adagrad(ps, lr=0.05),
    "nadam": lambda ps: NAdam(ps, lr=0.01),
    "lbfgs": lambda ps: LBFGS(ps, lr=0.1, max_iter=3, history_size=3),
    "third_party": lambda ps: Lion(ps),
}

MODES = ("train", "eval")
MOMENTS = ("no_steps_yet", "mid_training", "half_accumulated")


def trained_parameters(name: str, model: nn.Module) -> list[Tensor]:
    """What the optimizer of a case holds."""
    if name == "outside_optimizer":
        stray = nn.Parameter(torch.ones(3))  # in the optimizer, not in the model
        stray.grad = torch.full((3,), 0.5)
        return [*list(model.parameters())[:-2], stray]
    return [parameter for parameter in model.parameters() if parameter.requires_grad]


def build_case(model_name: str, optimizer_name: str) -> tuple[nn.Module, Optimizer]:
    """A model and its optimizer, the same every time."""
    torch.manual_seed(0)
    model = (MODELS | ODD_MODELS)[model_name]()
    return model, OPTIMIZERS[optimizer_name](trained_parameters(model_name, model))


def images(count: int, seed: int = 0) -> Tensor:
    """Small images, the same every time."""
    return torch.randn(count, 1, 8, 8, generator=torch.Generator().manual_seed(seed))
