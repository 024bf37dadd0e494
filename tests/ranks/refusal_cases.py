"""Ways to train on many ranks that cannot be probed, and say so at construction."""

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import CPUOffloadPolicy, FullyShardedDataParallel, fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel as DDP  # noqa: N817  # as everybody
from torch.optim import SGD

import rote
from tests.ranks.expectations import raises
from tests.ranks.training import CLASSES, HOLDOUT, mlp


class DeepSpeedEngine(nn.Module):
    """As far as its looks go."""

    __module__ = "deepspeed.runtime.engine"

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module


class Pipe(nn.Sequential):
    """As far as its looks go."""

    __module__ = "torch.distributed.pipelining._IR"


def _refusals(folder: Path) -> None:
    def refused(word: str, model: nn.Module, optimizer: Any = None) -> None:
        optimizer = optimizer or SGD(model.parameters(), lr=0.1)
        with raises(rote.InputError, "rote cannot probe", word):
            rote.track(model, optimizer, inputs=HOLDOUT, num_classes=CLASSES)

    refused("DeepSpeed", DeepSpeedEngine(mlp()))
    refused("pipeline parallelism", Pipe(mlp()))
    for keeps in (False, True):
        flat = FullyShardedDataParallel(mlp(), device_id=torch.device("cpu"), use_orig_params=keeps)
        refused("FSDP1", flat)
        refused("parameters of FSDP1", flat.module, SGD(flat.parameters(), lr=0.1))
    with warnings.catch_warnings(action="ignore"):  # torch's own import is deprecated by torch
        from torch.distributed.optim import ZeroRedundancyOptimizer
    model = DDP(mlp())
    zero = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=SGD, lr=0.1)
    refused("optimizer that is itself distributed (ZeroRedundancyOptimizer)", model, zero)
    mesh = init_device_mesh("cpu", (2,))
    parallel = parallelize_module(mlp(), mesh, {"1": ColwiseParallel()})
    refused("tensor parallelism", parallel)
    refused("parts of the model", nn.Sequential(nn.Flatten(), DDP(nn.Linear(36, CLASSES))))
    alone = [distributed.new_group([number]) for number in range(2)]
    refused("over 1 of the ranks", DDP(mlp(), process_group=alone[distributed.get_rank()]))
    offloaded = fully_shard(mlp(), offload_policy=CPUOffloadPolicy(pin_memory=False))
    refused("CPUOffloadPolicy", offloaded)
    partitioned = mlp()
    partitioned[1].weight.ds_id = 0
    refused("DeepSpeed's partitioned parameters", partitioned)
    # torch itself has no SyncBatchNorm on CPU; it says so at construction, on every rank.
    synced: nn.Module = nn.Sequential(
        nn.Flatten(), nn.Linear(36, 8), nn.SyncBatchNorm(8), nn.Linear(8, CLASSES)
    )
    with raises(rote.InputError, "SyncBatchNorm expected input tensor to be on GPU"):
        rote.track(synced, SGD(synced.parameters(), lr=0.1), inputs=HOLDOUT, num_classes=CLASSES)


CASES: dict[str, Callable[[Path], None]] = {"refusals": _refusals}
