from typing import Any

import pytest
import torch
from torch.optim import SGD, Adam, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LRScheduler

from rote.workloads.spec import RunSpec, Sgd
from rote.workloads.spec.run_spec import Adam as AdamSpec
from rote.workloads.workload import get_learning_rate, make_optimizer, set_learning_rate

EPOCHS = 12


def parameters() -> list[torch.Tensor]:
    return [torch.nn.Parameter(torch.ones(2))]


def test_sgd_gets_all_its_settings() -> None:
    spec = Sgd(lr=0.3, momentum=0.8, weight_decay=0.01, nesterov=True)
    made = make_optimizer(spec, parameters())
    assert type(made) is SGD
    expected = {"lr": 0.3, "momentum": 0.8, "weight_decay": 0.01, "nesterov": True}
    assert {name: made.defaults[name] for name in expected} == expected


def test_adam_and_adamw_get_all_their_settings() -> None:
    for name, kind in (("adam", Adam), ("adamw", AdamW)):
        spec = AdamSpec(name=name, lr=0.3, beta1=0.8, beta2=0.7, eps=0.1, weight_decay=0.01)  # type: ignore[arg-type]
        made = make_optimizer(spec, parameters())
        assert type(made) is kind
        expected = {"lr": 0.3, "betas": (0.8, 0.7), "eps": 0.1, "weight_decay": 0.01}
        assert {setting: made.defaults[setting] for setting in expected} == expected


def test_the_learning_rate_reaches_every_group() -> None:
    made = SGD([{"params": parameters()}, {"params": parameters(), "lr": 3.0}], lr=1.0)
    set_learning_rate(made, 0.5)
    assert [group["lr"] for group in made.param_groups] == [0.5, 0.5]


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
    found = [get_learning_rate(spec, epoch) for epoch in range(1, EPOCHS + 1)]
    assert found == pytest.approx(by_torch(make), rel=1e-9, abs=1e-12)


def test_without_a_schedule_the_rate_stays() -> None:
    spec = RunSpec.from_dict({"schedule": "none", "optimizer": {"name": "sgd", "lr": 0.3}})
    assert {get_learning_rate(spec, epoch) for epoch in range(1, 31)} == {0.3}
