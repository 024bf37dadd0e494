"""Ways to shard a small network with FSDP2, and to accumulate gradients on it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from tests.ranks.training import CLASSES, Training


class Tied(nn.Module):
    """Two layers that share one weight, and a normalization with buffers and dropout between."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Linear(36, 9), nn.Linear(9, CLASSES)
        self.there, self.back = nn.Linear(9, 9), nn.Linear(9, 9, bias=False)
        self.back.weight = self.there.weight
        self.between = nn.Sequential(nn.BatchNorm1d(9), nn.ReLU(), nn.Dropout(0.2))

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.between(self.there(self.stem(x.flatten(1))))
        return self.head(self.back(hidden))  # type: ignore[no-any-return]


def shard(model: nn.Module, *, layers: bool = True, **options: Any) -> nn.Module:
    if layers:
        for layer in model.children():
            if isinstance(layer, nn.Linear | nn.Conv2d) and not isinstance(model, Tied):
                fully_shard(layer, **options)
    sharded: Any = fully_shard(model, **options)
    return sharded  # type: ignore[no-any-return]


def without_root(model: nn.Module) -> nn.Module:
    for layer in model.children():
        if isinstance(layer, nn.Linear):
            fully_shard(layer)
    return model


def replicas(model: nn.Module, shape: tuple[int, int]) -> nn.Module:
    mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replicas", "shards"))
    return shard(model, mesh=mesh)


def prefetching(model: nn.Module) -> nn.Module:
    sharded: Any = shard(model)
    layers = [layer for layer in sharded if isinstance(layer, nn.Linear)]
    layers[0].set_modules_to_forward_prefetch(layers[1:])
    layers[-1].set_modules_to_backward_prefetch(layers[:1])
    return sharded  # type: ignore[no-any-return]


@contextmanager
def unsynced(model: Any, accumulates: bool) -> Iterator[None]:
    model.set_requires_gradient_sync(not accumulates)
    model.set_is_last_backward(not accumulates)
    model.set_reshard_after_backward(not accumulates)
    yield


@contextmanager
def unreplicated(model: Any, accumulates: bool) -> Iterator[None]:
    model.set_requires_all_reduce(not accumulates)
    yield


class Accumulating(Training):
    """Leaves FSDP2 in the middle of an accumulation when it is probed."""

    def _probe_at(self, moment: str) -> None:
        super()._probe_at(moment)
        if moment == "half_accumulated":
            model: Any = self.model
            model.set_requires_gradient_sync(True)
            model.set_requires_all_reduce(True)
            model.set_is_last_backward(True)
            model.set_reshard_after_backward(True)
