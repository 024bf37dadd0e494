"""Weights come from torch's global generator and from nothing else."""

import random

import numpy as np
import pytest
import torch

from rote.workloads.architectures import ARCHITECTURES, build_architecture

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("architectures")]


def weights(name: str, seed: int) -> dict[str, torch.Tensor]:
    torch.manual_seed(seed)
    model = build_architecture(name, num_classes=10, in_channels=3, image_size=8, scale=0.25)
    return model.state_dict()


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_same_seed_same_weights(name: str) -> None:
    random.seed(1)
    np.random.seed(1)
    states = random.getstate(), np.random.get_state()[1].tobytes()  # type: ignore[index,union-attr]
    first = weights(name, seed=3)
    assert random.getstate() == states[0]
    assert np.random.get_state()[1].tobytes() == states[1]  # type: ignore[index,union-attr]
    random.seed(2)
    np.random.seed(2)
    second = weights(name, seed=3)
    assert first.keys() == second.keys()
    assert all(torch.equal(first[key], second[key]) for key in first)
    other = weights(name, seed=4)
    assert not torch.equal(first["head.weight"], other["head.weight"])
