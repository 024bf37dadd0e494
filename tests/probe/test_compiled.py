"""Compiled models: a probe of another batch size compiles nothing and changes no kernel."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import rote

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:The .grad attribute")]

Backend = Callable[[Any, list[Tensor]], Callable[..., Any]]


def compiled_call(model: nn.Module, backend: Backend) -> None:
    model.compile(backend=backend)


def compiled_part(model: nn.Module, backend: Backend) -> None:
    assert isinstance(model, nn.Sequential)
    model[1] = torch.compile(model[1], backend=backend)  # type: ignore[assignment]


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
    model = nn.Sequential(nn.Linear(4, 8), nn.Sequential(nn.Tanh(), nn.Linear(8, 3)))
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
