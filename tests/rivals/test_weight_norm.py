"""The norm of the weights against a norm written out."""

import math

import pytest
import torch
from torch import nn

from rote.rivals.weight_norm import WeightNorm
from tests.rivals.signals import context_of


def read_of(model: nn.Module) -> dict[str, float]:
    signal = WeightNorm()
    signal.start(context_of(model, torch.zeros(2, 3), 2))
    return dict(signal.read(1))


def test_equals_the_root_of_the_sum_of_squares() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    squares = sum(float(value) ** 2 for p in model.parameters() for value in p.detach().flatten())
    assert read_of(model)["weight_norm"] == pytest.approx(math.sqrt(squares), rel=1e-6)


def test_frozen_weights_and_buffers_do_not_count() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model[0].requires_grad_(False)
    model[1].running_var.fill_(100.0)
    assert read_of(model)["weight_norm"] == pytest.approx(math.sqrt(2))  # scale 1 twice, shift 0
    assert read_of(model.requires_grad_(False)) == {}


def test_a_norm_that_is_not_finite_is_left_out() -> None:
    model = nn.Linear(2, 2)
    model.weight.data.fill_(torch.inf)
    assert read_of(model) == {}
