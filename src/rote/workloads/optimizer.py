"""From the optimizer and schedule of a spec to the optimizer, and its learning rate by epoch."""

import math
from collections.abc import Iterable

from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer
from torch.optim import Adam as TorchAdam

from rote.workloads.spec import Cosine, Exponential, RunSpec, Sgd
from rote.workloads.spec import Optimizer as OptimizerSpec


def make_optimizer(spec: OptimizerSpec, parameters: Iterable[Tensor]) -> Optimizer:
    """Make the optimizer of a run."""
    if isinstance(spec, Sgd):
        return SGD(
            parameters,
            lr=spec.lr,
            momentum=spec.momentum,
            weight_decay=spec.weight_decay,
            nesterov=spec.nesterov,
        )
    build = AdamW if spec.name == "adamw" else TorchAdam
    return build(
        parameters,
        lr=spec.lr,
        betas=(spec.beta1, spec.beta2),
        eps=spec.eps,
        weight_decay=spec.weight_decay,
    )


def set_learning_rate(optimizer: Optimizer, lr: float) -> None:
    """Give every group of parameters this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = lr


def learning_rate(spec: RunSpec, epoch: int) -> float:
    """The learning rate with which an epoch, from 1, is trained, and after which it is probed.

    Example:
        >>> spec = RunSpec.from_dict({"schedule": {"name": "cosine", "t_max": 2}, "epochs": 4})
        >>> [round(learning_rate(spec, epoch), 3) for epoch in (1, 2, 3, 4)]
        [0.1, 0.05, 0.0, 0.05]
    """
    base, passed = spec.optimizer.lr, epoch - 1
    schedule = spec.schedule
    if isinstance(schedule, Cosine):
        period = spec.epochs if schedule.t_max is None else schedule.t_max
        share = (1 + math.cos(math.pi * passed / period)) / 2
        return schedule.min_lr + (base - schedule.min_lr) * share
    if isinstance(schedule, Exponential):
        return base * schedule.gamma**passed
    return base
