from typing import Any

import pytest
import torch

from rote.workloads.objectives import Cdr, CrossEntropy, Mixup, NceRce, NflRce, make_objective
from rote.workloads.spec import FieldError, RunSpec

LOGITS, LABELS = torch.tensor([[1.0, 0.2, -0.4]]), torch.tensor([1])


@pytest.mark.parametrize(
    ("objective", "kind"),
    [
        ("cross-entropy", CrossEntropy),
        ("nce-rce", NceRce),
        ("nfl-rce", NflRce),
        ("mixup", Mixup),
        ({"name": "cdr", "noise_rate": 0.2}, Cdr),
    ],
)
def test_every_name_has_its_objective(objective: Any, kind: type) -> None:
    spec = RunSpec.from_dict({"objective": objective})
    assert type(make_objective(spec, num_classes=3)) is kind


def test_weights_may_be_given_or_follow_from_the_number_of_classes() -> None:
    def loss(num_classes: int, **weights: float) -> float:
        spec = RunSpec.from_dict({"objective": {"name": "nce-rce", **weights}})
        return make_objective(spec, num_classes).loss(LOGITS, LABELS).item()

    assert loss(3) == NceRce(1, 1).loss(LOGITS, LABELS).item()
    assert loss(100) == NceRce(10, 0.1).loss(LOGITS, LABELS).item()
    assert loss(100, alpha=2, beta=0) == NceRce(2, 0).loss(LOGITS, LABELS).item()


def test_cdr_takes_the_rate_of_the_noise() -> None:
    noise = {"model": "pair", "rate": 0.3}
    cdr = make_objective(
        RunSpec.from_dict({"objective": {"name": "cdr", "schedule": "constant"}, "noise": noise}), 3
    )
    assert isinstance(cdr, Cdr)
    assert cdr.share == pytest.approx(0.7)


def test_cdr_requires_a_noise_rate() -> None:
    with pytest.raises(FieldError, match=r"`objective.noise_rate` is required"):
        make_objective(RunSpec.from_dict({"objective": "cdr"}), 3)
