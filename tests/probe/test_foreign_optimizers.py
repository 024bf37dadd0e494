"""Optimizers of packages that keep state in objects of their own: put back, or refused."""

import sys
import sysconfig
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import rote
from rote.errors import InterferenceError, UncopiedStateWarning
from tests.cases import CLASSES, images

X, Y = images(12, seed=3), torch.arange(12) % CLASSES


def foreign(package: str) -> Callable[[type], type]:
    """Makes a class look as if it came from an installed package."""
    module = types.ModuleType(package)
    module.__file__ = f"{sysconfig.get_path('purelib')}/{package}/__init__.py"
    sys.modules[package] = module

    def moved(kind: type) -> type:
        kind.__module__ = package
        return kind

    return moved


@foreign("foreign_core")
class Items:
    """A list that is none, as fastcore's L."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.items = list(items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


@foreign("foreign_core")
class PassesOn:
    """Passes attributes on to what is inside."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "opt":
            raise AttributeError(name)
        return getattr(self.opt, name)


@foreign("foreign_optim")
class Lookahead(PassesOn):
    """As fastai's: no torch optimizer, slow weights in lists of its own kind, a counter."""

    def __init__(self, opt: torch.optim.Optimizer, k: int = 3, alpha: float = 0.5) -> None:
        self.opt, self.k, self.alpha = opt, k, alpha
        self.count, self.slow = 0, cast(Any, None)

    def step(self) -> None:
        groups = self.opt.param_groups
        if self.slow is None:
            self.slow = Items(Items(p.clone().detach() for p in g["params"]) for g in groups)
        self.opt.step()
        self.count += 1
        if self.count % self.k:
            return
        for slow, group in zip(self.slow, groups, strict=True):
            for old, new in zip(slow, group["params"], strict=True):
                old.data.add_(new.data - old.data, alpha=self.alpha)
                new.data.copy_(old.data)


@foreign("foreign_shampoo")
class Preconditioner:
    """Statistics of one parameter, in an object, as scalable Shampoo has them."""

    def __init__(self, size: int) -> None:
        self.statistics = [torch.zeros(size)]
        self.history: dict[str, Any] = {"updates": 0}

    def apply(self, gradient: Tensor) -> Tensor:
        self.history["updates"] += 1
        flat = gradient.reshape(-1)
        self.statistics[0].add_(flat.square())
        self.last = flat.clone()
        return (flat / (self.statistics[0] + 1e-3).sqrt()).reshape(gradient.shape)


@foreign("foreign_shampoo")
class Shampoo(torch.optim.Optimizer):
    def __init__(self, params: Any, lr: float = 0.05) -> None:
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["preconditioner"] = Preconditioner(p.numel())
                p.add_(state["preconditioner"].apply(p.grad), alpha=-group["lr"])


@foreign("foreign_strangers")
class Stranger:
    """An object of a third package, which is not followed."""

    def __init__(self) -> None:
        self.steps = 0
        self.made: object = None


class Strange(torch.optim.SGD):
    """Counts its steps with it."""

    once = False

    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        super().step(closure)
        if self.once:
            self.defaults["stranger"].made = True
        else:
            self.defaults["stranger"].steps += 1


MAKERS: dict[str, Callable[[nn.Module], Any]] = {
    "lookahead": lambda m: Lookahead(torch.optim.Adam(m.parameters(), lr=0.01)),
    "lookahead around sgd": lambda m: Lookahead(torch.optim.SGD(m.parameters(), 0.1), k=2),
    "shampoo": lambda m: Shampoo(m.parameters()),
    "lookahead around shampoo": lambda m: Lookahead(Shampoo(m.parameters())),
}


def trained(make: Callable[[nn.Module], Any], *, probed: bool) -> tuple[list[Any], list[float]]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    optimizer = make(model)
    tracker = None
    if probed:
        tracker = rote.track(model, optimizer, inputs=X, num_classes=CLASSES)
    for _ in range(7):
        model.zero_grad()
        cross_entropy(model(X), Y).backward()
        optimizer.step()
        if tracker is not None:
            tracker.probe()
    drops = [] if tracker is None else [reading.drop for reading in tracker.readings]
    return [p.tolist() for p in model.parameters()], drops


@pytest.mark.parametrize("name", MAKERS)
def test_training_is_the_same_with_state_in_foreign_objects(name: str) -> None:
    bare, _ = trained(MAKERS[name], probed=False)
    probed, drops = trained(MAKERS[name], probed=True)
    assert probed == bare
    assert all(drop != 0 for drop in drops)


def strange(*, once: bool) -> tuple[nn.Module, Strange, Stranger]:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, CLASSES))
    optimizer, stranger = Strange(model.parameters(), lr=0.1), Stranger()
    optimizer.defaults["stranger"], optimizer.once = stranger, once
    return model, optimizer, stranger


def test_state_that_cannot_be_restored_is_refused_by_name_without_verify() -> None:
    model, optimizer, _ = strange(once=False)
    with pytest.raises(InterferenceError, match=r"optimizer\.defaults\[stranger\]"):
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES)


def test_state_created_once_is_only_named() -> None:
    model, optimizer, stranger = strange(once=True)
    with pytest.warns(UncopiedStateWarning, match=r"optimizer\.defaults\[stranger\]") as caught:
        rote.track(model, optimizer, inputs=X, num_classes=CLASSES).probe()
    assert caught[0].filename == __file__
    assert stranger.made is True


def test_checksums_depend_on_positions_signs_and_bits() -> None:
    from rote.snapshot.fingerprint import Checksums

    def compute(tensor: Tensor) -> str:
        return Checksums().compute(tensor)

    values = torch.randn(1001, dtype=torch.float64)
    swapped = values[torch.arange(1001).flip(0)]
    assert compute(values) == compute(values.clone()) != compute(swapped)
    for offset in (0, 1, 3):  # also where eight bytes do not begin at a word
        row = torch.arange(40, dtype=torch.uint8)[offset:]
        other = row.clone()
        assert compute(row) == compute(other)
        other[-1] ^= 1
        assert compute(row) != compute(other)
    assert compute(torch.tensor([0.0])) != compute(torch.tensor([-0.0]))
    grid = torch.randn(4, 3, 5, 5)
    last = grid.to(memory_format=torch.channels_last)
    last[0, 0, 0, 0] += 1
    assert compute(last) != compute(grid.to(memory_format=torch.channels_last))
    assert compute(grid[:, :, ::2]) == compute(grid[:, :, ::2].clone())
    assert compute(torch.empty(3, device="meta")) == "unreadable"
