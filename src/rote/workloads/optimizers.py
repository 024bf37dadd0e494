"""From the optimizer section of a spec to the optimizer."""

from collections.abc import Iterable

from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer
from torch.optim import Adam as TorchAdam

from rote.workloads.spec import Optimizer as OptimizerSpec
from rote.workloads.spec import Sgd


def make_optimizer(spec: OptimizerSpec, parameters: Iterable[Tensor]) -> Optimizer:
    """Make the optimizer of a run.

    Args:
        spec: which, and its settings.
        parameters: what it trains.
    """
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
