from typing import Any

import pytest
import torch
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LRScheduler

from rote.workloads.schedules import learning_rate
from rote.workloads.spec import RunSpec

EPOCHS = 12


def by_torch(make: Any) -> list[float]:
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.1)
    scheduler: LRScheduler = make(optimizer)
    rates = []
    for _ in range(EPOCHS):
        rates.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return rates


@pytest.mark.parametrize(
    ("schedule", "make"),
    [
        ({"name": "cosine"}, lambda o: CosineAnnealingLR(o, EPOCHS)),
        ({"name": "cosine", "t_max": 5}, lambda o: CosineAnnealingLR(o, 5)),
        ({"name": "cosine", "min_lr": 0.02}, lambda o: CosineAnnealingLR(o, EPOCHS, 0.02)),
        ({"name": "exponential", "gamma": 0.9}, lambda o: ExponentialLR(o, 0.9)),
    ],
)
def test_learning_rates_are_those_of_torch(schedule: dict[str, Any], make: Any) -> None:
    spec = RunSpec.from_dict({"epochs": EPOCHS, "schedule": schedule})
    found = [learning_rate(spec, epoch) for epoch in range(1, EPOCHS + 1)]
    assert found == pytest.approx(by_torch(make), rel=1e-9, abs=1e-12)


def test_without_a_schedule_the_rate_stays() -> None:
    spec = RunSpec.from_dict({"schedule": "none", "optimizer": {"name": "sgd", "lr": 0.3}})
    assert {learning_rate(spec, epoch) for epoch in range(1, 31)} == {0.3}
