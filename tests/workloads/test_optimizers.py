import torch
from torch.optim import SGD, Adam, AdamW

from rote.workloads.optimizers import make_optimizer, set_learning_rate
from rote.workloads.spec import Adam as AdamSpec
from rote.workloads.spec import Sgd


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
