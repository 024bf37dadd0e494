"""Compiled models: a probe of another batch size compiles nothing and changes no kernel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rote

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The .grad attribute")]

Backend = Callable[[Any, list[Tensor]], Callable[..., Any]]


class Net(nn.Module):
    """Of a class of its own: torch leaves calls of ``nn.Sequential`` uncompiled."""

    def __init__(self) -> None:
        super().__init__()
        self.body: nn.Module = nn.Sequential(nn.Linear(4, 8), nn.Tanh())
        self.head = nn.Linear(8, 3)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.head(self.body(x))
        return out


def compiled_call(model: nn.Module, backend: Backend) -> None:
    model.compile(backend=backend)


def compiled_part(model: nn.Module, backend: Backend) -> None:
    assert isinstance(model, Net)
    model.body = torch.compile(model.body, backend=backend)  # type: ignore[assignment]


def compiled_forward(model: nn.Module, backend: Backend) -> None:
    model.forward = torch.compile(model.forward, backend=backend)  # type: ignore[method-assign]


@pytest.mark.parametrize("apply", [compiled_call, compiled_part, compiled_forward])
def test_a_probe_compiles_nothing(apply: Callable[[nn.Module, Backend], None]) -> None:
    torch.compiler.reset()
    graphs: list[list[torch.Size]] = []

    def count(graph: Any, inputs: list[Tensor]) -> Callable[..., Any]:
        graphs.append([entry.shape for entry in inputs if isinstance(entry, Tensor)])
        forward: Callable[..., Any] = graph.forward
        return forward

    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    apply(model, count)
    x, y = torch.randn(8, 4), torch.arange(8) % 3
    for step in range(4):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
        if step == 1:
            known = len(graphs)
            tracker = rote.track(model, optimizer, inputs=torch.randn(30, 4), num_classes=3)
        if step > 1:
            assert tracker.probe() is not None
    assert known > 0
    assert len(graphs) == known
