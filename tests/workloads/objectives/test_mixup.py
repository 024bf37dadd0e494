import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from rote.workloads.objectives import Mixup
from rote.workloads.randomness import make_numpy_generator, make_torch_generator


def test_the_loss_is_that_of_a_mixed_batch() -> None:
    torch.manual_seed(0)
    model, x, y = nn.Linear(4, 3), torch.randn(6, 4), torch.arange(6) % 3
    mixup = Mixup(0.5, seed=7)
    mixup.start_epoch(2)
    share = make_numpy_generator(7, "mixup-share", 2).beta(0.5, 0.5)
    partner = torch.randperm(6, generator=make_torch_generator(7, "mixup-pairs", 2))
    mixed = model(share * x + (1 - share) * x[partner])
    expected = share * cross_entropy(mixed, y) + (1 - share) * cross_entropy(mixed, y[partner])
    assert mixup.training_loss(model, x, y)[0].item() == pytest.approx(expected.item(), rel=1e-5)


def test_the_probe_measures_plain_cross_entropy() -> None:
    logits, labels = torch.randn(5, 3), torch.arange(5) % 3
    assert torch.equal(Mixup(1.0, seed=0).loss(logits, labels), cross_entropy(logits, labels))
    assert not Mixup(1.0, seed=0).is_robust


def test_an_epoch_draws_the_same_whatever_came_before() -> None:
    model, x, y = nn.Linear(4, 3), torch.randn(6, 4), torch.arange(6) % 3
    fresh, used = Mixup(1.0, seed=1), Mixup(1.0, seed=1)
    used.start_epoch(1)
    used.training_loss(model, x, y)
    losses = []
    for mixup in (fresh, used):
        mixup.start_epoch(2)
        losses.append(mixup.training_loss(model, x, y)[0].item())
    assert losses[0] == losses[1]


def test_images_keep_their_layout() -> None:
    seen = []

    class Look(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append(x.is_contiguous(memory_format=torch.channels_last))
            return x.mean((2, 3))

    x = torch.randn(4, 3, 5, 5).contiguous(memory_format=torch.channels_last)
    mixup = Mixup(1.0, seed=0)
    mixup.start_epoch(1)
    mixup.training_loss(Look(), x, torch.tensor([0, 1, 2, 0]))
    assert seen == [True]
