"""Which optimizers are tried: every public one of the libraries that are installed."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import SGD, AdamW, Optimizer

from compat.check import Item, Subject

CLASSES = 4
BATCH = 8

LIBRARIES = (
    "torch.optim",
    "timm.optim",
    "pytorch_optimizer",
    "torch_optimizer",
    "transformers.optimization",
    "fastai.optimizer",
    "schedulefree",
    "heavyball",
    "optimi",
    "dadaptation",
    "prodigyopt",
    "lion_pytorch",
    "adabelief_pytorch",
    "came_pytorch",
    "adan_pytorch",
    "kron_torch",
    "madgrad",
    "pytorch_ranger",
    "ranger21",
    "galore_torch",
)

OPTIONS: dict[str, dict[str, Any]] = {
    "torch.optim.SparseAdam": {"sparse": True},
    "transformers.optimization.Adafactor": {"lr": None},
    "ranger21.Ranger21": {"num_epochs": 2, "num_batches_per_epoch": 4},
    "ranger21.Ranger21abel": {"num_epochs": 2, "num_batches_per_epoch": 4},
}
"""What some of them must be told, beside what they ask for by the names of their arguments."""

NOT_OPTIMIZERS = {
    "heavyball.SOAPBase",
    "heavyball.PSGDBase",
    "transformers.optimization.LayerWiseDummyOptimizer",
    "pytorch_optimizer.BaseOptimizer",
}
"""Bases of others and placeholders, which cannot step."""


class Network(nn.Module):
    """Weights of four, two and one axes, and no state of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.GroupNorm(2, 4)
        self.hidden = nn.Linear(64, 16)
        self.head = nn.Linear(16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        """Logits of images of 8 × 8."""
        features = torch.tanh(self.norm(self.conv(x)))[:, :, ::2, ::2].flatten(1)
        logits: Tensor = self.head(torch.tanh(self.hidden(features)))
        return logits


class Words(nn.Module):
    """An embedding with sparse gradients and nothing else to train."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.EmbeddingBag(20, CLASSES, sparse=True)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of lines of seven words."""
        logits: Tensor = self.embed(tokens)
        return logits


def items() -> Iterator[Item]:
    """Every optimizer that can be found."""
    for library in LIBRARIES:
        try:
            module = import_module(library)
        except ImportError:
            continue
        names = _NAMED[library]() if library in _NAMED else _classes(module)
        for name in names:
            yield Item("optimizer", library, name, _builder(library, name))


def item(path: str) -> Item:
    """Return the optimizer class at ``package.module:Name``."""
    library, _, name = path.partition(":")
    return Item("optimizer", library, name, _builder(library, name))


def _classes(module: Any) -> list[str]:
    return [
        name
        for name, kind in sorted(vars(module).items())
        if isinstance(kind, type)
        and issubclass(kind, Optimizer)
        and kind is not Optimizer
        and f"{module.__name__}.{name}" not in NOT_OPTIMIZERS
    ]


def _of_timm() -> list[str]:
    names: list[str] = import_module("timm.optim").list_optimizers()
    return [*names, "lookahead_adamw", "lookahead_sgd", "lookahead_radam"]


def _of_fastai() -> list[str]:
    return ["SGD", "RMSProp", "Adam", "RAdam", "QHAdam", "Larc", "Lamb", "ranger", "Lookahead"]


_NAMED: dict[str, Callable[[], list[str]]] = {
    "timm.optim": _of_timm,
    "fastai.optimizer": _of_fastai,
}
"""Libraries whose optimizers are known by other names than those of classes."""


def _builder(library: str, name: str) -> Callable[[], Subject]:
    def build() -> Subject:
        options = dict(OPTIONS.get(f"{library}.{name}", {}))
        if options.pop("sparse", False):
            model: nn.Module = Words()
            inputs = torch.randint(20, (BATCH, 7))
        else:
            model, inputs = Network(), torch.randn(BATCH, 1, 8, 8)
        optimizer = _made(library, name, model, options)
        if callable(getattr(optimizer, "train", None)):
            optimizer.train()  # of those that keep two sets of weights
        return Subject(model, optimizer, inputs, CLASSES, (BATCH,))

    return build


def _made(library: str, name: str, model: nn.Module, options: dict[str, Any]) -> Any:
    module = import_module(library)
    if library == "timm.optim":
        return module.create_optimizer_v2(model, opt=name, lr=1e-2)
    if library == "fastai.optimizer":
        if name == "Lookahead":
            return module.Lookahead(module.Adam(list(model.parameters()), lr=1e-2))
        return getattr(module, name)(list(model.parameters()), lr=1e-2)
    if library == "heavyball":
        module.utils.compile_mode = None  # minutes of compiling, and nothing else to be seen
    if f"{library}.{name}" in _SPECIAL:
        return _SPECIAL[f"{library}.{name}"](getattr(module, name), model)
    kind = getattr(module, name)
    asked = inspect.signature(kind).parameters
    needed = [p.name for p in asked.values() if p.default is p.empty and p.kind in (0, 1, 3)]
    known = _known(model)
    arguments = {word: known[word] for word in needed if word in known}
    if "lr" in asked and asked["lr"].default is None:
        arguments["lr"] = 1e-3
    return kind(**arguments | options)


def _known(model: nn.Module) -> dict[str, Any]:
    parameters = list(model.parameters())
    return {
        "params": parameters,
        "model": model,
        "optimizer": AdamW(parameters, lr=1e-2),
        "base_optimizer": SGD,
        "num_data": BATCH,
        "num_iterations": 100,
        "lr": 1e-3,
    }


def _matrices_and_rest(kind: Any, model: nn.Module) -> list[Any]:
    """Muon takes matrices; another optimizer steps beside it."""
    matrices = [p for p in model.parameters() if p.dim() == 2]
    rest = [p for p in model.parameters() if p.dim() != 2]
    return [kind(matrices, lr=1e-2), AdamW(rest, lr=1e-2)]


def _grouped(kind: Any, model: nn.Module) -> Any:
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.dim() >= 2], "use_muon": True},
        {"params": [p for p in parameters if p.dim() < 2], "use_muon": False},
    ]
    return kind(groups)


def _gsam(kind: Any, model: nn.Module) -> Any:
    library = import_module("pytorch_optimizer")
    base = AdamW(model.parameters(), lr=1e-2)
    lr = library.LinearScheduler(base, t_max=10, max_lr=1e-2)
    rho = library.ProportionScheduler(lr, max_lr=1e-2)
    return kind(model.parameters(), base_optimizer=base, model=model, rho_scheduler=rho)


_SPECIAL: dict[str, Callable[[Any, nn.Module], Any]] = {
    "torch.optim.Muon": _matrices_and_rest,
    "pytorch_optimizer.Muon": _grouped,
    "pytorch_optimizer.AdaMuon": _grouped,
    "pytorch_optimizer.AdaGO": _grouped,
    "pytorch_optimizer.DistributedMuon": _grouped,
    "pytorch_optimizer.NorMuon": _grouped,
    "pytorch_optimizer.GSAM": _gsam,
    "heavyball.SplitOpt": lambda kind, model: kind(
        [{"params": list(model.parameters()), "optimizer": import_module("heavyball").AdamW}]
    ),
}
"""How those are made whose arguments do not say what they want."""
