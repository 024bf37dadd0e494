"""The learning rate of an epoch, as a function of its number alone."""

import math

from rote.workloads.spec import Cosine, Exponential, RunSpec


def learning_rate(spec: RunSpec, epoch: int) -> float:
    """The learning rate with which an epoch is trained, and after which it is probed.

    Args:
        spec: the run.
        epoch: its number, from 1.

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
